"""Waiting with a condition and a deadline, for tests: never a bare sleep.

Promise: `wait_until` returns the condition's first true answer. After the timeout it raises TimeoutError, which names
the condition. The condition is asked at least once, and once more at the deadline. Not promised: how long the condition
itself takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from tenure.clock import Clock, SystemClock

Answer = TypeVar("Answer")

NEVER_S: Final = float(os.environ.get("TENURE_TEST_NEVER_S", "300"))
"""The deadline of every wait that has no time of its own. An event that is late by so much never comes, on any machine
that runs tests. Speed is measured by benches, not by tests."""

NEVER: Final = timedelta(seconds=NEVER_S)

_EVERY = timedelta(milliseconds=20)


class Deadline:
    """A moment on the monotonic clock, `timeout` after this object was made."""

    def __init__(self, timeout: timedelta, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._at_s = self._clock.monotonic_s() + timeout.total_seconds()

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline; 0 after it."""
        return max(0.0, self._at_s - self._clock.monotonic_s())

    @property
    def over(self) -> bool:
        return self.remaining_s == 0.0

    def pause(self, every: timedelta) -> None:
        """Sleep for `every`, not past the deadline."""
        self._clock.sleep(min(every.total_seconds(), self.remaining_s))


def wait_until(
    condition: Callable[[], Answer],
    timeout: timedelta = NEVER,
    *,
    what: str | None = None,
    every: timedelta = _EVERY,
    clock: Clock | None = None,
) -> Answer:
    """Return the condition's first true answer. `what` names the condition; by default the function's name."""
    deadline = Deadline(timeout, clock=clock)
    while True:
        last_time = deadline.over
        answer = condition()
        if answer:
            return answer
        if last_time:
            name = what or getattr(condition, "__qualname__", repr(condition))
            raise TimeoutError(f"waited {timeout.total_seconds():g} s for {name}; the last answer was {answer!r}")
        deadline.pause(every)
