"""Watches of the SQLite store: a poll of the scope's revision.

Promise: a change by this store is seen at once, one by another process within a poll (50 ms); so is the death of any
session, because each poll judges them.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.errors import StoreUnavailable

if TYPE_CHECKING:
    from tenure.backends.sqlite.store import SqliteStore

POLL: Final = timedelta(milliseconds=50)


class SqliteChanges:
    """A watch on one scope of a `SqliteStore`."""

    def __init__(self, store: SqliteStore, scope: Scope, *, after: Revision, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._seen = after
        self._clock = clock
        self._closed = False
        self._event = threading.Event()
        store.add_watcher(self._event)

    def wait(self, *, timeout: timedelta) -> Revision | None:
        deadline = self._clock.monotonic_s() + timeout.total_seconds()
        while True:
            self._event.clear()  # before looking: what comes after is not lost
            if self._closed:
                raise StoreUnavailable(f"watch on scope {self._scope!r} is closed")
            revision = self._store.revision(self._scope)
            if revision > self._seen:
                self._seen = revision
                return revision
            left = deadline - self._clock.monotonic_s()
            if left <= 0:
                return None
            self._clock.wait(self._event, timeout_s=min(left, POLL.total_seconds()))

    def close(self) -> None:
        self._closed = True
        self._store.remove_watcher(self._event)
        self._event.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
