"""The outages of a soak's targets: drawn by the seed, and over when the run wants quiet."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.kit.clock import ManualClock
from tests.soak.plan import SINK_AWAY, Filter, Plan, make_plan
from tests.soak.targets import Outages, Target

QUARTER = timedelta(seconds=0.25)
ONLY = Filter(habits=[SINK_AWAY], sinks=["ledger"])


def outages(folder: Path, plan: Plan, clock: ManualClock) -> Outages:
    return Outages(folder, plan, places={}, clock=clock, log=lambda line: None)


def away(folder: Path, plan: Plan) -> list[str]:
    return [query.name for query in plan.queries if (folder / "output" / query.name / "away").exists()]


def moments(folder: Path, plan: Plan) -> list[list[str]]:
    """Who is away, a quarter of a second after the other, for two minutes."""
    clock = ManualClock()
    acting = outages(folder, plan, clock)
    seen = []
    for _ in range(480):
        acting.act()
        seen.append(away(folder, plan))
        clock.advance(QUARTER)
    return seen


def test_the_seed_decides_who_is_away_and_for_how_long(tmp_path: Path) -> None:
    plan = make_plan(7, ends=1, only=ONLY)
    first, again = moments(tmp_path / "1", plan), moments(tmp_path / "2", plan)
    assert first == again
    assert [] in first
    assert any(len(names) == 1 for names in first)
    assert any(len(names) == len(plan.queries) for names in first)


def test_a_target_that_is_away_refuses_until_the_outage_is_over(tmp_path: Path) -> None:
    plan, clock = make_plan(7, ends=1, only=ONLY), ManualClock()
    acting = outages(tmp_path, plan, clock)
    while not (gone := away(tmp_path, plan)):
        acting.act()
        clock.advance(QUARTER)
    target = Target(tmp_path / "output" / gone[0])
    with pytest.raises(ConnectionRefusedError, match=gone[0]):
        target.ask()
    acting.end()
    target.ask()
    assert away(tmp_path, plan) == []
    assert acting.count == 1


def test_targets_are_away_only_where_that_is_asked_for(tmp_path: Path) -> None:
    plan = make_plan(7, ends=1, only=Filter())
    assert not any(moments(tmp_path, plan))
    assert all(query.habit != SINK_AWAY for query in plan.queries)


@pytest.mark.parametrize("seed", range(8))
def test_each_query_whose_target_goes_away_has_one_that_can(seed: int) -> None:
    plan = make_plan(seed, ends=1, only=Filter(habits=[SINK_AWAY]))
    assert {query.sink for query in plan.queries} == {"ledger"}
