"""How many requests of its storage a pipeline makes: a batch, while idle, while rehearsing; and what a takeover takes.

Two members run `bench/storage_pipeline.py`: raw rows and windowed counts, both into Delta. In S3 (a real server), each
member has its own gate that counts its requests. `--delay`: milliseconds that each request waits in the gate. In HDFS,
the NameNode counts the calls of all members; what goes to DataNodes is not counted.

- `batches`: `--batches` files, each a batch of both queries. Requests by part of the pipeline, for a batch of both.
- `idle`: no files for `--idle` seconds, with a warm standby.
- `rehearsing`: requests of the standby a second, from its start until it is warm.
- `takeover`: the leader's host is killed amid batches. From the grant to the first batch of each query.
- `plain`: the same queries on Spark alone on the same storage; requests, and from its cold start to its first batches.
  Where its own query fails, it is tried again in another folder, and `failed` says how often that was.
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
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from rich.console import Console
from rich.table import Table

from bench.harness import RESULTS, describe_machine
from bench.storage_place import QUERIES, STORAGES, Place, place_of
from bench.storage_requests import PARTS, Counted, Request, parts_of
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.records import Scope
from tenure.operate.snapshot import take_snapshot
from tests.kit.members import MemberProcess, read_events
from tests.kit.servers import NotInstalled
from tests.kit.servers.connectors import ivy_folder
from tests.kit.waiting import wait_until

PIPELINE: Final = Path(__file__).with_name("storage_pipeline.py")
SCOPE: Final = Scope("storage")
ROWS_A_FILE: Final = 100
_TRIES: Final = 3
"""How often plain Spark is tried."""
JSON_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class Bench:
    """Two members and their storage."""

    def __init__(self, place: Place, folder: Path, console: Console) -> None:
        self._place = place
        self._folder = folder
        self._console = console
        self._store = f"sqlite://{folder}/store.db"
        self._input = folder / "input"
        self._input.mkdir()
        self._files = 0
        self.gates: dict[str, Counted | None] = {}

    def member(self, name: str) -> MemberProcess:
        """A member that is not started yet."""
        gate = self.gates[name] = self._place.gate()
        arguments = ["run", str(PIPELINE), "--quiet", "--ttl", "5s", "--master", "local[1]", "--store", self._store]
        arguments += ["--storage", f"{self._place.root}/storage", *(() if gate is None else ("--connector", "s3"))]
        for param in (f"input={self._input}", f"output={self._place.root}/output"):
            arguments += ["--param", param]
        for setting, value in self._place.conf(gate).items():
            arguments += ["--conf", f"{setting}={value}"]
        variables = {**os.environ, **self._place.environment(gate)}
        return MemberProcess(name, folder=self._folder, arguments=arguments, environment=variables)

    def feed(self, count: int) -> None:
        """So many files at once."""
        fresh = self._folder / "fresh"
        fresh.mkdir(exist_ok=True)
        for _ in range(count):
            at = datetime.fromtimestamp(60 * self._files, UTC).strftime(JSON_TIME)
            first = ROWS_A_FILE * self._files
            lines = (json.dumps({"id": first + number, "at": at}) for number in range(ROWS_A_FILE))
            (fresh / f"{self._files:06}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
            self._files += 1
        for path in sorted(fresh.iterdir()):
            path.rename(self._input / path.name)

    def wait(self, happened: Any, what: str, *members: MemberProcess) -> Any:
        try:
            return wait_until(happened, timedelta(minutes=20), what=what)
        except TimeoutError:
            for member in members:
                self._console.print(member.output()[-3000:], highlight=False)
            raise

    def done(self, member: MemberProcess) -> Counter[str]:
        """The batches of each query that a member has committed."""
        return Counter(event["query"] for event in member.events("BatchCommitted"))

    def seen(self, name: str) -> list[Request]:
        """The requests of a member so far."""
        gate = self.gates[name]
        return [] if gate is None else list(gate.requests)

    def is_warm(self) -> bool:
        with closing(open_store(self._store, clock=SystemClock())) as store:
            return any(member.state is State.WARM for member in take_snapshot(store, SCOPE).members)

    def quiet(self, seconds: float) -> None:
        """Wait until no member has made a request for so long."""
        last, since_s = self._place.requests(), time.monotonic()

        def is_quiet() -> bool:
            nonlocal last, since_s
            if (now := self._place.requests()) != last:
                last, since_s = now, time.monotonic()
            return time.monotonic() - since_s > seconds

        self.wait(is_quiet, "quiet")

    def run(self, batches: int, idle_s: int) -> dict[str, Any]:
        """All parts; the figures."""
        figures: dict[str, Any] = {}
        with ExitStack() as members:
            anna = members.enter_context(self.member("anna"))
            self.feed(3)
            self.wait(lambda: all(self.done(anna)[query] >= 3 for query in QUERIES), "the first batches", anna)
            bert = members.enter_context(self.member("bert"))
            began_s = time.monotonic()
            self.feed(3)
            self.wait(self.is_warm, "a warm standby", anna, bert)
            rehearsing = self.seen("bert")
            figures["rehearsing"] = self.rates(rehearsing, began_s)
            self.quiet(10)
            figures["batches"] = self.batches(batches, anna)
            self.quiet(10)
            before, all_before = {name: len(self.seen(name)) for name in self.gates}, self._place.requests()
            time.sleep(idle_s)
            figures["idle"] = {name: len(self.seen(name)) - before[name] for name in self.gates}
            figures["idle"]["all"] = self._place.requests() - all_before
            self._console.print(f"idle for {idle_s} s: {figures['idle']}")
            figures["takeover"] = self.takeover(anna, bert)
        self._console.print_json(json.dumps(figures))
        return figures

    def rates(self, requests: Sequence[Request], began_s: float) -> dict[str, Any]:
        """The requests of a standby that warms up: in all, and in its busiest second."""
        seconds = Counter(int(request.at_s - began_s) for request in requests)
        busy = sorted(seconds.values())
        parts = parts_of(requests, scope=SCOPE, tables=self._place.tables)
        return {
            "requests": len(requests),
            "seconds": round(time.monotonic() - began_s, 1),
            "mean_of_busy_seconds": round(sum(busy) / max(1, len(busy)), 1),
            "busiest_second": max(busy, default=0),
            "parts": dict(parts),
        }

    def batches(self, count: int, leader: MemberProcess) -> dict[str, Any]:
        """Requests a batch of both queries, by part."""
        before, all_before = {name: len(self.seen(name)) for name in self.gates}, self._place.requests()
        done = self.done(leader)
        self.feed(count)
        self.wait(lambda: self.done(leader)["rows"] >= done["rows"] + count, f"{count} batches", leader)
        self.wait(lambda: self.done(leader)["counts"] >= done["counts"] + count, f"{count} batches", leader)
        self.quiet(5)
        ran = {query: self.done(leader)[query] - done[query] for query in QUERIES}
        began = min(
            datetime.fromisoformat(event["at"]) for event in leader.events("BatchStarted")[-sum(ran.values()) :]
        )
        ended = max(datetime.fromisoformat(event["at"]) for event in leader.events("BatchCommitted"))
        found: dict[str, Any] = {"batches": ran, "seconds": round((ended - began).total_seconds(), 1)}
        for name in self.gates:
            some = self.seen(name)[before[name] :]
            parts = parts_of(some, scope=SCOPE, tables=self._place.tables)
            found[name] = {part: round(parts[part] / count, 1) for part in PARTS if parts[part]}
            kinds: Counter[str] = Counter()
            for request in some:
                kinds[f"{request.part(scope=SCOPE, tables=self._place.tables)}: {request.kind}"] += 1
            found[f"{name}_kinds"] = {kind: round(number / count, 2) for kind, number in sorted(kinds.items())}
        found["total"] = round((self._place.requests() - all_before) / count, 1)
        return found

    def takeover(self, leader: MemberProcess, standby: MemberProcess) -> dict[str, float]:
        """Seconds from the kill, and from the grant, to the successor's first batch of each query."""
        done = self.done(leader)
        self.feed(20)
        self.wait(lambda: self.done(leader)["counts"] >= done["counts"] + 3, "batches before the kill", leader)
        leader.kill()
        killed = datetime.now(UTC)
        self.wait(lambda: all(self.done(standby)[query] for query in QUERIES), "the successor", standby)
        won = datetime.fromisoformat(standby.events("TermWon")[-1]["at"])
        firsts = [
            datetime.fromisoformat(next(e for e in standby.events("BatchCommitted") if e["query"] == query)["at"])
            for query in QUERIES
        ]
        return {
            "after_the_kill_s": round((max(firsts) - killed).total_seconds(), 2),
            "first_batch_after_the_grant_s": round((min(firsts) - won).total_seconds(), 2),
            "both_queries_after_the_grant_s": round((max(firsts) - won).total_seconds(), 2),
        }

    def plain(self, count: int) -> dict[str, Any]:
        """The same queries on Spark alone: requests a batch, and a cold start."""
        for failed in range(_TRIES):
            try:
                return {**self._plain(count, f"plain{failed}"), "failed": failed}
            except ChildProcessError as died:
                self._console.print(f"plain Spark failed: {died}", highlight=False)
        return {"failed": _TRIES}

    def _plain(self, count: int, name: str) -> dict[str, Any]:
        """Raises ChildProcessError: plain Spark has ended by itself."""
        log, folder = self._folder / f"{name}.jsonl", self._folder / name
        (folder / "input").mkdir(parents=True)
        self._input, self._files = folder / "input", 0
        gate = self._place.gate()
        conf = {**self._place.conf(gate), **({} if gate is None else _packages())}
        command = [sys.executable, "-m", "bench.storage_pipeline", str(self._input)]
        command += [f"{self._place.root}/{name}/output", f"{self._place.root}/{name}/checkpoints", str(log)]
        command += [f"{name}={value}" for name, value in conf.items()]

        def batches(query: str) -> list[datetime]:
            return [datetime.fromisoformat(one["at"]) for one in read_events(log) if one["query"] == query]

        def started() -> subprocess.Popen[bytes]:
            with (self._folder / f"{name}.log").open("ab") as output:
                variables = {**os.environ, **self._place.environment(gate)}
                return subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, env=variables)

        def have(counts: Mapping[str, int]) -> bool:
            if process.poll() is not None:
                raise ChildProcessError((self._folder / f"{name}.log").read_text()[-400:])
            return all(len(batches(query)) >= counts[query] for query in QUERIES)

        process = started()
        try:
            self.feed(3)
            self.wait(lambda: have(dict.fromkeys(QUERIES, 3)), "plain Spark")
            before = self._place.requests()
            done = {query: len(batches(query)) for query in QUERIES}
            self.feed(count)
            self.wait(lambda: have({query: done[query] + count for query in QUERIES}), "batches of plain Spark")
            requests = self._place.requests() - before
            self.feed(20)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            done = {query: len(batches(query)) for query in QUERIES}
            began = datetime.now(UTC)
            process = started()
            self.wait(lambda: have({query: done[query] + 1 for query in QUERIES}), "plain Spark again")
            first = max(batches(query)[done[query]] for query in QUERIES)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return {"requests": round(requests / count, 1), "cold_start_s": round((first - began).total_seconds(), 2)}


