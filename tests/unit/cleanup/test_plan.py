"""The table of what a pipeline leaves: in an order in which everything can go."""

from __future__ import annotations

import pytest

from tenure.cleanup.plan import BLOBS, CHECKPOINTS, OWNER, PLAN, REHEARSALS, RUNS, STAGED, STORAGE, Row, awaited


def test_no_row_is_there_twice() -> None:
    assert len({row.name for row in PLAN}) == len(PLAN)


@pytest.mark.parametrize("row", PLAN, ids=lambda row: row.name)
def test_a_row_needs_only_what_comes_before_it(row: Row) -> None:
    assert set(row.needs) <= {one.name for one in PLAN[: PLAN.index(row)]}


def test_a_row_that_names_something_goes_before_it() -> None:
    by_name = {row.name: row for row in PLAN}
    for named in (RUNS, BLOBS):
        assert CHECKPOINTS in by_name[named].needs


def test_whose_a_storage_is_can_be_told_as_long_as_anything_else_is_there() -> None:
    by_name = {row.name: row for row in PLAN}
    assert set(by_name[OWNER].needs) == {RUNS, REHEARSALS, BLOBS}
    assert by_name[STORAGE].needs == (OWNER,)


def test_a_row_waits_for_those_that_it_needs_and_no_others() -> None:
    runs = next(row for row in PLAN if row.name == RUNS)
    assert awaited(runs, remaining=()) == ()
    assert awaited(runs, remaining={BLOBS}) == ()
    assert awaited(runs, remaining={BLOBS, CHECKPOINTS}) == (CHECKPOINTS,)
    assert set(awaited(runs, remaining={STAGED, CHECKPOINTS})) == {STAGED, CHECKPOINTS}
