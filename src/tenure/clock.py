"""The clock: the only module of the product that asks the time or sleeps.

Promise: deadlines are monotonic. The clock goes on while the process is stopped (SIGSTOP) and, where the kernel
offers that, while the machine is suspended.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the product sees it. Tests give a clock of their own."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start; never goes back; the only time that decides anything."""
        ...

    def now(self) -> datetime:
        """Wall clock in UTC, for people to read. Decides nothing."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...

    def wait(self, event: threading.Event, *, timeout_s: float) -> bool:
        """Wait until `event` is set, at most `timeout_s`; return whether it is set."""
        ...


class SystemClock:
    """The machine's clock."""

    _clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def monotonic_s(self) -> float:
        return time.clock_gettime(self._clock_id)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: threading.Event, *, timeout_s: float) -> bool:
        return event.wait(max(0.0, timeout_s))


def timestamp(clock: Clock) -> str:
    """The wall clock in ISO 8601 and milliseconds, for people who read records."""
    return clock.now().isoformat(timespec="milliseconds")
