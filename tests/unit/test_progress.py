"""Long work: its pace, its counts, and what a member's `/status` has of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.events import (
    DriverEnded,
    DriverStarted,
    Event,
    Events,
    MemberReady,
    RunDirectorySeeded,
    TermEnded,
    event_from_data,
    event_to_data,
)
from tenure.progress import (
    EVENT_S,
    START_S,
    CleanupProgress,
    Counter,
    Paced,
    SeedProgress,
    Step,
    Underway,
    seeding,
    spark_starting,
)
from tests.kit.clock import ManualClock

SEED = SeedProgress("rows", query="copy", files=1, of=2, bytes=3, of_bytes=4)
MIRROR = SeedProgress("rows", query="copy", files=1, of=2, ahead=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_short_work_reports_nothing_and_long_work_at_its_pace(clock: ManualClock) -> None:
    told: list[float] = []
    paced = Paced(lambda step: told.append(step.done), every_s=2.0, clock=clock)
    for second in range(10):
        paced(Step("x", second, None, "s"))
        clock.advance(timedelta(seconds=1))
    assert told == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (Step("lists", 1200, None, "files"), "lists: 1,200 files"),
        (Step("removes", 1200, 5000, "files"), "removes: 1,200 of 5,000 files"),
        (Step("copies", 1, 2, "files", 1_000, 2_000_000), "copies: 1 of 2 files, 1.0 kB of 2.0 MB"),
        (Step("anna ends batch 7; ben is warm", 12.4, 60, "s"), "anna ends batch 7; ben is warm: 12 of 60 s"),
    ],
)  # fmt: skip
def test_a_report_is_one_line(step: Step, line: str) -> None:
    assert step.line == line


def test_a_copy_counts_what_it_finds_and_what_it_has_done() -> None:
    told: list[Step] = []
    counter = Counter("copies", told.append)
    counter.found(2, 30)
    counter.did(1, 10)
    counter.found(1, 5)
    counter.did(1, 20)
    assert [(step.done, step.of, step.bytes, step.of_bytes) for step in told] == [(1, 2, 10, 30), (2, 3, 30, 35)]


def test_a_long_copy_emits_its_state_and_its_end(clock: ManualClock) -> None:
    told: list[Event] = []
    with seeding("rows", "copy", ahead=False, clock=clock, events=Events(told.append)) as counter:
        counter.found(3, 30)
        counter.did(1, 10)
        assert told == []
        clock.advance(timedelta(seconds=EVENT_S))
        counter.did(1, 10)
    assert told == [
        SeedProgress("rows", query="copy", files=2, of=3, bytes=20, of_bytes=30),
        SeedProgress("rows", over=True, query="copy", files=2, of=3, bytes=20, of_bytes=30),
    ]


def test_a_copy_that_fails_ends_too(clock: ManualClock) -> None:
    underway = Underway(clock)

    def copy() -> None:
        with seeding("rows", "copy", ahead=True, clock=clock, events=Events(underway)) as counter:
            clock.advance(timedelta(seconds=EVENT_S))
            counter.did(1)
            assert underway.now()
            raise OSError("no luck")

    with pytest.raises(OSError, match="no luck"):
        copy()
    assert underway.now() == ()


def test_a_short_copy_emits_nothing(clock: ManualClock) -> None:
    told: list[Event] = []
    with seeding("rows", "copy", ahead=False, clock=clock, events=Events(told.append)) as counter:
        counter.did(1)
    assert told == []


def test_the_wait_for_a_driver_is_told_each_ten_seconds(clock: ManualClock) -> None:
    told: list[Event] = []
    starting = spark_starting("rows", "anna", clock=clock, events=Events(told.append))
    for _ in range(3):
        starting()
        clock.advance(timedelta(seconds=START_S))
    starting()
    assert [event_to_data(event)["seconds"] for event in told] == [10.0, 20.0, 30.0]
    spark_starting("", "anna", clock=clock, events=Events(told.append))()
    assert len(told) == 3, "without a scope there is no event"


def test_a_member_knows_its_long_work_and_its_end(clock: ManualClock) -> None:
    underway = Underway(clock)
    underway(DriverStarted("rows", "anna", 7))
    clock.advance(timedelta(seconds=12))
    assert underway.now() == (Step("waits for Spark to start", 12.0, None, "s"),)
    underway(MemberReady("rows", "anna"))
    assert underway.now() == ()
    underway(MIRROR)
    underway(SEED)
    assert [step.what for step in underway.now()] == [MIRROR.step.what, SEED.step.what]
    underway(RunDirectorySeeded("rows", 3, "copy", 7, files=2, seconds=4.0))
    assert underway.now() == (MIRROR.step,)
    underway(TermEnded("rows", "anna", 3, "stopped"))
    assert underway.now() == ()
    underway(CleanupProgress("rows", row="runs", removed=1, of=2))
    underway(DriverEnded("rows", "anna", "signal SIGKILL", 3.0))
    assert underway.now() == ()


def test_the_events_go_over_the_link() -> None:
    assert event_from_data(event_to_data(SEED)) == SEED
