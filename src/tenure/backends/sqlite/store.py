"""The embedded default store: one SQLite file for the members on one machine.

Promise: the contract of `coordination.store`; a commit is on disk when it returns. A watch sees a change by this store
at once, and a change by another process within a poll (50 ms). Each poll judges the sessions of its scope, so it
notices a killed process within a poll, and a stopped process at its ttl. A network file system is refused. A process
that is stopped in the middle of a commit blocks the writers until it is killed or woken; nothing is lost.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakSet

from tenure.backends.shared.amending import amend_by_commit
from tenure.backends.shared.following import FollowedChanges
from tenure.backends.shared.renewals import SessionRow
from tenure.backends.sqlite.database import Database
from tenure.backends.sqlite.examination import SqliteExamination
from tenure.backends.sqlite.rows import Rows
from tenure.backends.sqlite.session import Sessions
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Commit, Guard, Key, Listing, Put, Record, Revision, Scope, SessionId, Write
from tenure.coordination.store import Guarantees, check_commit
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


class SqliteSession:
    """A session of a `SqliteStore`."""

    def __init__(self, store: SqliteStore, session: SessionId, ttl: timedelta) -> None:
        self._store = store
        self.id = session
        self.testament = str(session)
        self.ttl = ttl

    def renew(self) -> None:
        self._store.renew_session(self.id)

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        amend_by_commit(self._store, scope, key, value, session=self.id)

    def close(self) -> None:
        self._store.end_session(self.id)


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
        self._busy_timeout = busy_timeout
        self._sessions = Sessions(self._database, clock=self._clock)
        self._ttls: dict[SessionId, timedelta] = {}  # of the sessions that this store opened; guarded by _lock
        self._watchers: WeakSet[threading.Event] = WeakSet()
        self._writes = 0  # of this store, which the version of its own connection does not count; guarded by _lock
        self._lock = threading.Lock()  # guards _watchers, _writes, _ttls
        _OPEN.add(self)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, key: Key) -> Record | None:
        return self._look(scope, lambda rows: rows.read(scope, key))

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self._look(scope, lambda rows: Listing(tuple(rows.list(scope, prefix)), rows.revision(scope)))

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self.list(scope, prefix)

    def scopes(self) -> Sequence[Scope]:
        return self._look(None, lambda rows: rows.scopes())

    def watch(self, scope: Scope, *, after: Revision) -> FollowedChanges:
        return FollowedChanges(_Polled(self, scope, after), after=after, clock=self._clock)

    def examination(self) -> SqliteExamination:
        """See `Examinable`."""
        return SqliteExamination(self._database.path)

    # --- writing ------------------------------------------------------------------------------------------------

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(GUARANTEES, guards, writes)
        bound = {write.session for write in writes if isinstance(write, Put) and write.session is not None}
        dead = self._dead(lambda rows: [*rows.sessions(scope), *rows.sessions_named(bound)])
        with self._database.writing() as connection:
            rows = self._rows(connection)
            ended = _end(rows, dead)  # written even if the commit itself is refused
            outcome = rows.refusal(scope, guards, writes) or rows.apply(scope, writes)
        self._forget(ended)
        if isinstance(outcome, Commit) and writes:
            self._wake()
        if not isinstance(outcome, Commit):
            raise outcome
        return outcome

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> SqliteSession:
        dead = self._dead(lambda rows: rows.sessions())  # the database is there, before a lock file appears beside it
        session = self._sessions.create_lock()
        try:
            with self._database.writing() as connection:
                begun_s = self._clock.monotonic_s()
                rows = self._rows(connection)
                ended = _end(rows, dead)
                ttl_us = ttl // timedelta(microseconds=1)
                connection.execute("INSERT INTO sessions VALUES (?, ?, 0)", (session, ttl_us))
                living = rows.sessions()
                self._sessions.prune(living)
        except BaseException:
            self._sessions.release(session)  # if the row was written all the same, the session counts as dead
            raise
        self._sessions.keep(living)
        self._sessions.renewed(session, 0, at_s=begun_s)
        self._forget(ended)
        with self._lock:
            self._ttls[session] = ttl
        self._answer_in_time()
        return SqliteSession(self, session, ttl)

    def renew_session(self, session: SessionId) -> None:
        """Count one more renewal. Raises SessionEnded."""
        with self._database.writing() as connection:
            begun_s = self._clock.monotonic_s()
            rows = self._rows(connection)
            own = rows.sessions_named((session,))
            ended = _end(rows, self._sessions.overdue(own, asked_at_s=begun_s))
            if own and not ended:
                connection.execute("UPDATE sessions SET renewals = renewals + 1 WHERE id = ?", (session,))
        if ended or not own:
            self._forget({session})
            raise SessionEnded(session)
        self._sessions.renewed(session, own[0].renewals + 1, at_s=begun_s)

    def end_session(self, testament: str) -> None:
        """End the session. If that fails, its lock is free all the same, and the next store that looks ends it."""
        session = SessionId(testament)
        with self._lock:
            self._ttls.pop(session, None)
        try:
            with self._database.writing() as connection:
                self._rows(connection).end_session(session)
        except BaseException:
            self._sessions.release(session)
            raise
        finally:
            self._answer_in_time()
        self._forget({session})

    def close(self) -> None:
        self._sessions.release_all()
        self._database.close()

    def forget(self) -> None:
        """In a forked child: let go of everything that is the parent's."""
        self._database.forget()
        self._sessions.forget()

    # --- inside ---------------------------------------------------------------------------------------------------

    def _look(self, scope: Scope | None, ask: Callable[[Rows], T]) -> T:
        """Ask at one instant, after ending the dead sessions of the scope (None: all). Writes only to end sessions."""
        asked_at_s = self._clock.monotonic_s()
        with self._database.reading() as connection:
            rows = self._rows(connection)
            dead = self._sessions.dead(rows.sessions(scope), asked_at_s=asked_at_s)
            if not dead:
                return ask(rows)
        return self._end_and(dead, ask)

    def _dead(self, ask: Callable[[Rows], Sequence[SessionRow]]) -> Sequence[SessionRow]:
        """Those of the sessions that are over."""
        asked_at_s = self._clock.monotonic_s()
        with self._database.reading() as connection:
            found = ask(self._rows(connection))
        return self._sessions.dead(found, asked_at_s=asked_at_s)

    def add_watcher(self, event: threading.Event) -> None:
        """Set the event at each change that this store makes."""
        with self._lock:
            self._watchers.add(event)

    def poll(self, polled: _Polled) -> Revision:
        """The revision of a scope that is looked at again and again. Rows are read only after a change of the file."""
        asked_at_s = self._clock.monotonic_s()
        with self._database.reading() as connection:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            state = (version, self._database.opened, self._writes)
            if polled.state != state:
                rows = self._rows(connection)
                polled.state, polled.revision = state, rows.revision(polled.scope)
                polled.sessions = rows.sessions(polled.scope)
        dead = self._sessions.dead(polled.sessions, asked_at_s=asked_at_s)
        if dead:
            polled.revision = self._end_and(dead, lambda rows: rows.revision(polled.scope))
        return polled.revision

    def _end_and(self, dead: Sequence[SessionRow], ask: Callable[[Rows], T]) -> T:
        with self._database.writing() as connection:
            rows = self._rows(connection)
            ended = _end(rows, dead)
            answer = ask(rows)
        self._forget(ended)
        return answer

    def _rows(self, connection: sqlite3.Connection) -> Rows:
        return Rows(connection, origin=self._database.origin)

    def _forget(self, ended: set[SessionId]) -> None:
        self._sessions.discard(ended)
        if ended:
            self._wake()

    def _answer_in_time(self) -> None:
        """The holder of a session believes in it for nine tenths of its ttl. A call that begins before that moment
        answers within the ttl."""
        with self._lock:
            shortest = min(self._ttls.values(), default=None)
        budget = self._busy_timeout if shortest is None else min(self._busy_timeout, shortest / 10)
        self._database.budget_s = budget.total_seconds()

    def _wake(self) -> None:
        with self._lock:
            self._writes += 1
            for event in self._watchers:
                event.set()


@dataclass(slots=True)
class _Polled:
    """A scope as a watch has read it last, and the state of the file then; None: not read yet."""

    store: SqliteStore
    scope: Scope
    revision: Revision
    sessions: Sequence[SessionRow] = ()
    state: tuple[int, int, int] | None = None
    unnumbered: int = 0

    def add(self, event: threading.Event) -> None:
        self.store.add_watcher(event)

    def reached(self) -> Revision:
        return self.store.poll(self)

    def until_look_s(self) -> float:
        return _POLL_S


def _end(rows: Rows, dead: Sequence[SessionRow]) -> set[SessionId]:
    """End the sessions that have not renewed since they were judged."""
    return {row.id for row in dead if rows.end_session(row.id, renewals=row.renewals)}


_OPEN: Final[WeakSet[SqliteStore]] = WeakSet()


def _forget_all() -> None:
    for store in list(_OPEN):
        store.forget()


os.register_at_fork(after_in_child=_forget_all)
