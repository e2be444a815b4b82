"""Sessions of the SQLite store: a row that is renewed, and a kernel lock that dies with the process.

Promise: an ended session never comes back: its row is gone, and a renewal updates that row. A session belongs to the
process that opened it: a forked child closes its copy of the lock, and the database refuses the child.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.backends.sqlite import liveness
from tenure.backends.sqlite.liveness import LockFile, SessionRow, Sightings, lock_path
from tenure.backends.sqlite.rows import Rows
from tenure.clock import Clock
from tenure.coordination.amending import amend_by_commit
from tenure.coordination.records import Key, Scope, SessionId
from tenure.errors import StoreUnavailable

if TYPE_CHECKING:
    from tenure.backends.sqlite.store import SqliteStore


class SqliteSession:
    """A session of a `SqliteStore`."""

    def __init__(self, store: SqliteStore, session: SessionId, ttl: timedelta) -> None:
        self._store = store
        self.id = session
        self.ttl = ttl

    def renew(self) -> None:
        self._store.renew_session(self.id)

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        amend_by_commit(self._store, scope, key, value, session=self.id)

    def describe(self, text: str) -> None:
        """A row of a session has no place for a text."""

    def close(self) -> None:
        self._store.end_session(self.id)


class Sessions:
    """All sessions as one store knows them, and the locks of its own sessions. Thread-safe."""

    def __init__(self, directory: Path, *, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._lock = threading.Lock()  # taken inside the database's lock, never around it
        self._sightings = Sightings()  # guarded by _lock
        self._held: dict[SessionId, LockFile] = {}  # guarded by _lock

    def create_lock(self) -> SessionId:
        """Make and hold the lock of a new session, before its row exists. Raises StoreUnavailable."""
        while True:
            session = SessionId(uuid.uuid4().hex)
            try:
                self._directory.mkdir(exist_ok=True)
                lock = LockFile.create(lock_path(self._directory, session))
            except OSError as error:
                raise StoreUnavailable(
                    f"session directory {self._directory} cannot be written: {error}", fix="make it writable"
                ) from error
            if lock is not None:
                with self._lock:
                    self._held[session] = lock
                return session

    def renewed(self, session: SessionId, renewals: int) -> None:
        """Note that this process opened or renewed the session: its ttl counts from now."""
        with self._lock:
            self._sightings.note(session, renewals, at_s=self._clock.monotonic_s())

    def dead(self, connection: sqlite3.Connection) -> set[SessionId]:
        """The sessions with a row that are over."""
        asked_at_s = self._clock.monotonic_s()
        rows = [
            SessionRow(SessionId(session), ttl_us / 1_000_000, renewals)
            for session, ttl_us, renewals in connection.execute("SELECT id, ttl_us, renewals FROM sessions")
        ]
        answered_at_s = self._clock.monotonic_s()
        with self._lock:
            dead = self._sightings.overdue(rows, asked_at_s=asked_at_s, answered_at_s=answered_at_s)
            foreign = [row.id for row in rows if row.id not in dead and row.id not in self._held]
        return dead | {session for session in foreign if liveness.is_free(lock_path(self._directory, session))}

    def end_dead(self, connection: sqlite3.Connection, rows: Rows) -> set[SessionId]:
        """End every dead session in this write transaction."""
        dead = self.dead(connection)
        for session in dead:
            rows.end_session(session)
        return dead

    def prune(self, connection: sqlite3.Connection) -> None:
        """Remove lock files without a session; in a write transaction."""
        living = {SessionId(session) for (session,) in connection.execute("SELECT id FROM sessions")}
        liveness.prune(self._directory, living)

    def discard(self, ended: Iterable[SessionId]) -> None:
        """Remove the lock files of sessions whose rows are gone for good."""
        for session in ended:
            self.release(session)
            liveness.discard(lock_path(self._directory, session))

    def release(self, session: SessionId) -> None:
        """Free a lock of this store: the next store that looks ends the session."""
        with self._lock:
            lock = self._held.pop(session, None)
        if lock is not None:
            lock.release()

    def release_all(self) -> None:
        with self._lock:
            held, self._held = self._held, {}
        for lock in held.values():
            lock.release()

    def forget(self) -> None:
        """In a forked child: close the descriptors, which would keep the locks of a killed parent."""
        self._lock = threading.Lock()
        self.release_all()
