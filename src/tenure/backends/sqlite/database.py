"""One SQLite file as transactions: opened at first use, one connection under one lock.

Promise: `reading` sees one instant; `writing` is all or nothing, and on disk when it returns. `errors.py` has the table
of errors. Not promised: progress while another process holds the write lock (for example, stopped inside a commit). A
forked child of a process that had the file open is refused.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from tenure.backends.sqlite.errors import maybe_written, nothing_written
from tenure.backends.sqlite.mounts import refuse_network
from tenure.clock import Clock
from tenure.errors import StoreUnavailable, UsageError

SCHEMA: Final = 1
_TABLES: Final = (
    # `origin` is a part of every version: it differs when a database is made anew at the same path.
    "CREATE TABLE tenure (schema INTEGER NOT NULL, origin TEXT NOT NULL)",
    # The revision of a scope is kept for ever: it makes versions unique.
    "CREATE TABLE scopes (name TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE records (scope TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, revision INTEGER NOT NULL,"
    " session TEXT, PRIMARY KEY (scope, key))",
    "CREATE INDEX records_of_session ON records (session) WHERE session IS NOT NULL",
    "CREATE TABLE sessions (id TEXT PRIMARY KEY, ttl_us INTEGER NOT NULL, renewals INTEGER NOT NULL) WITHOUT ROWID",
)
_RETRY_S: Final = 0.01
_INHERITED: Final[set[tuple[int, int]]] = set()
"""Files (device, inode) that the parent process had open at the fork. SQLite keeps one table of its locks in a process.
A child inherits that table, but not the kernel's locks: even a new connection in the child locks nothing."""


class Database:
    """A SQLite file with our tables. The first transaction reads `origin`."""

    def __init__(self, path: Path, *, clock: Clock, busy_timeout: timedelta) -> None:
        self.path = path
        self.origin = ""
        self._clock = clock
        self._busy_timeout_s = busy_timeout.total_seconds()
        self._closed = False
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None  # used under _lock only
        self._inode = (0, 0)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one instant. Raises StoreUnavailable, Corrupt."""
        with self._lock:
            connection = self._connected()
            try:
                connection.execute("BEGIN")
                yield connection
            except sqlite3.Error as error:
                raise nothing_written(error, self.path) or error from error
            finally:
                _roll_back(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock, committed if the block ends without an error.

        Raises StoreUnavailable, Corrupt: rolled back; OutcomeUnknown: the commit itself failed.
        """
        with self._lock:
            connection = self._connected()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
            except sqlite3.Error as error:
                _roll_back(connection)
                raise nothing_written(error, self.path) or error from error
            except BaseException:
                _roll_back(connection)
                raise
            try:
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                if not connection.in_transaction:
                    raise maybe_written(error, self.path) from error
                _roll_back(connection)
                raise nothing_written(error, self.path) or error from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def forget(self) -> None:
        """In a forked child: the lock and the connection are the parent's."""
        self._lock = threading.Lock()
        if self._connection is not None:
            _INHERITED.add(self._inode)
            # Never freed: closing the connection in the child could wait for a lock that a thread of the parent held
            # at the fork.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            self._connection = None

    # --- opening; all under _lock ------------------------------------------------------------------------------

    def _connected(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable(f"store {self.path} is closed")
        if self._connection is None:
            self._connection = self._open()
        elif self._identity() != self._inode:
            # Members that open the path now open another database: going on here would make two leaders.
            raise StoreUnavailable(
                f"store {self.path} was removed or replaced while it was open", fix="restart this process"
            )
        return self._connection

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _open(self) -> sqlite3.Connection:
        folder = self.path.parent
        if not folder.is_dir():
            raise StoreUnavailable(
                f"directory {folder} of store {self.path.name!r} does not exist", fix=f"create it: mkdir -p {folder}"
            )
        refuse_network(self.path)
        if self._identity() in _INHERITED:
            raise UsageError(
                f"store {self.path} was open in the parent when this process {os.getpid()} was forked from it",
                fix="start the process by exec or 'spawn', or close every store before the fork",
            )
        with ExitStack() as opened:
            try:
                connection = sqlite3.connect(
                    self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
                )
                opened.callback(connection.close)
                self._prepare(connection)
            except sqlite3.Error as error:
                raise nothing_written(error, self.path) or error from error
            opened.pop_all()
        self._inode = self._identity() or (0, 0)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._use_log(connection)
        connection.execute("PRAGMA synchronous=FULL")
        if not self._has_tables(connection):
            connection.execute("BEGIN IMMEDIATE")
            if not self._has_tables(connection):
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute("INSERT INTO tenure VALUES (?, ?)", (SCHEMA, secrets.token_hex(4)))
            connection.execute("COMMIT")
            _sync_directory(self.path.parent)
        schema, self.origin = connection.execute("SELECT schema, origin FROM tenure").fetchone()
        if schema > SCHEMA:
            raise UsageError(
                f"store {self.path} has schema {schema}, this version knows up to {SCHEMA}", fix="upgrade tenure"
            )

    def _use_log(self, connection: sqlite3.Connection) -> None:
        """Switch to the write-ahead log. When two processes do so at once, SQLite ignores its busy timeout."""
        deadline = self._clock.monotonic_s() + self._busy_timeout_s
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or self._clock.monotonic_s() >= deadline:
                    raise
                self._clock.sleep(_RETRY_S)
                continue
            if mode != "wal":
                raise StoreUnavailable(f"store {self.path} cannot use a write-ahead log, it stays at {mode!r}")
            return

    def _has_tables(self, connection: sqlite3.Connection) -> bool:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "tenure" not in tables:
            raise UsageError(f"{self.path} is a database of something else", fix="give the store a file of its own")
        return bool(tables)


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
