"""A watch that looks up the revision of a scope, for stores that do not send changes.

Promise: the first look after a change returns the change. The waiter looks at once, after `wake`, and every `every_s`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import Changes
from tenure.errors import StoreUnavailable


class PolledChanges(Changes):
    """A watch on one scope."""

    def __init__(
        self, scope: Scope, *, after: Revision, look: Callable[[], Revision], every_s: float, clock: Clock
    ) -> None:
        self.wake = threading.Event()
        """The store sets it when the revision may have grown."""
        self._scope = scope
        self._seen = after
        self._look = look
        self._every_s = every_s
        self._clock = clock
        self._closed = False

    def wait(self, *, timeout: timedelta) -> Revision | None:
        deadline_s = self._clock.monotonic_s() + timeout.total_seconds()
        while True:
            self.wake.clear()  # before the look: a later change is not lost
            if self._closed:
                raise StoreUnavailable(f"watch on scope {self._scope!r} is closed")
            revision = self._look()
            if revision > self._seen:
                self._seen = revision
                return revision
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            self._clock.wait(self.wake, timeout_s=min(left_s, self._every_s))

    def close(self) -> None:
        self._closed = True
        self.wake.set()
