"""Waiting with a condition and a deadline, for tests: never a bare sleep.

Promise: `wait_until` returns what the condition returned as soon as it is true, and raises TimeoutError that
names what was waited for once the time is over. The condition is asked at least once, and once more at the
deadline. Where the scenario has no time of its own, the time is over after `NEVER`. It promises nothing about how
long the condition itself takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from tenure.clock import Clock, SystemClock

Answer = TypeVar("Answer")

NEVER_S: Final = float(os.environ.get("TENURE_TEST_NEVER_S", "120"))
"""What has not happened after so long never will, on any machine that runs tests: the one deadline for whatever should
have happened long ago. How fast something is, is no test's business but a bench's."""

NEVER: Final = timedelta(seconds=NEVER_S)

_EVERY = timedelta(milliseconds=20)


class Deadline:
    """A moment on the monotonic clock, `timeout` after this object was made."""

    def __init__(self, timeout: timedelta, *, clock: Clock | None = None) -> None:
        self.timeout = timeout
        self._clock = clock or SystemClock()
        self._at_s = self._clock.monotonic_s() + timeout.total_seconds()

    @property
    def remaining_s(self) -> float:
        """Seconds left; 0 once it is over."""
        return max(0.0, self._at_s - self._clock.monotonic_s())

    @property
    def over(self) -> bool:
        return self.remaining_s == 0.0

    def pause(self, every: timedelta) -> None:
        """Sleep for `every`, but not past the deadline."""
        self._clock.sleep(min(every.total_seconds(), self.remaining_s))


def wait_until(
    condition: Callable[[], Answer],
    timeout: timedelta = NEVER,
    *,
    what: str | None = None,
    every: timedelta = _EVERY,
    clock: Clock | None = None,
) -> Answer:
    """Return the condition's first true answer. `what` names it in the TimeoutError; default: the function's name."""
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
