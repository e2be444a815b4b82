"""`with tenure.read(...) as reader:` for processes that read the handles and records of a scope, and do not lead.

Promise: a reader writes nothing but its locks, which are bound to its own session. The session is opened with the first
lock, and once more after it has ended; it is closed at the end of the block. In a forked child the reader is of no use.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Scope, SessionId
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.errors import UsageError
from tenure.handles.areas import area_of
from tenure.handles.record_store import RecordStore
from tenure.in_process.handles import ReadableHandles
from tenure.in_process.leading import no_storage
from tenure.opening import scope_context, scope_store
from tenure.scope_context import ScopeContext
from tenure.settings import load_settings


class Reader:
    """A scope whose handles and records this process reads. Thread-safe."""

    def __init__(
        self, store: CoordinationStore, scope: Scope, *, context: ScopeContext | None, ttl: timedelta, clock: Clock
    ) -> None:
        """`context` None: the reader has no storage, and so no handles."""
        self._scope = scope
        self._context = context
        self._records = RecordStore(store, scope, clock=clock)
        self._sessions = _Sessions(store, ttl=ttl, clock=clock)
        self._pid = os.getpid()

    @property
    def scope(self) -> str:
        """The scope that this process reads."""
        return str(self._scope)

    def handles(self, area: str) -> ReadableHandles:
        """The handles of an area. Raises UsageError: `area` is no name, or the reader has no storage."""
        key = area_of(area)
        if self._context is None:
            raise no_storage(area)
        by = f"process {self._pid} on {socket.gethostname()}"
        return ReadableHandles(
            self._context.handles(key), session=self._sessions.live, by=by, ready=self._check_process
        )

    def record(self, name: str) -> bytes | None:
        """The value of a record as it stands now; None: there is no such record. Raises UsageError (`name` is no name),
        CorruptHandle, StoreUnavailable."""
        self._check_process()
        return self._records.get(name)

    def records(self) -> Mapping[str, bytes]:
        """The values of all records by name. Raises UsageError (a forked child), CorruptHandle, StoreUnavailable."""
        self._check_process()
        return self._records.get_all()

    def close(self) -> None:
        """End the session, and all locks with it; in a forked child nothing: they are its parent's."""
        if self._pid == os.getpid():
            self._sessions.close()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise UsageError(
                f"the reader of scope {self._scope!r} belongs to process {self._pid}, which forked this process",
                fix="call tenure.read in this process",
            )


class _Sessions:
    """The session of a reader: one at a time, opened when it is needed. Thread-safe."""

    def __init__(self, store: CoordinationStore, *, ttl: timedelta, clock: Clock) -> None:
        self._store = store
        self._ttl = ttl
        self._clock = clock
        self._lock = threading.Lock()  # guards _keeper
        self._keeper: SessionKeeper | None = None  # None: no lock was needed yet, or closed

    def live(self) -> SessionId:
        """The session that lives. Raises StoreUnavailable, OutcomeUnknown."""
        with self._lock:
            if self._keeper is not None and self._keeper.liveness.over:
                self._end()  # this process was paused, or the store was away, for longer than the ttl
            if self._keeper is None:
                keeper = SessionKeeper(self._store, ttl=self._ttl, clock=self._clock)
                keeper.__enter__()
                self._keeper = keeper
            return self._keeper.session_id

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.__exit__()


@contextmanager
def read(
    scope: str,
    *,
    store: str | None = None,
    storage: str | None = None,
    ttl: str | None = None,
) -> Iterator[Reader]:
    """Read the handles and records of `scope`, without leading it, for as long as the block lasts.

    `store`, `storage` and `ttl` are the flags of `tenure run`; their defaults come from TENURE_* or tenure.toml.
    Without a storage there are no handles. `ttl`: of the session of the locks. Nobody has to lead the scope. Raises
    UsageError, StoreUnavailable (also: there is no such store). The block was not entered.
    """
    clock = SystemClock()
    settings = load_settings(store=store, storage=storage, ttl=ttl)
    name = Scope(scope)
    opened = scope_store(settings, clock=clock, existing=True)
    try:
        context = None if settings.storage is None else scope_context(settings, opened, name, clock=clock)
        reader = Reader(opened, name, context=context, ttl=settings.ttl, clock=clock)
        try:
            yield reader
        finally:
            reader.close()
    finally:
        opened.close()
