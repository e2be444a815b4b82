"""Watches of the ZooKeeper store: one on the scope's node, which every commit writes, and one on its sessions' markers.

Promise: a watch is set, then the revision is read, so nothing falls in between. ZooKeeper's watches are told once and
are lost with the connection, so both are set again at each look. The end of a session that has bound a record in the
scope removes its marker in the same transaction.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.errors import StoreUnavailable

if TYPE_CHECKING:
    from tenure.backends.zookeeper.store import ZooKeeperStore

_LOOK_S: Final = 5.0
"""How often it is looked at without having been told."""


class ZooKeeperChanges:
    """A watch on one scope of a `ZooKeeperStore`."""

    def __init__(self, store: ZooKeeperStore, scope: Scope, *, after: Revision, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._seen = after
        self._clock = clock
        self._closed = False
        self._event = threading.Event()

    def wait(self, *, timeout: timedelta) -> Revision | None:
        deadline_s = self._clock.monotonic_s() + timeout.total_seconds()
        while True:
            self._event.clear()  # before looking: what comes after is not lost
            if self._closed:
                raise StoreUnavailable(f"watch on scope {self._scope!r} is closed")
            revision = self._store.revision(self._scope, watch=self._wake)
            if revision > self._seen:
                self._seen = revision
                return revision
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            self._clock.wait(self._event, timeout_s=min(left_s, _LOOK_S))

    def close(self) -> None:
        self._closed = True
        self._event.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self, event: Any) -> None:
        """Called by kazoo in a thread of its own, also when the connection is lost."""
        self._event.set()
