"""Many pipelines in one SQLite file: which sessions end by themselves, and how long a plan takes.

Each pipeline has two members, each member a process of its own with the parts of a real member that ask the store: a
session, the election, and, while it leads, a second client as a driver has it, which plans a batch every five seconds.
Spark does not run. `--busy` loops beside them take the processor. Nothing is killed, so each session that ends, and
each term after the first of a pipeline, is a fault of the store.

With `--store` it is another bench, of many scopes on any store (`fleet_scopes`): what idle members cost the servers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.fleet_scopes import measure
from bench.harness import RESULTS, describe_machine, percentile
from bench.plans import QUERY, planned
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.errors import TenureError
from tenure.scope_context import ScopeContext
from tests.kit.servers import STORES

START_S: Final = 20.0
"""How long after the start the members may take to come up; the terms of this time count as first terms."""


@dataclass
class Seen:
    """What a member has seen."""

    plans_s: list[float] = field(default_factory=list)
    sessions_lost: list[str] = field(default_factory=list)
    terms: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Scene:
    """Where members run, and how."""

    folder: Path
    ttl: timedelta
    every_s: float
    until_s: float
    """On the machine's monotonic clock."""

    @property
    def store(self) -> str:
        return f"sqlite://{self.folder}/ha.db"


class Member:
    """One member in its process."""

    def __init__(self, scene: Scene, scope: Scope, name: str) -> None:
        self._scene = scene
        self._scope = scope
        self._name = name
        self._clock = SystemClock()
        self.seen = Seen()

    def run(self) -> None:
        """Live until the end of the bench."""
        with closing(open_store(self._scene.store, clock=self._clock)) as store:
            while not self.is_set():
                try:
                    with SessionKeeper(store, ttl=self._scene.ttl, clock=self._clock) as keeper:
                        self._live(Election(store, self._scope, member=self._name, clock=self._clock), keeper)
                        if keeper.liveness.over:
                            self.seen.sessions_lost.append(keeper.liveness.why or "")
                except TenureError as error:
                    self.seen.errors.append(f"{type(error).__name__}: {error}")
                    self._clock.sleep(0.5)

    def is_set(self) -> bool:
        """As the flag of a campaign: whether the bench is over."""
        return self._clock.monotonic_s() >= self._scene.until_s

    def _live(self, election: Election, keeper: SessionKeeper) -> None:
        election.join(keeper, host="bench", pid=os.getpid(), state=State.WARM)
        term = election.campaign(keeper, stop=self)
        if term is None:
            return
        self.seen.terms += 1
        with election.attending(term), closing(open_store(self._scene.store, clock=self._clock)) as store:
            context = ScopeContext(store, self._scope, f"file://{self._scene.folder}/storage", self._clock)
            self._plan(context, term)
        if not term.lost:
            election.resign(term)

    def _plan(self, context: ScopeContext, term: Term) -> None:
        checkpoints = context.checkpoints(QUERY)
        newest = checkpoints.newest(term)
        batch = 0 if newest is None else newest.batch + 1
        pause_s = self._scene.every_s * random.random()
        while not term.lost and not self.is_set():
            self._clock.sleep(pause_s)
            plan = planned(batch, epoch=term.epoch, member=self._name, clock=self._clock)
            begun_s = time.perf_counter()
            checkpoints.plan(term, plan)
            took_s = time.perf_counter() - begun_s
            self.seen.plans_s.append(took_s)
            batch, pause_s = batch + 1, max(0.0, self._scene.every_s - took_s)


def live(scene: Scene, scope: str, name: str) -> None:
    """The process of a member; its report stands in the folder afterwards."""
    member = Member(scene, Scope(scope), name)
    try:
        member.run()
    finally:
        (scene.folder / f"{scope}-{name}.json").write_text(json.dumps(asdict(member.seen)), encoding="utf-8")


def burn() -> None:
    """Take a core."""
    while True:
        pass


def run(*, pipelines: int, seconds: float, busy: int, ttl: timedelta, every_s: float, folder: Path) -> list[Seen]:
    """All members for so long; the reports."""
    # A member of a fork has the modules already, and the parent never opens the store.
    context = multiprocessing.get_context("fork")
    until_s = SystemClock().monotonic_s() + START_S + seconds
    scene = Scene(folder, ttl=ttl, every_s=every_s, until_s=until_s)
    members = [
        context.Process(target=live, args=(scene, f"pipeline-{number:03}", name))
        for number in range(pipelines)
        for name in ("anna", "ben")
    ]
    loops = [context.Process(target=burn, daemon=True) for _ in range(busy)]
    with ExitStack() as ends:
        for process in (*loops, *members):
            process.start()
            ends.callback(process.join)
        for loop in loops:
            ends.callback(loop.kill)
        for member in members:
            member.join()
    return [Seen(**json.loads(file.read_text(encoding="utf-8"))) for file in sorted(folder.glob("pipeline-*.json"))]


def show(found: Sequence[Seen], *, pipelines: int, seconds: float, busy: int, console: Console) -> dict[str, object]:
    """The table, and its figures."""
    plans = [took for seen in found for took in seen.plans_s] or [float("nan")]
    figures: dict[str, object] = {
        "pipelines": pipelines,
        "members": len(found),
        "seconds": seconds,
        "busy loops": busy,
        "plans": len(plans),
        "plan, median (ms)": round(1000 * statistics.median(plans), 1),
        "plan, p99 (ms)": round(1000 * percentile(plans, 99), 1),
        "plan, longest (ms)": round(1000 * max(plans), 1),
        "sessions lost": sum(len(seen.sessions_lost) for seen in found),
        "terms beyond the first": sum(seen.terms for seen in found) - pipelines,
        "errors": sum(len(seen.errors) for seen in found),
    }
    table = Table(title="fleet: one SQLite file", caption=str(describe_machine()))
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        table.add_row(name, str(value))
    console.print(table)
    for text in sorted({text for seen in found for text in (*seen.sessions_lost, *seen.errors)})[:10]:
        console.print(f"seen: {text}", markup=False)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--pipelines", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=None, help="after the members are up; 600, with --store 60")
    parser.add_argument("--busy", type=int, default=2, help="busy loops beside the members")
    parser.add_argument("--ttl", type=float, default=10, help="seconds")
    parser.add_argument("--every", type=float, default=5, help="seconds between two plans of a pipeline")
    many = parser.add_argument_group("many scopes on one store")
    many.add_argument("--store", choices=STORES, default=None)
    many.add_argument("--scopes", type=int, default=10)
    many.add_argument("--members", type=int, default=3, help="of each scope")
    many.add_argument("--together", type=int, default=1, help="members that share a process and a client")
    given = parser.parse_args()
    console = Console()
    if given.store is not None:
        if given.members < 2:
            parser.error("--members must be 2 or more: somebody has to lead after all leaders died")
        measure(
            given.store,
            scopes=given.scopes,
            members=given.members,
            together=given.together,
            seconds=given.seconds or 60,
            ttl=timedelta(seconds=given.ttl),
            every_s=given.every,
            console=console,
        )
        return 0
    seconds = given.seconds or 600
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name:
        found = run(
            pipelines=given.pipelines,
            seconds=seconds,
            busy=given.busy,
            ttl=timedelta(seconds=given.ttl),
            every_s=given.every,
            folder=Path(name),
        )
    figures = show(found, pipelines=given.pipelines, seconds=seconds, busy=given.busy, console=console)
    RESULTS.mkdir(parents=True, exist_ok=True)
    raw = {"machine": asdict(describe_machine()), **figures, "members": [asdict(seen) for seen in found]}
    (RESULTS / "fleet.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
