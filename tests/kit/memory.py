"""The reference model: a coordination store in the memory of one process.

Promise: the contract of `coordination.store` in its plainest form; tests compare the other stores with it. A session
ends when the injected clock reaches its last renewal + ttl, judged at each call. Not promised: that records outlive the
process, or are reached from another process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from weakref import WeakSet

from tenure.backends.shared.amending import amend_by_commit
from tenure.backends.shared.following import FollowedChanges
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import (
    Commit,
    Guard,
    Key,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Version,
    Write,
    implied_guard,
    wanted_version,
)
from tenure.coordination.store import Guarantees, check_commit
from tenure.errors import GuardFailed, SessionEnded, StoreUnavailable

GUARANTEES = Guarantees(name="memory", max_record_bytes=1024 * 1024, max_writes=1000, survives_restart=False)

_LOOK_S = 0.05
"""How often a watch looks: a session ends at its deadline only when a call judges it."""


@dataclass
class _Scope:
    """The state of one scope. The counters never go back, so a version never names a second state."""

    records: dict[Key, Record] = field(default_factory=dict)
    revision: int = 0
    last_version: int = 0
    watchers: WeakSet[threading.Event] = field(default_factory=WeakSet)

    def changed(self) -> None:
        self.revision += 1
        for event in self.watchers:
            event.set()

    def holds(self, guard: Guard) -> bool:
        record = self.records.get(guard.key)
        return (record and record.version) == wanted_version(guard)

    def apply(self, write: Write) -> Version | None:
        if not isinstance(write, Put):
            del self.records[write.key]
            return None
        self.last_version += 1
        version = Version(str(self.last_version))
        self.records[write.key] = Record(write.key, bytes(write.value), version, write.session)
        return version


class MemoryServer:
    """The state that several `MemoryStore` clients share. One lock guards all of it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._scopes: dict[Scope, _Scope] = {}  # guarded by _lock
        self._deadlines: dict[SessionId, float] = {}  # of the living sessions; guarded by _lock
        self._last_session = 0  # guarded by _lock

    def open_session(self, ttl: timedelta) -> SessionId:
        with self._lock:
            self._last_session += 1
            session = SessionId(f"memory-{self._last_session}")
            self._deadlines[session] = self.clock.monotonic_s() + ttl.total_seconds()
            return session

    def renew(self, session: SessionId, ttl: timedelta) -> None:
        with self._judged():
            if session not in self._deadlines:
                raise SessionEnded(session)
            self._deadlines[session] = self.clock.monotonic_s() + ttl.total_seconds()

    def end(self, session: SessionId) -> None:
        with self._judged():
            if session in self._deadlines:
                self._end(session)

    def read(self, scope: Scope, key: Key) -> Record | None:
        with self._judged():
            return self._scope(scope).records.get(key)

    def list(self, scope: Scope, prefix: str) -> Listing:
        with self._judged():
            state = self._scope(scope)
            keys = sorted(key for key in state.records if key.is_under(prefix))
            return Listing(tuple(state.records[key] for key in keys), Revision(state.revision))

    def scopes(self) -> Sequence[Scope]:
        with self._judged():
            return sorted(scope for scope, state in self._scopes.items() if state.records)

    def commit(self, scope: Scope, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        with self._judged():
            state = self._scope(scope)
            for guard in (*guards, *map(implied_guard, writes)):
                if not state.holds(guard):
                    raise GuardFailed(guard, scope=scope)
            for write in writes:
                if isinstance(write, Put) and write.session is not None and write.session not in self._deadlines:
                    raise SessionEnded(write.session)
            versions = {write.key: version for write in writes if (version := state.apply(write)) is not None}
            if writes:
                state.changed()
            return Commit(versions, Revision(state.revision))

    def revision(self, scope: Scope) -> Revision:
        with self._judged():
            return Revision(self._scope(scope).revision)

    def next_deadline_s(self) -> float:
        """When the next session ends without a renewal; infinity: there is no session."""
        with self._lock:
            return min(self._deadlines.values(), default=float("inf"))

    def add_watcher(self, scope: Scope, event: threading.Event) -> None:
        with self._lock:
            self._scope(scope).watchers.add(event)

    def _scope(self, scope: Scope) -> _Scope:
        return self._scopes.setdefault(scope, _Scope())

    @contextmanager
    def _judged(self) -> Iterator[None]:
        """Hold the lock; the sessions that are past their deadline have ended."""
        with self._lock:
            now = self.clock.monotonic_s()
            for session in [session for session, deadline in self._deadlines.items() if now >= deadline]:
                self._end(session)
            yield

    def _end(self, session: SessionId) -> None:
        del self._deadlines[session]
        for state in self._scopes.values():
            bound = [key for key, record in state.records.items() if record.session == session]
            for key in bound:
                del state.records[key]
            if bound:
                state.changed()


class MemoryStore:
    """A client of `server`; None: of a new server on `clock`."""

    guarantees = GUARANTEES

    def __init__(self, server: MemoryServer | None = None, *, clock: Clock | None = None) -> None:
        self._server = server or MemoryServer(clock)
        self._closed = threading.Event()

    @property
    def server(self) -> MemoryServer:
        """Raises StoreUnavailable: this client is closed."""
        if self._closed.is_set():
            raise StoreUnavailable("memory store is closed")
        return self._server

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> MemorySession:
        return MemorySession(self, self.server.open_session(ttl), ttl)

    def end_session(self, testament: str) -> None:
        self.server.end(SessionId(testament))

    def read(self, scope: Scope, key: Key) -> Record | None:
        return self.server.read(scope, key)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self.server.list(scope, prefix)

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self.list(scope, prefix)

    def scopes(self) -> Sequence[Scope]:
        return self.server.scopes()

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(GUARANTEES, guards, writes)
        return self.server.commit(scope, guards, writes)

    def watch(self, scope: Scope, *, after: Revision) -> FollowedChanges:
        return FollowedChanges(_Watched(self, scope), after=after, clock=self.server.clock)

    def close(self) -> None:
        self._closed.set()


@dataclass(frozen=True, slots=True)
class _Watched:
    """A scope whose revision is looked up."""

    store: MemoryStore
    scope: Scope
    unnumbered: int = 0

    def add(self, event: threading.Event) -> None:
        self.store.server.add_watcher(self.scope, event)

    def reached(self) -> Revision:
        return self.store.server.revision(self.scope)

    def until_look_s(self) -> float:
        return _LOOK_S


class MemorySession:
    """A session of a `MemoryStore`."""

    def __init__(self, store: MemoryStore, session: SessionId, ttl: timedelta) -> None:
        self._store = store
        self.id = session
        self.testament = str(session)
        self.ttl = ttl

    def renew(self) -> None:
        self._store.server.renew(self.id, self.ttl)

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        amend_by_commit(self._store, scope, key, value, session=self.id)

    def close(self) -> None:
        self._store.server.end(self.id)
