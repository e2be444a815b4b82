"""Many scopes on one store: what the idle members cost its servers, and when all scopes have a leader after all died.

Each member is a session, its part in the election, and, while it leads, a second client that plans as a driver does.
Spark does not run. The bench has three parts: each leader plans every few seconds; nobody plans; all leaders are killed
at once. It uses the public calls of election, sessions and checkpoints alone.
"""

from __future__ import annotations

import json
import logging
import mmap
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.fleet_counters import (
    IN_USE,
    QUORUM_WRITES,
    REQUESTS,
    SERVERS_CPU,
    Figures,
    between,
    now,
    processor_of,
    totals,
)
from bench.harness import RESULTS, describe_machine, percentile
from bench.plans import QUERY, planned
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import SessionEnded, TenureError
from tenure.scope_context import ScopeContext
from tests.kit.servers import Server, served
from tests.kit.waiting import wait_until

CLIENTS_CPU: Final = "processor of the members (s)"
_AGAIN_S: Final = 0.5
"""The pause of a member after an error."""


@dataclass(frozen=True)
class Scene:
    """Where members run, and how."""

    folder: Path
    url: str
    ttl: timedelta
    every_s: float
    plans: mmap.mmap
    """Its first byte: whether leaders plan."""


class Notes:
    """The notes of one process: a line in a file each, which a kill leaves behind."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()  # guards the file

    def write(self, what: str, scope: str, member: str, **fields: Any) -> None:
        line = {"at": time.monotonic(), "what": what, "scope": scope, "member": member, **fields}
        with self._lock:
            self._file.write(json.dumps(line) + "\n")


class Member:
    """One member, until its process is killed."""

    def __init__(self, scene: Scene, store: CoordinationStore, notes: Notes, *, scope: Scope, name: str) -> None:
        self._scene = scene
        self._store = store
        self._notes = notes
        self._scope = scope
        self._name = name
        self._clock = SystemClock()

    def run(self) -> None:
        """Stand by and lead, again and again."""
        while True:
            try:
                with SessionKeeper(self._store, ttl=self._scene.ttl, clock=self._clock) as keeper:
                    self._live(keeper)
                    if keeper.liveness.over:
                        self._note("session lost", why=keeper.liveness.why)
            except SessionEnded as ended:
                self._note("session lost", why=str(ended))
            except TenureError as error:
                self._note("error", why=f"{type(error).__name__}: {error}")
            self._clock.sleep(_AGAIN_S)

    def _live(self, keeper: SessionKeeper) -> None:
        election = Election(self._store, self._scope, member=self._name, clock=self._clock)
        election.join(keeper, host="bench", pid=os.getpid(), state=State.WARM)
        self._note("joined")
        term = election.campaign(keeper, stop=threading.Event())
        assert term is not None, "nobody sets the event"
        self._note("won", epoch=term.epoch)
        with election.attending(term), closing(open_store(self._scene.url, clock=self._clock)) as driver:
            self._lead(driver, term)
        self._note("term lost", why=term.liveness.why)

    def _lead(self, driver: CoordinationStore, term: Term) -> None:
        context = ScopeContext(driver, self._scope, f"file://{self._scene.folder}/storage", self._clock)
        checkpoints = context.checkpoints(QUERY)
        newest = checkpoints.newest(term)
        batch = 0 if newest is None else newest.batch + 1
        while not term.lost:
            if self._scene.plans[0]:
                begun_s = time.perf_counter()
                checkpoints.plan(term, planned(batch, epoch=term.epoch, member=self._name, clock=self._clock))
                self._note("planned", took_s=time.perf_counter() - begun_s)
                batch += 1
            self._clock.sleep(self._scene.every_s)

    def _note(self, what: str, **fields: Any) -> None:
        self._notes.write(what, self._scope, self._name, **fields)


def live(scene: Scene, members: Sequence[tuple[Scope, str]], number: int) -> None:
    """A process with its members, which share one client of the store."""
    logging.getLogger("tenure").setLevel(logging.ERROR)  # each process would log the same fault of its server
    notes = Notes(scene.folder / f"notes-{number:05}.jsonl")
    with closing(open_store(scene.url, clock=SystemClock())) as store:
        threads = [
            threading.Thread(target=Member(scene, store, notes, scope=scope, name=name).run, daemon=True)
            for scope, name in members
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Fleet:
    """All members, in processes."""

    def __init__(self, scene: Scene, *, scopes: int, members: int, together: int) -> None:
        self.scene = scene
        self.scopes = [Scope(f"scope-{number:04}") for number in range(scopes)]
        # By the number of the member: the first of each scope are in the same processes, and mostly lead.
        every = [(scope, f"member-{number}") for number in range(members) for scope in self.scopes]
        self.groups = [every[start : start + together] for start in range(0, len(every), together)]
        self._processes: list[ForkProcess] = []

    @property
    def count(self) -> int:
        """How many members there are."""
        return sum(map(len, self.groups))

    @contextmanager
    def running(self) -> Iterator[None]:
        """All members, for the block."""
        context = multiprocessing.get_context("fork")  # the modules are imported once, and nothing is open yet
        self._processes = [
            context.Process(target=live, args=(self.scene, group, number)) for number, group in enumerate(self.groups)
        ]
        try:
            for process in self._processes:
                process.start()
            yield
        finally:
            for process in self._processes:
                if process.pid is not None:
                    process.kill()
                    process.join()

    def pids(self) -> list[int]:
        """Of the processes that live."""
        return [process.pid for process in self._processes if process.pid is not None and process.is_alive()]

    def notes(self, *, after_s: float = 0.0) -> list[dict[str, Any]]:
        """All notes in the order of their time. A line that a kill cut off is left out."""
        found = []
        for file in self.scene.folder.glob("notes-*.jsonl"):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            found += [json.loads(line) for line in lines if line.endswith("\n")]
        return sorted((one for one in found if one["at"] > after_s), key=lambda one: float(one["at"]))

    def leaders(self, *, after_s: float = 0.0) -> dict[str, str]:
        """Scope -> its newest leader."""
        return {one["scope"]: one["member"] for one in self.notes(after_s=after_s) if one["what"] == "won"}

    def kill_leaders(self) -> tuple[float, set[str]]:
        """Kill the processes of all leaders, but those with the last member of a scope, so that each keeps one: when
        that was done, and the scopes whose leaders died."""
        leaders = self.leaders()
        last = self.groups[-1][-1][1]
        doomed = [
            number
            for number, group in enumerate(self.groups)
            if all(name != last for _, name in group) and any(leaders.get(scope) == name for scope, name in group)
        ]
        at_s = time.monotonic()
        for number in doomed:
            pid = self._processes[number].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        died = {(scope, name) for number in doomed for scope, name in self.groups[number]}
        return at_s, {scope for scope, name in leaders.items() if (scope, name) in died}


def work_of(fleet: Fleet, servers: Server | None, *, seconds: float) -> Mapping[str, float]:
    """What the fleet costs in so many seconds: each total by member and second, and what the servers hold."""

    def all_totals() -> Figures:
        return {**totals(servers), CLIENTS_CPU: processor_of(fleet.pids)}

    held, before, begun_s = now(servers), all_totals(), time.monotonic()
    time.sleep(seconds)
    after, took_s = all_totals(), time.monotonic() - begun_s
    done = between(before, after)
    costs = {name: figure / took_s / fleet.count for name, figure in done.items()}
    holds = now(servers)
    costs |= {f"{name}, now": figure for name, figure in holds.items()}
    if IN_USE in holds and done[QUORUM_WRITES]:
        costs["history of a write (bytes)"] = (holds[IN_USE] - held[IN_USE]) / done[QUORUM_WRITES]
    return costs


def run(fleet: Fleet, servers: Server | None, *, seconds: float, console: Console) -> dict[str, object]:
    """All three parts; the figures."""
    scene = fleet.scene
    with fleet.running():
        wait_until(lambda: len(fleet.leaders()) == len(fleet.scopes), what="a leader of each scope")
        wait_until(
            lambda: (
                len({(one["scope"], one["member"]) for one in fleet.notes() if one["what"] == "joined"}) == fleet.count
            ),
            what="all members",
        )
        console.print(f"{fleet.count} members are up")
        scene.plans[0] = 1
        time.sleep(2 * scene.every_s)
        nearly = work_of(fleet, servers, seconds=seconds)
        scene.plans[0] = 0
        time.sleep(2 * scene.every_s)
        idle = work_of(fleet, servers, seconds=seconds)
        before = fleet.notes()
        died_s, headless = fleet.kill_leaders()
        wait_until(lambda: fleet.leaders(after_s=died_s).keys() >= headless, what="new leaders")
        won = {one["scope"]: one["at"] - died_s for one in fleet.notes(after_s=died_s) if one["what"] == "won"}
    kinds = Counter(one["what"] for one in before)
    plans = [one["took_s"] for one in before if one["what"] == "planned"]
    elected = sorted(won.values())
    return {
        "nearly idle": nearly,
        "idle": idle,
        "plans": len(plans),
        "plan, median (ms)": round(1000 * percentile(plans, 50), 1) if plans else None,
        "plan, p99 (ms)": round(1000 * percentile(plans, 99), 1) if plans else None,
        "sessions lost": kinds["session lost"],
        "terms beyond the first": kinds["won"] - len(fleet.scopes),
        "errors": kinds["error"],
        "leaders killed": len(headless),
        "leader again, first (s)": round(elected[0], 2),
        "leader again, median (s)": round(percentile(elected, 50), 2),
        "leader again, all (s)": round(elected[-1], 2),
        "why": sorted({str(one.get("why")) for one in before if one["what"] in ("session lost", "error")})[:10],
    }


def show(figures: Mapping[str, Any], *, title: str, console: Console) -> None:
    """The tables."""
    nearly, idle = figures["nearly idle"], figures["idle"]
    work = Table(title=f"{title}: by member and second, but `now`")
    for heading in ("figure", "nearly idle", "idle"):
        work.add_column(heading, justify="left" if heading == "figure" else "right")
    first = (REQUESTS, QUORUM_WRITES, SERVERS_CPU, CLIENTS_CPU)
    for name in (*(name for name in first if name in nearly), *(name for name in nearly if name not in first)):
        work.add_row(name, *(f"{part[name]:,.4g}" if name in part else "" for part in (nearly, idle)))
    console.print(work)
    rest = Table(caption=str(describe_machine()))
    rest.add_column("figure")
    rest.add_column("value", justify="right")
    for name, value in figures.items():
        if name not in ("nearly idle", "idle"):
            rest.add_row(name, str(value))
    console.print(rest)


def measure(
    store: str,
    *,
    scopes: int,
    members: int,
    together: int,
    seconds: float,
    ttl: timedelta,
    every_s: float,
    console: Console,
) -> Path:
    """Start the servers, run all parts, and write the figures; their file."""
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name, served(store, Path(name)) as (url, servers):
        scene = Scene(Path(name), url, ttl=ttl, every_s=every_s, plans=mmap.mmap(-1, 1))
        fleet = Fleet(scene, scopes=scopes, members=members, together=together)
        figures = run(fleet, servers, seconds=seconds, console=console)
    show(figures, title=f"fleet: {store}, {scopes} scopes x {members}, ttl {ttl.seconds} s", console=console)
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"fleet-{store}.json"
    asked = {"store": store, "scopes": scopes, "members": members, "together": together, "seconds": seconds}
    raw = {"machine": asdict(describe_machine()), "load": os.getloadavg(), **asked, **figures}
    file.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    return file