def _packages() -> Mapping[str, str]:
    jars = sorted((ivy_folder() / "jars").glob("*.jar"))
    return {"spark.jars": ",".join(quote(str(jar)) for jar in jars)}


def show(figures: Mapping[str, Any], title: str, console: Console) -> None:
    """The requests as a table."""
    table = Table(title=title)
    for column in ("requests a batch of both queries", "leader", "standby"):
        table.add_column(column, justify="left" if column.startswith("requests") else "right")
    batches = figures["batches"]
    for part in PARTS:
        table.add_row(part, *(str(batches[name].get(part, 0.0)) for name in ("anna", "bert")))
    table.add_row("all", *(f"{sum(batches[name].values()):.1f}" for name in ("anna", "bert")))
    console.print(table)
    rest = {name: value for name, value in figures.items() if name != "batches"}
    console.print_json(json.dumps(rest))


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.storage", description=__doc__)
    parser.add_argument("--storage", choices=STORAGES, default="s3")
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds added to each request")
    parser.add_argument("--batches", type=int, default=30, help="files, each a batch of two queries")
    parser.add_argument("--idle", type=int, default=60, help="seconds")
    parser.add_argument("--no-plain", action="store_true", help="leave plain Spark out")
    given = parser.parse_args()
    console = Console(width=120)
    console.print(str(describe_machine()))
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        with place_of(given.storage, folder, delay_s=given.delay / 1000) as place:
            bench = Bench(place, folder, console)
            figures = bench.run(given.batches, given.idle)
            if not given.no_plain:
                figures["plain"] = bench.plain(given.batches)
    except NotInstalled as missing:
        sys.stderr.write(f"bench: {missing}\n")
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    name = f"storage-{given.storage}" + (f"-{given.delay:g}ms" if given.delay else "")
    show(figures, name, console)
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"machine": str(describe_machine()), **figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
