"""The cleaner around cleanables that are made up: what goes in which order, what is tried again when, when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.cleanup.cleaner import LISTING, Cleaner, Remainder
from tenure.cleanup.plan import ANCHORS, BLOBS, CHECKPOINTS, OWNER, PLAN, REHEARSALS, REQUESTS, RUNS, STORAGE
from tenure.coordination.term import Term
from tenure.errors import HandleLocked, StorageError, StoreUnavailable, TermLost
from tenure.events import CleanupDelayed, CleanupEnded, Event, Events
from tenure.progress import CleanupProgress
from tenure.retry import RetryPolicy, exponential_delay, fixed_delay, no_retry
from tests.kit.clock import ManualClock

TERM: Any = SimpleNamespace(epoch=1)
FAILURES = [StorageError("it is read-only"), StoreUnavailable("it is away"), HandleLocked("x")]


class Made:
    """One row; `refuse` raises for those that cannot go now."""

    def __init__(self, log: list[str], row: str, *names: str) -> None:
        self.row = row
        self.names = list(names)
        self.log = log
        self.refuse: Callable[[str], None] = lambda name: None
        self.find_fails: Iterator[Exception] = iter(())

    def find(self) -> Sequence[str]:
        for error in self.find_fails:
            raise error
        return list(self.names)

    def remove(self, term: Term, name: str) -> None:
        assert term is TERM
        self.refuse(name)
        self.names.remove(name)
        self.log.append(f"{self.row} {name}")


class Scene:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.told: list[Event] = []
        self.clock = ManualClock(sleeping_advances=True)
        self.checks: Iterator[Exception] = iter(())
        self.rows = {row.name: Made(self.log, row.name, "a", "b") for row in PLAN}

    def check(self, term: Term) -> None:
        """What the store says of the term."""
        for error in self.checks:
            raise error

    def cleaner(self, policy: RetryPolicy) -> Cleaner:
        events = Events(self.told.append)
        return Cleaner(self.rows, check=self.check, scope="rows", policy=policy, clock=self.clock, events=events)

    def run(self, policy: RetryPolicy, *, stop: threading.Event | None = None) -> Sequence[Remainder]:
        return self.cleaner(policy).run(TERM, stop=stop or threading.Event())

    def left(self) -> set[str]:
        return {name for name, row in self.rows.items() if row.names}


def failing(error: Exception, *, until: Callable[[], bool] = lambda: False, name: str = "a") -> Callable[[str], None]:
    def refuse(asked: str) -> None:
        if asked == name and not until():
            raise error

    return refuse


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_everything_goes_in_the_order_of_the_plan(scene: Scene) -> None:
    assert scene.run(no_retry()) == []
    assert scene.log == [f"{row.name} {name}" for row in PLAN for name in ("a", "b")]
    assert scene.told == [CleanupEnded("rows", removed=2 * len(PLAN), left=0, first="", seconds=0.0)]


def test_a_second_run_changes_nothing(scene: Scene) -> None:
    scene.run(no_retry())
    scene.log.clear()
    assert scene.run(no_retry()) == []
    assert scene.log == []


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_what_cannot_go_keeps_what_it_names_and_nothing_else(scene: Scene, error: Exception) -> None:
    scene.rows[CHECKPOINTS].refuse = failing(error)
    left = scene.run(no_retry())
    assert scene.left() == {CHECKPOINTS, ANCHORS, RUNS, BLOBS, OWNER, STORAGE}
    assert scene.rows[CHECKPOINTS].names == ["a"]
    assert left[0] == Remainder(CHECKPOINTS, "a", str(error))
    assert {one.row for one in left} == scene.left()
    assert scene.rows[REHEARSALS].names == scene.rows[REQUESTS].names == []


def test_a_row_that_cannot_be_listed_is_left(scene: Scene) -> None:
    scene.rows[RUNS].find_fails = iter([StorageError("no such bucket")])
    (first, *_) = scene.run(no_retry())
    assert first == Remainder(RUNS, LISTING, "no such bucket")
    assert scene.left() == {RUNS, OWNER, STORAGE}


def test_it_is_tried_again_on_schedule(scene: Scene) -> None:
    begun_s = scene.clock.monotonic_s()
    mended_s = begun_s + 10.0
    tried: list[float] = []

    def refuse(name: str) -> None:
        tried.append(scene.clock.monotonic_s() - begun_s)
        if scene.clock.monotonic_s() < mended_s:
            raise StorageError("it is read-only")

    scene.rows[RUNS].names = ["a"]
    scene.rows[RUNS].refuse = refuse
    policy = RetryPolicy(initial=timedelta(seconds=1), maximum=timedelta(seconds=6), jitter=0.0)
    assert scene.run(policy) == []
    assert tried == pytest.approx([0, 1, 3, 7, 13])
    delays = [event.again_s for event in scene.told if isinstance(event, CleanupDelayed)]
    assert delays == [1.0, 2.0, 4.0, 6.0]
    first = next(event for event in scene.told if isinstance(event, CleanupDelayed))
    assert (first.left, first.first) == (3, "run directories: a (it is read-only)")


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        (no_retry(), 1),
        (fixed_delay(delay=timedelta(seconds=5), attempts=3), 3),
        (exponential_delay(attempts=4), 4),
    ],
    ids=["none", "fixed", "exponential"],
)
def test_the_policy_gives_up_and_it_is_told_what_is_left(scene: Scene, policy: RetryPolicy, attempts: int) -> None:
    tried: list[str] = []

    def refuse(name: str) -> None:
        tried.append(name)
        raise StorageError("it is read-only")

    scene.rows[BLOBS].refuse = refuse
    left = scene.run(policy)
    assert tried == ["a", "b"] * attempts
    assert [(one.row, one.name) for one in left if one.row == BLOBS] == [(BLOBS, "a"), (BLOBS, "b")]
    ended = scene.told[-1]
    assert isinstance(ended, CleanupEnded)
    assert (ended.left, ended.first) == (4, "blobs: a (it is read-only)")


def test_it_stops_between_two_things(scene: Scene) -> None:
    stop = threading.Event()

    def refuse(name: str) -> None:
        stop.set()

    scene.rows[CHECKPOINTS].refuse = refuse
    left = scene.run(exponential_delay(), stop=stop)
    assert left
    assert scene.rows[CHECKPOINTS].names == ["b"]
    assert scene.rows[RUNS].names == ["a", "b"]
    assert not [event for event in scene.told if isinstance(event, CleanupEnded)]


def test_it_stops_while_it_waits(scene: Scene) -> None:
    stop = threading.Event()
    scene.rows[BLOBS].refuse = failing(StorageError("it is read-only"))
    events = Events(scene.told.append, lambda event: stop.set() if isinstance(event, CleanupDelayed) else None)
    policy = fixed_delay(delay=timedelta(hours=1))
    begun_s = scene.clock.monotonic_s()
    cleaner = Cleaner(scene.rows, check=scene.check, scope="rows", policy=policy, clock=scene.clock, events=events)
    cleaner.run(TERM, stop=stop)
    assert scene.clock.monotonic_s() == begun_s


def test_a_lost_term_ends_it(scene: Scene) -> None:
    scene.rows[RUNS].refuse = failing(TermLost(scope="rows", epoch=1))
    with pytest.raises(TermLost):
        scene.run(exponential_delay())
    assert scene.rows[BLOBS].names == ["a", "b"]


def test_a_row_that_the_plan_does_not_have_is_a_bug(scene: Scene) -> None:
    scene.rows["crumbs"] = Made(scene.log, "crumbs")
    with pytest.raises(AssertionError, match="crumbs"):
        scene.cleaner(no_retry())


def test_nothing_goes_that_was_listed_after_the_term_was_over(scene: Scene) -> None:
    scene.checks = iter([TermLost(scope="rows", epoch=1)])
    with pytest.raises(TermLost):
        scene.run(exponential_delay())
    assert scene.log == []


def test_a_store_that_is_away_keeps_everything_until_it_is_back(scene: Scene) -> None:
    scene.checks = iter([StoreUnavailable("it is away")])
    (first, *_) = scene.run(no_retry())
    assert first == Remainder(REQUESTS, LISTING, "it is away")
    assert scene.left() == {REQUESTS}


def test_a_cleanup_that_takes_long_tells_how_far_it_has_come() -> None:
    scene = Scene()
    for made in scene.rows.values():
        made.refuse = lambda name: scene.clock.advance(timedelta(seconds=1.5))
    scene.cleaner(no_retry()).run(TERM, stop=threading.Event())
    told = [event for event in scene.told if isinstance(event, CleanupProgress)]
    assert len(told) > len(PLAN) / 2
    assert all(event.of == 2 and event.removed < 2 for event in told)


def test_a_short_cleanup_tells_its_end_alone() -> None:
    scene = Scene()
    scene.cleaner(no_retry()).run(TERM, stop=threading.Event())
    assert [type(event) for event in scene.told] == [CleanupEnded]
