"""One client of the store for all threads of a page.

Promise: the client is opened at its first use. After a failure it is closed by its last user, and the next use opens
another: so a store that was away, or whose file was put back, is looked for as if for the first time. Thread-safe. No
thread that answers a request waits here. Nothing is written, and no store is made, unless an operator acts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tenure.coordination.store import CoordinationStore
from tenure.errors import AccessDenied, StoreUnavailable

Open = Callable[[], CoordinationStore]


@dataclass(slots=True)
class _Client:
    store: CoordinationStore
    users: int = 0
    is_retired: bool = False


class StoreClient:
    """`open`: opens the store, which must exist. Raises StoreUnavailable, UsageError."""

    def __init__(self, open: Open) -> None:  # noqa: A002 - what it does, in the word of the registry
        self._open = open
        self._lock = threading.Lock()  # guards _client
        self._client: _Client | None = None

    @contextmanager
    def use(self) -> Iterator[CoordinationStore]:
        """The store, for as long as the block lasts. Raises StoreUnavailable: it cannot be opened."""
        client = self._take()
        failed = False
        try:
            yield client.store
        except AccessDenied:
            raise  # the store answers
        except StoreUnavailable:
            failed = True
            raise
        finally:
            self._leave(client, failed=failed)

    def close(self) -> None:
        """Close the client, once nobody uses it."""
        client = self._client
        if client is not None:
            with self._lock:
                client.users += 1
            self._leave(client, failed=True)

    def _take(self) -> _Client:
        with self._lock:
            if self._client is None:
                self._client = _Client(self._open())
            self._client.users += 1
            return self._client

    def _leave(self, client: _Client, *, failed: bool) -> None:
        with self._lock:
            client.users -= 1
            if failed:
                client.is_retired = True
                if self._client is client:
                    self._client = None
            is_last = client.is_retired and client.users == 0
        if is_last:
            client.store.close()
