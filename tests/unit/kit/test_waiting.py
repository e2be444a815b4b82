"""`wait_until` asks at least once, once more at the deadline, and says what it waited for."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.waiting import Deadline, wait_until


class SteppedClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def monotonic_s(self) -> float:
        return self.at_s

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds

    def wait(self, event: threading.Event, *, timeout_s: float) -> bool:
        self.at_s += timeout_s
        return event.is_set()


def test_returns_the_first_true_answer() -> None:
    answers = iter([None, 0, "there", "later"])
    assert wait_until(lambda: next(answers), timedelta(seconds=1), clock=SteppedClock()) == "there"


def test_asks_once_even_without_time() -> None:
    assert wait_until(lambda: 7, timedelta(0), clock=SteppedClock()) == 7


def test_asks_once_more_at_the_deadline() -> None:
    clock = SteppedClock()
    assert wait_until(lambda: clock.at_s >= 101.0, timedelta(seconds=1), every=timedelta(seconds=30), clock=clock)


def test_the_error_names_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"waited 1\.5 s for the leader; the last answer was \[\]"):
        wait_until(list, timedelta(seconds=1.5), what="the leader", clock=SteppedClock())


def test_a_deadline_never_has_negative_time_left() -> None:
    clock = SteppedClock()
    deadline = Deadline(timedelta(seconds=1), clock=clock)
    assert (deadline.remaining_s, deadline.over) == (1.0, False)
    clock.sleep(5)
    assert (deadline.remaining_s, deadline.over) == (0.0, True)
