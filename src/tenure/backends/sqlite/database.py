"""One SQLite file as transactions: opened at first use, one connection under one lock.

Promise: `reading` sees one instant; `writing` is all or nothing, and on disk when it returns. `errors.py` has the table
of errors. A transaction is refused when the path does not name the file, or the log, that the connection has open;
after a COMMIT the outcome is then unknown. The next transaction opens the path again, if it has the same database. A
call waits for others no longer than `budget_s`. Not promised: progress while another process holds the write lock (for
example, stopped inside a commit). A forked child of a process that had the file open is refused.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from tenure.backends.sqlite import held_file
from tenure.backends.sqlite.errors import maybe_written, nothing_written
from tenure.backends.sqlite.held_file import HeldFile
from tenure.backends.sqlite.mounts import refuse_mount
from tenure.clock import Clock
from tenure.errors import OutcomeUnknown, StoreUnavailable, UsageError

SCHEMA: Final = 1
_TABLES: Final = (
    # `origin` is a part of every version: it differs when a database is made anew at the same path.
    "CREATE TABLE tenure (schema INTEGER NOT NULL, origin TEXT NOT NULL)",
    # The revision of a scope is kept for ever: it makes versions unique.
    "CREATE TABLE scopes (name TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE records (scope TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL,"
    " session TEXT, PRIMARY KEY (scope, key))",
    "CREATE INDEX records_of_session ON records (session) WHERE session IS NOT NULL",
    "CREATE INDEX sessions_of_scope ON records (scope, session) WHERE session IS NOT NULL",
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, ttl_us INTEGER NOT NULL, renewals INTEGER NOT NULL) WITHOUT ROWID",
)
_RETRY_S: Final = 0.002
_LET_GO_S: Final = 0.1
"""How long the opener waits for another store of the process that still has a removed log open."""


class Database:
    """A SQLite file with our tables. The first transaction reads `origin`."""

    def __init__(self, path: Path, *, clock: Clock, busy_timeout: timedelta) -> None:
        self.path = path
        self.origin = ""
        self.identity: tuple[held_file.Inode, str] = ((0, 0), "")
        """The file and its origin. Set by the opening."""
        self.opened = 0
        """How often it was opened."""
        self.sessions = path
        """The directory of the sessions, beside the file that the path's links lead to. Set by the opening."""
        self.budget_s = self._open_budget_s = busy_timeout.total_seconds()
        """The longest wait of a transaction for others; of the opening, the busy timeout."""
        self._clock = clock
        self._closed = False
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None  # used under _lock only
        self._held: HeldFile | None = None  # set and unset with _connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one instant. Raises StoreUnavailable, Corrupt."""
        connection = self._begin("BEGIN", until_s=self._clock.monotonic_s() + self.budget_s)
        try:
            yield connection
        except sqlite3.Error as error:
            raise nothing_written(error, self.path) or error from error
        finally:
            try:
                _roll_back(connection)
            finally:
                self._lock.release()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock, committed if the block ends without an error.

        Raises StoreUnavailable, Corrupt: rolled back; OutcomeUnknown: the commit itself failed, or went to a file or
        log that was removed meanwhile.
        """
        until_s = self._clock.monotonic_s() + self.budget_s
        held = self._open_file(until_s=until_s)
        with held.writing(until_s=until_s, clock=self._clock):
            connection = self._begin("BEGIN IMMEDIATE", until_s=until_s, held=held)
            try:
                try:
                    yield connection
                except sqlite3.Error as error:
                    raise nothing_written(error, self.path) or error from error
                self._commit(connection, held)
            finally:
                try:
                    _roll_back(connection)
                finally:
                    self._lock.release()

    def _commit(self, connection: sqlite3.Connection, held: HeldFile) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if not connection.in_transaction:
                raise maybe_written(error, self.path) from error
            raise nothing_written(error, self.path) or error from error
        try:
            stands = held.stands(self.path)
        except OSError as error:
            raise OutcomeUnknown(f"store {self.path} cannot be looked at after a commit: {error}") from error
        if not stands:
            raise OutcomeUnknown(f"commit to store {self.path} went to a file or log that was removed meanwhile")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._let_go()

    def forget(self) -> None:
        """In a forked child: the lock and the connection are the parent's."""
        self._lock = threading.Lock()
        self._held = None
        if self._connection is not None:
            # Never freed: closing the connection in the child could wait for a lock that a thread of the parent held
            # at the fork.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            self._connection = None

    # --- beginning --------------------------------------------------------------------------------------------------

    def _begin(self, how: str, *, until_s: float, held: HeldFile | None = None) -> sqlite3.Connection:
        """Begin a transaction of the database that the path names, and keep _lock. Between its tries it leaves _lock to
        other threads. `held`: the file that must still be open. Raises StoreUnavailable, Corrupt, UsageError: _lock is
        free, and nothing has begun."""
        while True:
            self._acquire(until_s)
            try:
                if held is not None and self._held is not held:
                    raise StoreUnavailable(f"store {self.path} was opened again meanwhile", fix="try again")
                connection = self._connected(until_s)
                try:
                    connection.execute(how)
                    if connection.execute("SELECT origin FROM tenure").fetchone() != (self.origin,):
                        raise self._replaced()
                    return connection
                except sqlite3.Error as error:
                    _roll_back(connection)
                    if not _is_busy(error) or self._clock.monotonic_s() >= until_s:
                        raise nothing_written(error, self.path) or self._replaced() from error
                except BaseException:
                    _roll_back(connection)
                    raise
            except BaseException:
                self._lock.release()
                raise
            self._lock.release()
            self._clock.sleep(_RETRY_S)

    def _open_file(self, *, until_s: float) -> HeldFile:
        self._acquire(until_s)
        try:
            self._connected(until_s)
            assert self._held is not None, "set with the connection"
            return self._held
        finally:
            self._lock.release()

    def _acquire(self, until_s: float) -> None:
        if not self._lock.acquire(timeout=max(0.0, until_s - self._clock.monotonic_s())):
            raise StoreUnavailable(f"store {self.path} is in use by other threads of this process for too long")

    # --- opening; all under _lock -----------------------------------------------------------------------------------

    def _connected(self, until_s: float) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable(f"store {self.path} is closed")
        if self._held is not None and not self._stands(self._held):
            # Members that open the path now have another database, or another log: going on would make two leaders.
            self._let_go()
            raise self._replaced()
        if self._connection is None:
            self._open(max(until_s, self._clock.monotonic_s() + self._open_budget_s))
        assert self._connection is not None, "set by the opening"
        return self._connection

    def _stands(self, held: HeldFile) -> bool:
        try:
            return held.stands(self.path)
        except OSError as error:
            raise StoreUnavailable(f"store {self.path} cannot be looked at: {error}", fix="check the disk") from error

    def _replaced(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"store {self.path} or its log was removed or replaced while it was open",
            fix="put the file back, with the files beside it; it is opened again by itself",
        )

    def _let_go(self) -> None:
        connection, held, self._connection, self._held = self._connection, self._held, None, None
        if held is not None:
            held_file.leave(held, self, connection, path=self.path)

    def _open(self, until_s: float) -> None:
        folder = self.path.parent
        if not folder.is_dir():
            raise StoreUnavailable(
                f"directory {folder} of store {self.path.name!r} does not exist",
                fix=f"check the path, and that its volume is mounted; for a new store: mkdir -p {folder}",
            )
        refuse_mount(self.path)
        while not self._try_to_open(until_s):
            # Members that have a removed log open let go of it at their next look.
            for other in held_file.users_at(self.path):
                if isinstance(other, Database) and other is not self:
                    other.look()
            if self._clock.monotonic_s() >= until_s:
                raise StoreUnavailable(
                    f"store {self.path} is open in another process by another name, or with a log that was removed",
                    fix="give all members one path, mount the directory and not the file, and end stopped members",
                )
            self._clock.sleep(_RETRY_S)

    def _try_to_open(self, until_s: float) -> bool:
        """Whether the file is open now; False: it is in use with another log."""
        if self.origin and not self.path.exists():
            raise self._replaced()
        try:
            held = held_file.hold(self.path, self, create=not self.origin)
        except OSError as error:
            raise StoreUnavailable(
                f"store {self.path} cannot be opened ({error})",
                fix="make the file and its directory writable for this user",
            ) from error
        connection: sqlite3.Connection | None = None
        opened = False
        try:
            with held.writing(until_s=until_s, clock=self._clock):
                held.check_names()
                if self._stands(held) and not held.is_elsewhere():
                    patience_s = until_s - self._clock.monotonic_s()
                    connection = sqlite3.connect(
                        held.path, timeout=max(0.0, patience_s), isolation_level=None, check_same_thread=False
                    )
                    origin = self._prepare(connection, until_s)
                    held.claim()
                    if self.origin not in ("", origin):
                        raise self._replaced()
                    connection.execute("PRAGMA busy_timeout=0")  # `_begin` waits, and lets other threads read meanwhile
                    opened = True
        except sqlite3.Error as error:
            raise nothing_written(error, self.path) or error from error
        finally:
            if not opened:
                held_file.leave(held, self, connection, path=self.path)
        if opened:
            self._connection, self._held, self.origin, self.sessions = connection, held, origin, held.sessions
            self.identity = (held.inode, origin)
            self.opened += 1
        return opened

    def look(self) -> None:
        """Let go of a file or log that is not the path's any more; for another store of the process, which opens the
        path. Not while a transaction runs."""
        if self._lock.acquire(timeout=_LET_GO_S):
            try:
                if self._held is not None and self._connection is not None and not self._stands(self._held):
                    self._let_go()
            finally:
                self._lock.release()

    def _prepare(self, connection: sqlite3.Connection, until_s: float) -> str:
        """Make the tables if there are none. The origin."""
        self._use_log(connection, until_s)
        connection.execute("PRAGMA synchronous=FULL")
        if not self._names(connection):
            connection.execute("BEGIN IMMEDIATE")
            if not self._names(connection):
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute("INSERT INTO tenure VALUES (?, ?)", (SCHEMA, secrets.token_hex(4)))
            connection.execute("COMMIT")
            _sync_directory(self.path.parent)
        schema, origin = connection.execute("SELECT schema, origin FROM tenure").fetchone()
        if schema > SCHEMA:
            raise UsageError(
                f"store {self.path} has schema {schema}, this version knows up to {SCHEMA}", fix="upgrade tenure"
            )
        return str(origin)

    def _use_log(self, connection: sqlite3.Connection, until_s: float) -> None:
        """Switch to the write-ahead log. Another program may have the file locked."""
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or self._clock.monotonic_s() >= until_s:
                    raise
                self._clock.sleep(_RETRY_S)
                continue
            if mode != "wal":
                raise StoreUnavailable(f"store {self.path} cannot use a write-ahead log, it stays at {mode!r}")
            return

    def _names(self, connection: sqlite3.Connection) -> set[str]:
        """Tables and indexes. Raises UsageError: they are not ours."""
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if names and "tenure" not in names:
            raise UsageError(f"{self.path} is a database of something else", fix="give the store a file of its own")
        return names


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _sync_directory(directory: Path) -> None:
    """Make the file's name survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
