"""The stores that this process has open, each shared by all its users.

Promise: while a store is open, another user of the same URL (user, password and options included) and of the same clock
gets the same client, so the scopes of a process share its connections and threads. The last user closes the client. A
forked child opens its own, and closes nothing of its parent's. Not promised: one client for two spellings of a URL.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tenure.backends.registry import open_store
from tenure.clock import Clock, SystemClock
from tenure.coordination.store import CoordinationStore


@dataclass(slots=True)
class _Open:
    """An open store. `users`: how many blocks use it."""

    store: CoordinationStore
    pid: int
    users: int = 0


_Key = tuple[str, Clock | None]


class SharedStores:
    """Opens each store once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _open
        self._open: dict[_Key, _Open] = {}

    @contextmanager
    def use(self, url: str, *, clock: Clock) -> Iterator[CoordinationStore]:
        """The store that `url` names, for as long as the block lasts. Raises UsageError."""
        key = (url, None if type(clock) is SystemClock else clock)  # all system clocks are one clock
        with self._lock:
            used = self._open.get(key)
            if used is None:
                used = self._open[key] = _Open(open_store(url, clock=clock), os.getpid())  # no I/O
            used.users += 1
        try:
            yield used.store
        finally:
            self._leave(key, used)

    def forget(self) -> None:
        """In a forked child: the lock and the stores are the parent's."""
        self._lock, self._open = threading.Lock(), {}

    def _leave(self, key: _Key, used: _Open) -> None:
        if used.pid != os.getpid():
            return
        with self._lock:
            used.users -= 1
            if used.users:
                return
            del self._open[key]
        used.store.close()  # without the lock: a store that is away must not hold up the others


SHARED = SharedStores()
os.register_at_fork(after_in_child=SHARED.forget)
