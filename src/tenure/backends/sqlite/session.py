"""Sessions of the SQLite store: a row that is renewed, and a kernel lock that dies with the process.

Promise: an ended session never comes back: its row is gone, and a renewal updates that row. A session belongs to the
process that opened it: a forked child closes its copy of the lock, and the database refuses the child.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence

from tenure.backends.shared.renewals import SessionRow, Sightings, sightings_of
from tenure.backends.sqlite import liveness
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.liveness import LockFile, lock_path
from tenure.clock import Clock
from tenure.coordination.records import SessionId
from tenure.errors import StoreUnavailable


class Sessions:
    """The sessions of a database as one store judges them, and the locks of its own sessions. Thread-safe."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()  # taken inside the database's lock, never around it
        self._held: dict[SessionId, LockFile] = {}  # guarded by _lock

    def create_lock(self) -> SessionId:
        """Make and hold the lock of a new session, before its row exists. Raises StoreUnavailable."""
        directory = self._database.sessions
        while True:
            session = SessionId(uuid.uuid4().hex)
            try:
                directory.mkdir(exist_ok=True)
                lock = LockFile.create(lock_path(directory, session))
            except OSError as error:
                raise StoreUnavailable(
                    f"session directory {directory} cannot be written: {error}", fix="make it writable"
                ) from error
            if lock is not None:
                with self._lock:
                    self._held[session] = lock
                return session

    def renewed(self, session: SessionId, renewals: int, *, at_s: float) -> None:
        """Note that this process opened or renewed the session in a transaction that began at `at_s`: its ttl counts
        from then."""
        self._sightings().note(session, renewals, at_s=at_s)

    def dead(self, rows: Sequence[SessionRow], *, asked_at_s: float) -> list[SessionRow]:
        """Those of the rows whose sessions are over. The rows were read after `asked_at_s`. An end in a later
        transaction names the row exactly: its session may renew before."""
        overdue = self.overdue(rows, asked_at_s=asked_at_s)
        with self._lock:
            foreign = [row for row in rows if row not in overdue and row.id not in self._held]
        directory = self._database.sessions
        return overdue + [row for row in foreign if liveness.is_free(lock_path(directory, row.id))]

    def overdue(self, rows: Sequence[SessionRow], *, asked_at_s: float) -> list[SessionRow]:
        """Those of the rows whose sessions did not renew for their ttl."""
        return self._sightings().overdue(rows, asked_at_s=asked_at_s, answered_at_s=self._clock.monotonic_s())

    def keep(self, rows: Sequence[SessionRow]) -> None:
        """Forget the sightings of all sessions but these, which are all that there are."""
        self._sightings().keep(rows)

    def _sightings(self) -> Sightings:
        return sightings_of(self._database.identity, self._clock)

    def prune(self, rows: Sequence[SessionRow]) -> None:
        """Remove the lock files of all sessions but these, which are all that there are; in a write transaction."""
        liveness.prune(self._database.sessions, {row.id for row in rows})

    def discard(self, ended: Iterable[SessionId]) -> None:
        """Remove the lock files of sessions whose rows are gone for good."""
        for session in ended:
            self.release(session)
            liveness.discard(lock_path(self._database.sessions, session))

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
