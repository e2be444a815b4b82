"""How long a takeover takes: from a fault (or an order) to the first batch that the successor committed.

Two members run `bench/takeover_pipeline.py` on the embedded store, or on that of `--store`, with files arriving all the
time. Each round does one of each, in turn, and waits until the standby is warm again:

- `driver_killed`: SIGKILL of the leader's driver and its JVM; the agent lives. `sweep` is how long after its first
  batch the successor has removed all that the leader left, beside its batches.
- `among_orphans`: the same, with `--orphans` files in the storage that dead leaders left, as soon as a batch is
  planned: a successor that finds its batch in the sink is done 0.25 s earlier than one that has it to run. `sweep` is
  how long after its first batch the successor has removed the orphans, beside its batches.
- `among_none`: the same without orphans; `sweep` is of what the leader left.
- `agent_killed`: SIGKILL of the agent alone: its warden ends the driver, and then the session.
- `leader_killed`: SIGKILL of agent, warden, driver and JVM, as a host that loses its power.
- `paused`: SIGSTOP of all of them (the ttl is in the figure); woken afterwards.
- `terminated`: SIGTERM to the agent.
- `switchover`: `tenure switchover`; the figure is the gap in the output: from the old leader's last batch to the first
  batch that nobody had committed before.
- `cold_spark`: the same query on Spark alone, killed before and started again at once, as by a supervisor.

Split: `notice` (the old agent resigned; 0 where it is dead), `elect` (term won), `seed`, `start`, `first_batch`.
Medians, all raw figures and the split go to `build/bench/takeover.json` (`takeover-STORE.json` with servers,
`takeover-s3.json`), for a state of `--keys` keys each, with `--hashes` of 64 letters beside each key. `--storage s3`:
checkpoints and state are in S3, the input on the disk; there are no orphans then, and no plain Spark. `standby`: what
the first standby has paid when it is warm. `batch`: how long the writing of a batch took, by all its leaders' events.

Several stores, and `--watched`, take turns: each turn has new members for each of them, and `--rounds` rounds. With
`--watched` each store has a second side, whose members Prometheus scrapes, and of which a page is open.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.harness import RESULTS, describe_machine
from bench.storage_place import Place, place_of
from bench.takeover_figures import PHASES, SCOPE, Feeder, Found, Side, Takeover, now, put_orphans, show
from bench.takeover_standby import paid, state_bytes
from bench.watchers import Watchers
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.operate.orders import Orders
from tenure.operate.snapshot import take_snapshot
from tenure.rundirs.run_directory import RunDirectory
from tests.kit.members import MemberProcess, pause_between_writes, read_events
from tests.kit.servers import STORES, NotInstalled, started
from tests.kit.waiting import NEVER_S, wait_until

PIPELINE = Path(__file__).with_name("takeover_pipeline.py")
AMONG = ("among_none", "among_orphans")
DRIVER_KILLED = ("driver_killed", *AMONG)


def at(event: dict[str, Any]) -> datetime:
    """When an event happened."""
    return datetime.fromisoformat(event["at"])


class Bench:
    """Two members, their feeder, and a plain Spark beside them, for one size of the state."""

    def __init__(
        self, folder: Path, place: Place, console: Console, *, store: str, keys: int, arguments: argparse.Namespace
    ) -> None:
        """`store`: its URL."""
        self.watchers: Watchers | None = None
        self.ttl_s = arguments.ttl
        self.folder = folder
        self.place = place
        os.environ.update(place.own_environment)
        self.storage = f"{place.root}/storage"
        self.hashes = arguments.hashes
        self.store = store
        self.keys = keys
        self.orphans = arguments.orphans
        self.console = console
        self.patience_s = 3 * NEVER_S + keys / 10_000  # in S3 a standby rests between its rehearsals
        self.members: list[MemberProcess] = []
        self.standby: dict[str, float] = {}
        for name in ("input", "output", "storage", "plain", "plain/input"):
            (folder / name).mkdir(parents=True)
        self.feeder = Feeder(folder / "input", folder / "plain" / "input", keys=keys)

    def start_member(self) -> MemberProcess:
        """One more member."""
        arguments = ["run", str(PIPELINE), "--quiet", "--ttl", f"{self.ttl_s}s", "--master", "local[2]"]
        gate = self.place.gate()
        arguments += ["--store", self.store, "--storage", self.storage]
        arguments += [] if gate is None else ["--connector", "s3"]
        arguments += ["--param", f"input={self.folder}/input", "--param", f"output={self.place.root}/output"]
        arguments += ["--param", f"hashes={self.hashes}"]
        for setting, value in {**self.place.conf(gate), "spark.sql.shuffle.partitions": "2"}.items():
            arguments += ["--conf", f"{setting}={value}"]
        variables = {**os.environ, **self.place.environment(gate), "TMPDIR": str(self.folder)}
        arguments += [] if self.watchers is None else ["--http", self.watchers.watch()]
        name = f"m{len(self.members):02d}"
        member = MemberProcess(name, folder=self.folder, arguments=arguments, environment=variables)
        self.members.append(member)
        member.start()
        return member

    def run(self, rounds: int, scenarios: list[str]) -> dict[str, list[Takeover]]:
        """All rounds: in each, every scenario once."""
        found: dict[str, list[Takeover]] = {name: [] for name in scenarios}
        self.start_member()
        self.wait(lambda: self.members[0].events("TermWon"), "the first term")
        self.feeder.start()
        self.wait(lambda: len(self.members[0].events("BatchCommitted")) > 3, "the state")
        self.wait(self.has_snapshot, "a snapshot of the state")
        standby, since_s = self.start_member(), time.monotonic()
        self.pair()
        self.standby = {"seconds": round(time.monotonic() - since_s, 1), "state_bytes": state_bytes(self.runs)}
        self.standby |= paid(standby, self.folder, requests=self.place.requests_of(-1))
        self.console.print(f"{self.keys:,} keys, a warm standby: {self.standby}")
        for number in range(rounds):
            for name in scenarios:
                took = self.cold_spark() if name == "cold_spark" else self.takeover(name)
                found[name].append(took)
                told = f"{self.keys:,} keys, round {number + 1}, {name}: {took.seconds:.2f} s {took.phases}"
                self.console.print(told if took.sweep_s is None else f"{told}, swept {took.sweep_s:.1f} s later")
        return found

    @property
    def runs(self) -> str:
        """The folder of all run directories."""
        return f"{self.storage}/{SCOPE}/runs/keys"

    def has_snapshot(self) -> bool:
        """Whether every partition's state was written as a whole once: from then on a start need not replay it."""
        (newest,) = RunDirectory(self.runs).list()
        stores = [RunDirectory(f"{self.runs}/{newest}").list(f"state/0/{partition}") for partition in range(2)]
        return all(any(name.endswith(".zip") for name in names) for names in stores)

    def takeover(self, name: str) -> Takeover:
        """One fault or order, and what came of it."""
        leader, standby = self.pair()
        orphans = put_orphans(self.folder, self.orphans) if name == "among_orphans" else []
        os.sync()  # orphans have been there for a while: the disk is done with them
        before = len(standby.events())
        batches = len(leader.events("BatchCommitted"))
        self.wait(lambda: len(leader.events("BatchCommitted")) > batches + 3, "batches of the leader")
        faults: dict[str, Callable[[], None]] = {
            **dict.fromkeys(DRIVER_KILLED, lambda: os.killpg(leader.driver() or 0, signal.SIGKILL)),
            "agent_killed": lambda: os.kill(leader.pid, signal.SIGKILL),
            "leader_killed": leader.kill,
            "paused": lambda: pause_between_writes(leader, store=self.store),
            "terminated": leader.terminate,
            "switchover": self.switchover,
        }
        epoch = leader.events("TermWon")[-1]["epoch"]
        if name in AMONG:
            planned = len(leader.events("CheckpointSaved"))
            self.wait(lambda: len(leader.events("CheckpointSaved")) > planned, "the midst of a batch")
        began = now()
        faults[name]()
        self.wait(
            lambda: [e for e in standby.events()[before:] if e["event"] == "BatchCommitted"], f"the successor: {name}"
        )
        took = self.measure(name, leader, standby, before=before, began=began)
        if name in DRIVER_KILLED and self.place.root.startswith("file:"):
            self.wait(lambda: not any(path.exists() for path in orphans or self.left_of(epoch)), "the sweep")
            took.sweep_s = (now() - began).total_seconds() - took.seconds
        if name == "paused":
            leader.wake()
        if name in ("agent_killed", "leader_killed", "terminated"):
            leader.wait(timeout_s=60)
            self.start_member()
        return took

    def left_of(self, epoch: int) -> list[Path]:
        """What the leader of an epoch left in the storage."""
        storage = self.folder / "storage" / SCOPE
        return [path for kind in ("runs/*", "blobs") for path in storage.glob(f"{kind}/e{epoch:08d}*")]

    def measure(
        self, name: str, leader: MemberProcess, standby: MemberProcess, *, before: int, began: datetime
    ) -> Takeover:
        """Read the figures from the events."""
        if name == "switchover":
            last = leader.events("BatchCommitted")[-1]
            self.wait(lambda: self.first_new(standby, before, last["batch"]), "a new batch")
            began = at(last)
        new = standby.events()[before:]
        first = {kind: at(next(e for e in new if e["event"] == kind)) for kind in ("TermWon", "QueryStarted")}
        seeded = at(next(e for e in new if e["event"] == "RunDirectorySeeded"))
        batch = self.first_new(standby, before, last["batch"]) if name == "switchover" else None
        done = at(batch or next(e for e in new if e["event"] == "BatchCommitted"))
        resigned = [at(e) for e in leader.events("TermEnded") if at(e) > began and at(e) < first["TermWon"]]
        steps = [began, resigned[-1] if resigned else began, first["TermWon"], seeded, first["QueryStarted"], done]
        phases = {phase: round((steps[i + 1] - steps[i]).total_seconds(), 3) for i, phase in enumerate(PHASES)}
        return Takeover((done - began).total_seconds(), (done - first["TermWon"]).total_seconds(), phases)

    def first_new(self, standby: MemberProcess, before: int, last: int) -> dict[str, Any] | None:
        """The first batch of the successor that the old leader had not committed."""
        found = [e for e in standby.events()[before:] if e["event"] == "BatchCommitted" and e["batch"] > last]
        return found[0] if found else None

    def switchover(self) -> None:
        """What `tenure switchover` asks."""
        with closing(open_store(self.store, clock=SystemClock())) as store:
            Orders(store, SCOPE, clock=SystemClock()).switchover(to=None)

    def cold_spark(self) -> Takeover:
        """A restart of plain Spark on its own checkpoint; the members are stopped meanwhile, to leave it the cores."""
        log = self.folder / "plain" / "events.jsonl"
        for member in self.members:
            if member.running:
                member.pause()
        try:
            before = len(read_events(log))
            began = now()
            command = [sys.executable, "-m", "bench.takeover_pipeline"]
            command += [str(self.folder / "plain" / name) for name in ("input", "output", "checkpoint", "events.jsonl")]
            command.append(str(self.hashes))
            with (self.folder / "plain.log").open("ab") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
            try:
                self.wait(lambda: len(read_events(log)) > before, "a batch of plain Spark")
                took = Takeover((at(read_events(log)[before]) - began).total_seconds())
                # Its next start must find a batch to do, and a state that is not all in one changelog.
                self.wait(lambda: len(read_events(log)) > before + 2, "more batches of plain Spark")
            finally:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        finally:
            batches = self.batches()
            for member in self.members:
                if member.running:
                    member.wake()
        # Until somebody leads again, a snapshot shows the leader that was paused past its ttl.
        self.wait(lambda: self.batches() > batches, "a leader after the pause")
        return took

    def batch_seconds(self) -> list[float]:
        """How long the writing of each batch took, but of those that the sink had already."""
        committed = [event for member in self.members for event in member.events("BatchCommitted")]
        return [float(event["seconds"]) for event in committed if not event["repeated"]]

    def batches(self) -> int:
        """How many batches the members have committed."""
        return sum(len(member.events("BatchCommitted")) for member in self.members)

    def pair(self) -> tuple[MemberProcess, MemberProcess]:
        """The leader, and the standby once it is warm."""

        def ready() -> tuple[MemberProcess, MemberProcess] | None:
            found = take_snapshot(store, SCOPE)
            states = {one.member: one.state for one in found.members}
            live = [member for member in self.members if member.running]
            leaders = [member for member in live if member.name == found.leader]
            # A leader announces itself as one a moment after its grant.
            warm = [one for one in live if states.get(one.name) is State.WARM and one.name != found.leader]
            return (leaders[0], warm[0]) if leaders and warm else None

        with closing(open_store(self.store, clock=SystemClock())) as store:
            found = self.wait(ready, "a leader and a warm standby")
        assert isinstance(found, tuple)
        return found

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for a condition. Raises TimeoutError with what the members printed."""
        try:
            return wait_until(condition, timedelta(seconds=self.patience_s), what=what)
        except TimeoutError:
            for member in self.members:
                self.console.print(
                    f"--- {member.name} ({member.exit_code})\n{member.output()[-1500:]}", highlight=False
                )
            raise

    def close(self) -> None:
        """End everything."""
        self.feeder.stop()
        for member in self.members:
            member.kill()


def main() -> int:
    """Run and print."""
    scenarios = [*DRIVER_KILLED, "agent_killed", "leader_killed", "paused", "terminated", "switchover", "cold_spark"]
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--keys", type=int, nargs="+", default=[10, 5_000_000])
    parser.add_argument("--hashes", type=int, default=0)
    parser.add_argument("--orphans", type=int, default=100_000)
    parser.add_argument("--ttl", type=int, default=4, help="of the members, in seconds")
    parser.add_argument("--storage", choices=("file", "s3"), default="file")
    parser.add_argument("--store", choices=STORES, nargs="+", default=["sqlite"])
    parser.add_argument(
        "--watched", action="store_true", help="each store a second time, scraped and with an open page"
    )
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--scenarios", nargs="+", choices=scenarios, default=scenarios)
    arguments = parser.parse_args()
    if arguments.storage == "s3":
        arguments.scenarios = [one for one in arguments.scenarios if one not in (*AMONG, "cold_spark")]
    console = Console(width=150)
    sides = [Side(store, watched) for store in arguments.store for watched in (False, True)[: 1 + arguments.watched]]
    began = time.monotonic()
    found: dict[int, dict[Side, Found]] = {keys: {side: Found() for side in sides} for keys in arguments.keys}
    try:
        for keys in arguments.keys:
            for turn in range(arguments.turns):
                for side in sides[turn % len(sides) :] + sides[: turn % len(sides)]:
                    console.print(f"--- {side}, turn {turn + 1}")
                    run_one(side, found[keys][side], console, keys=keys, arguments=arguments)
    except NotInstalled as missing:
        console.print(f"bench: {missing}")
        return 1
    figures = {str(keys): {str(side): one.figures() for side, one in by.items()} for keys, by in found.items()}
    show(figures, arguments.rounds * arguments.turns, console)
    RESULTS.mkdir(parents=True, exist_ok=True)
    raw = {str(keys): {str(side): one.raw() for side, one in by.items()} for keys, by in found.items()}
    content: dict[str, Any] = {"by_keys": figures, "machine": asdict(describe_machine()), "raw": raw}
    content["whole_run_s"] = round(time.monotonic() - began, 1)
    kinds = [kind for kind in (*arguments.store, arguments.storage) if kind not in ("sqlite", "file")]
    name = "-".join(["takeover", *kinds, *(["watched"] if arguments.watched else [])])
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


def run_one(side: Side, found: Found, console: Console, *, keys: int, arguments: argparse.Namespace) -> None:
    """One turn of a side. Raises NotInstalled."""
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        with (
            started(side.store, folder) as url,
            place_of(arguments.storage, folder, delay_s=0) as place,
            closing(Bench(folder, place, console, store=url, keys=keys, arguments=arguments)) as bench,
            ExitStack() as stack,
        ):
            if side.watched:
                bench.watchers = stack.enter_context(closing(Watchers(folder, page=f"/ui/api/p/{SCOPE}/live")))
            found.add(bench.run(arguments.rounds, arguments.scenarios))
            found.batch_s += bench.batch_seconds()
            found.standby.append(bench.standby)
            if bench.watchers is not None:
                console.print(f"{bench.watchers.scrapes()} scrapes, {bench.watchers.events} updates of the page")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
