"""The embedded default store: one SQLite file for the members on one machine.

Promise: the contract of `coordination.store`; a commit is on disk when it returns. A watch sees a change by this store
at once, and a change by another process within a poll (50 ms). Each poll judges all sessions, so it notices a killed
process within a poll, and a stopped process at its ttl. A network file system is refused. A process that is stopped in
the middle of a commit blocks the writers until it is killed or woken; nothing is lost.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakSet

from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.rows import Rows
from tenure.backends.sqlite.session import Sessions, SqliteSession
from tenure.clock import Clock, SystemClock
from tenure.coordination.guarantees import Guarantees
from tenure.coordination.polling import PolledChanges
from tenure.coordination.records import Commit, Guard, Key, Listing, Record, Revision, Scope, SessionId, Write
from tenure.coordination.store import check_commit
from tenure.errors import SessionEnded

T = TypeVar("T")
_POLL_S: Final = 0.05
GUARANTEES: Final = Guarantees(
    name="sqlite",
    max_record_bytes=1024 * 1024,
    max_writes=1000,
    survives_restart=True,
    death_noticed_at_once=True,
)


class SqliteStore:
    """A store in the file `path`, made at first use in a directory that exists."""

    guarantees = GUARANTEES

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        busy_timeout: timedelta = timedelta(seconds=5),
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        absolute = Path(os.path.abspath(path))
        self._database = Database(absolute, clock=self._clock, busy_timeout=busy_timeout)
        self._sessions = Sessions(absolute.with_name(absolute.name + "-sessions"), clock=self._clock)
        self._watchers: WeakSet[threading.Event] = WeakSet()
        self._watchers_lock = threading.Lock()  # guards _watchers
        _OPEN.add(self)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, key: Key) -> Record | None:
        return self._look(lambda rows: rows.read(scope, key))

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self._look(lambda rows: Listing(tuple(rows.list(scope, prefix)), rows.revision(scope)))

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self.list(scope, prefix)

    def scopes(self) -> Sequence[Scope]:
        return self._look(lambda rows: rows.scopes())

    def watch(self, scope: Scope, *, after: Revision) -> PolledChanges:
        look = partial(self._look, lambda rows: rows.revision(scope))
        changes = PolledChanges(scope, after=after, look=look, every_s=_POLL_S, clock=self._clock)
        with self._watchers_lock:
            self._watchers.add(changes.wake)
        return changes

    # --- writing ------------------------------------------------------------------------------------------------

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(GUARANTEES, guards, writes)
        with self._database.writing() as connection:
            rows = self._rows(connection)
            ended = self._sessions.end_dead(connection, rows)  # written even if the commit itself is refused
            outcome = rows.refusal(scope, guards, writes) or rows.apply(scope, writes)
        self._sessions.discard(ended)
        if ended or (isinstance(outcome, Commit) and writes):
            self._wake()
        if not isinstance(outcome, Commit):
            raise outcome
        return outcome

    def open_session(self, *, ttl: timedelta) -> SqliteSession:
        with self._database.reading():
            pass  # the database is there and ours, before a lock file appears beside it
        session = self._sessions.create_lock()
        try:
            with self._database.writing() as connection:
                ttl_us = ttl // timedelta(microseconds=1)
                connection.execute("INSERT INTO sessions VALUES (?, ?, 0)", (session, ttl_us))
                self._sessions.prune(connection)
        except BaseException:
            self._sessions.release(session)  # if the row was written all the same, the session counts as dead
            raise
        self._sessions.renewed(session, 0)
        return SqliteSession(self, session, ttl)

    def renew_session(self, session: SessionId) -> None:
        """Count one more renewal. Raises SessionEnded."""
        with self._database.writing() as connection:
            ended = self._sessions.end_dead(connection, self._rows(connection))
            row = connection.execute(
                "UPDATE sessions SET renewals = renewals + 1 WHERE id = ? RETURNING renewals", (session,)
            ).fetchone()
        if row is None:
            self._forget({session, *ended})
            raise SessionEnded(session)
        self._sessions.renewed(session, row[0])
        self._forget(ended)

    def end_session(self, session: SessionId) -> None:
        """End the session. If that fails, its lock is free all the same, and the next store that looks ends it."""
        try:
            with self._database.writing() as connection:
                self._rows(connection).end_session(session)
        except BaseException:
            self._sessions.release(session)
            raise
        self._forget({session})

    def close(self) -> None:
        self._sessions.release_all()
        self._database.close()

    def forget(self) -> None:
        """In a forked child: let go of everything that is the parent's."""
        self._database.forget()
        self._sessions.forget()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _look(self, ask: Callable[[Rows], T]) -> T:
        """Ask at one instant, after ending the dead sessions. Writes only if a session is dead."""
        with self._database.reading() as connection:
            if not self._sessions.dead(connection):
                return ask(self._rows(connection))
        with self._database.writing() as connection:
            rows = self._rows(connection)
            ended = self._sessions.end_dead(connection, rows)
            answer = ask(rows)
        self._forget(ended)
        return answer

    def _rows(self, connection: sqlite3.Connection) -> Rows:
        return Rows(connection, origin=self._database.origin)

    def _forget(self, ended: set[SessionId]) -> None:
        self._sessions.discard(ended)
        if ended:
            self._wake()

    def _wake(self) -> None:
        with self._watchers_lock:
            for event in self._watchers:
                event.set()


_OPEN: Final[WeakSet[SqliteStore]] = WeakSet()


def _forget_all() -> None:
    for store in list(_OPEN):
        store.forget()


os.register_at_fork(after_in_child=_forget_all)
