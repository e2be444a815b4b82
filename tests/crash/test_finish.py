"""A pipeline ends for good, and the member that finishes it dies at every step of that; so does each one after it, at
the next step. In the end nothing is left but the output, which is right, and the result (I7, I9)."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenure.backends.registry import open_store
from tenure.cleanup.plan import ANCHORS, CHECKPOINTS, OWNER, PLAN, RUNS
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.results.result import Result, Stage
from tenure.results.store import result_in
from tests.crash.cluster import SCOPE, Cluster
from tests.crash.truth import Verdict
from tests.draw import TO_THE_END, only_if_drawn
from tests.stores import OF_MEMBERS, new_store

STREAM = "joined"
FINAL = ("--until-idle", "--final")

_FULL = (CHECKPOINTS, ANCHORS, RUNS, OWNER)
"""Rows in which something lies: a member can die after the last of it."""

STEPS = (
    *("before dirty", "after dirty"),
    *(f"{when} {row.name}" for row in PLAN for when in ("before", "after") if when == "before" or row.name in _FULL),
    *("before clean", "after clean"),
)
SHORT = ("before dirty", "after dirty", f"after {CHECKPOINTS}", f"after {RUNS}", f"after {OWNER}", "before clean")
"""What each run tries."""


@dataclass(frozen=True)
class Finish:
    """What happened: how each member ended, what is left, and the output."""

    exits: dict[str, int | None]
    told: str
    """What the last member printed."""
    records: set[str]
    """Those that do not go by themselves: a member's that died last are bound to its session."""
    files: list[str]
    result: Result | None
    verdict: Verdict


@pytest.fixture(scope="module")
def finish(tmp_path_factory: pytest.TempPathFactory) -> Finish:
    return _finish(tmp_path_factory.mktemp("finish"), SHORT)


@pytest.fixture(scope="module", params=OF_MEMBERS)
def whole_finish(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Finish:
    folder = tmp_path_factory.mktemp("finish")
    return _finish(folder, STEPS, store=new_store(request, request.param, folder))


def _finish(folder: Path, steps: tuple[str, ...], *, store: str | None = None) -> Finish:
    with Cluster(folder, streams=(STREAM,), feed_every_s=0.2, store=store) as cluster:
        cluster.feeder.start()
        cluster.wait(lambda: cluster.feeder.events > 200, what="some input")
        cluster.feeder.stop()
        exits: dict[str, int | None] = {}
        for number, step in enumerate(steps):
            member = cluster.start(f"m{number:02d}", flags=FINAL, die_at=step)
            exits[step] = member.wait()
        last = cluster.start("last", flags=FINAL)
        exits["none"] = last.wait()
        with contextlib.closing(open_store(cluster.store_url, clock=SystemClock())) as opened:
            records = opened.list(Scope(SCOPE), "").records
        storage = folder / "storage"
        return Finish(
            exits=exits,
            told=last.output(),
            records={record.key for record in records if record.session is None},
            files=sorted(str(path.relative_to(storage)) for path in storage.rglob("*")),
            result=result_in(records),
            verdict=cluster.verdict(STREAM),
        )


def check(finish: Finish, steps: tuple[str, ...]) -> None:
    assert finish.exits == {**dict.fromkeys(steps, -signal.SIGKILL), "none": 0}, finish.told
    assert finish.verdict.right, finish.verdict
    assert finish.files == []
    for_people = ("results", "terms/", "members_past")
    assert {key for key in finish.records if not key.startswith(for_people)} == {"epoch", "identity"}
    assert finish.result is not None
    assert finish.result.stage is Stage.CLEAN


@only_if_drawn(TO_THE_END)
def test_it_is_finished_by_whoever_is_left(finish: Finish) -> None:
    check(finish, SHORT)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_it_is_finished_whatever_step_its_members_die_at(whole_finish: Finish) -> None:
    check(whole_finish, STEPS)
