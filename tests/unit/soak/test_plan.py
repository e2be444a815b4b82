"""The plan of a run: the seed decides it, and over many seeds everything is tried with everything."""

from __future__ import annotations

import itertools

import pytest

from tests.soak import ends
from tests.soak.__main__ import _again, _parsed
from tests.soak.kinds import KINDS, KINDS_ASKED_FOR
from tests.soak.plan import (
    END_KINDS,
    FILES,
    HABITS,
    ICEBERG,
    IN_TRANSACTION,
    KAFKA,
    MOMENTS,
    MYSQL,
    PARTS,
    POSTGRES,
    SINKS,
    STATES,
    TRANSACTIONAL,
    Filter,
    Plan,
    make_plan,
)

SEEDS = range(300)


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [make_plan(seed, ends=25, only=Filter()) for seed in SEEDS]


def test_a_seed_makes_the_same_plan_each_time(plans: list[Plan]) -> None:
    assert plans == [make_plan(seed, ends=25, only=Filter()) for seed in SEEDS]
    assert len(set(plans)) == len(plans)


def test_more_ends_begin_with_the_same_ones(plans: list[Plan]) -> None:
    longer = make_plan(7, ends=40, only=Filter())
    assert longer.queries == plans[7].queries
    assert longer.ends[:25] == plans[7].ends


def test_each_run_has_each_habit_and_five_kinds(plans: list[Plan]) -> None:
    for plan in plans:
        assert sorted(query.habit for query in plan.queries) == sorted(HABITS)
        assert len({query.kind for query in plan.queries}) == 5
        assert len({query.name for query in plan.queries}) == 5


def test_a_kind_that_is_asked_for_is_drawn() -> None:
    only = Filter(kinds=("numbered", "windows"))
    assert {query.kind for query in make_plan(1, ends=1, only=only).queries} == {"numbered", "windows"}


def test_everything_is_tried(plans: list[Plan]) -> None:
    tried = {(query.kind, query.sink, query.habit) for plan in plans for query in plan.queries}
    assert tried == set(itertools.product(set(KINDS) - set(KINDS_ASKED_FOR), SINKS, HABITS))
    assert {plan.state for plan in plans} == set(STATES)
    assert {end.kind for plan in plans for end in plan.ends} == set(END_KINDS)
    assert {end.part for plan in plans for end in plan.ends} == set(PARTS)
    assert {end.at.after for plan in plans for end in plan.ends} == set(MOMENTS)
    assert {end.how for plan in plans for end in plan.ends if end.kind == "night"} == {"kill", "term", "idle"}


def test_only_what_is_asked_for_is_drawn() -> None:
    only = Filter(kinds=["counts"], sinks=["ledger"], habits=["delete", "left"], end_kinds=["kill"], states=["hdfs"])
    plan = make_plan(1, ends=9, only=only)
    assert {query.name for query in plan.queries} == {"counts_ledger_delete", "counts_ledger_left"}
    assert {end.kind for end in plan.ends} == {"kill"}
    assert plan.state == "hdfs"


@pytest.mark.parametrize(
    ("sink", "modes"),
    [
        (POSTGRES, {"append", "update"}),
        (FILES, {"append"}),
        (ICEBERG, {"append", "update", "complete"}),
        (KAFKA, {"append", "update"}),
        (MYSQL, {"append", "update"}),
    ],
)
def test_a_sink_that_has_to_be_asked_for(sink: str, modes: set[str]) -> None:
    plans = [make_plan(seed, ends=25, only=Filter(sinks=[sink])) for seed in SEEDS]
    tried = {(KINDS[query.kind].mode, query.sink) for plan in plans for query in plan.queries}
    others = {"append", "update", "complete"} - modes
    assert tried == {*((mode, sink) for mode in modes), *((mode, "delta") for mode in others)}
    assert (IN_TRANSACTION in {end.kind for plan in plans for end in plan.ends}) == (sink in TRANSACTIONAL)


def test_there_is_a_way_to_bring_each_end_about() -> None:
    assert set(ends._HOW) == {*END_KINDS, IN_TRANSACTION}


def test_the_command_that_repeats_a_run_asks_for_the_same_run() -> None:
    words = ["--ends", "500", "--seed", "3", "--storage", "s3", "--habits", "delete", "shown", "--without", "no-fence"]
    command = _again(_parsed(words), 17, 25)
    repeated = "--ends 25 --ends-a-run 25 --seed 17 --storage s3 --habits delete shown --without no-fence"
    assert command == f"make soak ARGS='{repeated}'"
    again = _parsed(repeated.split())
    assert (again.ends, again.ends_a_run, again.seed, again.habits) == (25, 25, 17, ["delete", "shown"])
    assert (again.store, again.source, again.storage) == ("sqlite", "files", "s3")


def test_habits_of_files_are_refused_for_topics(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        _parsed(["--source", "kafka", "--habits", "shown"])
    assert refused.value.code == 2
    assert "--habits is for files" in capsys.readouterr().err
