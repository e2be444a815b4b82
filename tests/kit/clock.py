"""A clock that moves only when the test moves it.

Promise: `advance` alone changes `monotonic_s` and `now`. A thread that sleeps or waits wakes as soon as the clock has
reached its deadline. Not promised: the order of threads that wake together. One exception: a sleep of less than a
microsecond moves the clock by a microsecond. Else a loop until a deadline that a float missed by 1e-16 would never end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tests.kit.waiting import NEVER

_LOOK_AGAIN_S = 0.002
"""How often a waiter looks at its event: no condition covers both an event and an advance."""


class ManualClock:
    """A thread-safe `tenure.clock.Clock`. `sleeping_advances`: a sleep moves the clock, for tests of one thread."""

    def __init__(self, *, sleeping_advances: bool = False) -> None:
        self._sleeping_advances = sleeping_advances
        self._moved = threading.Condition()
        self._elapsed = timedelta(0)  # guarded by _moved
        self._blocked = 0  # threads in sleep() or wait(); guarded by _moved

    def monotonic_s(self) -> float:
        with self._moved:
            return self._elapsed.total_seconds()

    def now(self) -> datetime:
        with self._moved:
            return datetime(2030, 1, 1, tzinfo=UTC) + self._elapsed

    def advance(self, by: timedelta) -> None:
        """Move the clock forward, and wake the threads whose deadlines it reaches."""
        if by < timedelta(0):
            raise ValueError(f"a clock does not go back, got {by}")
        with self._moved:
            self._elapsed += by
            self._moved.notify_all()

    def sleep(self, seconds: float) -> None:
        with self._moved:
            deadline = self._deadline(seconds)
            if self._sleeping_advances:
                self._elapsed = max(self._elapsed, deadline)
                self._moved.notify_all()
                return
            with self._counted():
                self._moved.wait_for(lambda: self._elapsed >= deadline)

    def wait(self, event: threading.Event, *, timeout_s: float) -> bool:
        if event.is_set() or timeout_s <= 0:
            return event.is_set()
        if self._sleeping_advances:
            self.sleep(timeout_s)
            return event.is_set()
        with self._moved:
            deadline = self._deadline(timeout_s)
            with self._counted():
                while not event.is_set() and self._elapsed < deadline:
                    self._moved.wait(_LOOK_AGAIN_S)
        return event.is_set()

    def wait_until_blocked(self, threads: int = 1, *, real_timeout: timedelta = NEVER) -> None:
        """Return once at least `threads` threads sleep or wait on this clock, so that an advance reaches them. Raises
        TimeoutError after `real_timeout` of the machine's time."""
        with self._moved:
            if not self._moved.wait_for(lambda: self._blocked >= threads, real_timeout.total_seconds()):
                raise TimeoutError(f"{self._blocked} of {threads} threads wait on the clock")

    def _deadline(self, seconds: float) -> timedelta:
        span = timedelta(seconds=seconds)
        if seconds > 0 and not span:
            self._elapsed += timedelta(microseconds=1)
            self._moved.notify_all()
        return self._elapsed + span

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._blocked += 1
        self._moved.notify_all()
        try:
            yield
        finally:
            self._blocked -= 1
