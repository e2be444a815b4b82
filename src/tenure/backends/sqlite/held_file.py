"""One database file as this process holds it, shared by all stores of the process that have it open.

Promise: while a process holds a file,

- nobody removes its log: SQLite removes the log when the last connection closes, and to SQLite the lock of `_SQLITE`
  is a connection. SQLite's own locks are no such proof: POSIX drops them when any code of the process closes the file;
- nobody opens the file with another log (`_LOGS`): not by another name, and not after the log was removed;
- one writer at a time (`writing`), also where SQLite's locks are gone.

`stands` says whether the path still names this file and this log. Its answer is exact: the inodes cannot be used again
while they are open. Not promised: anything about programs that write the files without SQLite.

The locks on ranges of the file belong to an open descriptor (Linux, "open file description locks"): only its owner
drops its locks, by `unlock` or by closing it; the kernel drops them when the last process that has the descriptor is
gone. Not so for the locks that SQLite takes: POSIX drops a process's locks on a file as soon as any code of the process
closes that file. Locks of both kinds see and exclude each other.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenure.clock import Clock
from tenure.errors import StoreUnavailable, UsageError

_FLOCK = "hhqqi4x"
"""The kernel's `struct flock`: kind, whence, start, length, process, padding."""


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file; they need not exist."""

    start: int
    length: int = 1


def lock_shared(descriptor: int, at: Range) -> bool:
    """Take the lock beside other readers; False: a writer has it."""
    return _lock(descriptor, fcntl.F_RDLCK, at)


def lock_alone(descriptor: int, at: Range) -> bool:
    """Take the lock alone; False: another descriptor has a lock there. The descriptor is open for writing."""
    return _lock(descriptor, fcntl.F_WRLCK, at)


def unlock(descriptor: int, at: Range) -> None:
    """Drop the lock. In a forked child that would drop the parent's: a child closes its copy instead."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK, at))


def is_locked_elsewhere(descriptor: int, at: Range) -> bool:
    """Whether any other descriptor, or SQLite in any process, has a lock on a byte of the range."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK, at))
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def _lock(descriptor: int, kind: int, at: Range) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(kind, at))
    except (BlockingIOError, PermissionError):  # EAGAIN, EACCES: the kernel may give either
        return False
    return True


def _request(kind: int, at: Range) -> bytes:
    return struct.pack(_FLOCK, kind, 0, at.start, at.length, 0)


Inode = tuple[int, int]
"""Device and number."""

_SQLITE: Final = Range(0x40000002, 510)
"""The bytes of the database that SQLite locks for reading while a connection is open, and alone to remove the log."""

_SQLITE_INDEX: Final = Range(128)
"""The byte of the log's index that SQLite locks for reading while it is open, and alone to make the index anew."""

_WRITER: Final = Range(1 << 62)
"""Locked alone by a writer. This byte of the database and those after it are beyond the bytes that SQLite locks."""

_LOGS: Final = Range((1 << 62) + 1, 1 << 61)
"""One byte for each log that the file may have, locked for reading by the processes that use that log."""

_RETRY_S: Final = 0.002


class HeldFile:
    """A database file that is open in this process. `_HELD` has them by inode."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        """Its real path, beside which SQLite keeps the log."""
        self.sessions = path.with_name(path.name + "-sessions")
        """The directory of the sessions."""
        self._log_path = path.with_name(path.name + "-wal")
        self._index_path = path.with_name(path.name + "-shm")
        self.inode = _inode(os.fstat(descriptor))
        self._descriptor = descriptor
        self._others: list[int] = []  # open until the end, because closing one drops SQLite's locks
        self._log: tuple[Inode, Inode] | None = None  # log and index; None: no connection was opened yet
        self._users: set[object] = set()  # guarded by _GUARD
        self._turn = threading.Lock()  # held by the thread that writes, or opens

    @contextmanager
    def writing(self, *, until_s: float, clock: Clock) -> Iterator[None]:
        """Be the only writer, of all processes. Raises StoreUnavailable: another was until `until_s`."""
        user = object()  # keeps the descriptor open meanwhile
        with _GUARD:
            if _HELD.get(self.inode) is not self:
                raise StoreUnavailable(f"store {self.path} was closed meanwhile", fix="try again")
            self._users.add(user)
        try:
            if not self._turn.acquire(timeout=max(0.0, until_s - clock.monotonic_s())):
                raise _busy(self.path)
            try:
                while not lock_alone(self._descriptor, _WRITER):
                    if clock.monotonic_s() >= until_s:
                        raise _busy(self.path)
                    clock.sleep(_RETRY_S)
                try:
                    yield
                finally:
                    unlock(self._descriptor, _WRITER)
            finally:
                self._turn.release()
        finally:
            leave(self, user, None, path=self.path)

    def check_names(self) -> None:
        """Raises StoreUnavailable: the file has two names. SQLite would keep a log beside each."""
        if (names := os.fstat(self._descriptor).st_nlink) > 1:
            raise StoreUnavailable(
                f"store {self.path} has {names} names (hard links), and a member by another name has another log",
                fix=f"remove the other names; `find DIRECTORY -samefile {self.path}` lists them",
            )

    def is_elsewhere(self) -> bool:
        """Whether any process uses this file with another log than that of its path. Asked by a writer."""
        own = self._log_at_path()
        if own is None:
            return is_locked_elsewhere(self._descriptor, _LOGS)
        byte = _byte_of(own)
        after = Range(byte.start + 1, _LOGS.start + _LOGS.length - byte.start - 1)
        before = Range(_LOGS.start, byte.start - _LOGS.start)
        parts = [part for part in (before, after) if part.length]  # a length of 0 means: to the end
        return any(is_locked_elsewhere(self._descriptor, part) for part in parts)

    def claim(self) -> None:
        """Hold the log that SQLite has just opened. By the writer. Raises StoreUnavailable."""
        log = self._log_at_path()
        if self._log is None and log is not None:
            index = os.open(self._index_path, os.O_RDONLY | os.O_CLOEXEC)
            self._others.append(index)
            taken = lock_shared(self._descriptor, _SQLITE) and lock_shared(index, _SQLITE_INDEX)
            if taken and lock_shared(self._descriptor, _byte_of(log)):
                self._log = log
        if self._log is None or self._log != self._log_at_path():
            raise StoreUnavailable(f"the log of store {self.path} was removed while it was opened", fix="try again")

    def stands(self, path: Path) -> bool:
        """Whether `path` names this file, and the log beside it is the open log, if a log is open. Raises OSError."""
        return inode_at(path) == self.inode and self._log in (None, self._log_at_path())

    def _log_at_path(self) -> tuple[Inode, Inode] | None:
        log, index = inode_at(self._log_path), inode_at(self._index_path)
        return None if log is None or index is None else (log, index)

    # --- users; all under _GUARD -----------------------------------------------------------------------------------

    def _leave(self, user: object, connection: sqlite3.Connection | None, path: Path) -> None:
        self._users.discard(user)
        if self._users:
            if connection is not None:
                connection.close()  # SQLite knows the other connections of this process
            return
        del _HELD[self.inode]
        # SQLite finds the log by its name. Only the log that it has open may be removed.
        last = self.stands(path) and lock_alone(self._descriptor, _WRITER)
        if last:
            unlock(self._descriptor, _SQLITE)
        if connection is not None:
            connection.close()
        for descriptor in (*self._others, self._descriptor):
            os.close(descriptor)


_GUARD = threading.Lock()
_HELD: Final[dict[Inode, HeldFile]] = {}  # guarded by _GUARD
_INHERITED: Final[set[Inode]] = set()
"""Files that the parent process had open at the fork. SQLite keeps one table of its locks in a process. A child
inherits that table, but not the kernel's locks: even a new connection in the child locks nothing."""


def hold(path: Path, user: object, *, create: bool) -> HeldFile:
    """Join the file at `path`, which all users of the process share. Raises OSError; UsageError in a forked child."""
    with _GUARD:
        real = Path(os.path.realpath(path))
        found = inode_at(real)
        held = None if found is None else _HELD.get(found)
        if held is None:
            if found in _INHERITED:
                raise UsageError(
                    f"store {path} was open in the parent when this process {os.getpid()} was forked from it",
                    fix="start the process by exec or 'spawn', or close every store before the fork",
                )
            descriptor = os.open(real, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
            fresh = HeldFile(real, descriptor)
            held = _HELD.setdefault(fresh.inode, fresh)
            if held is not fresh:  # the path was replaced in between
                held._others.append(descriptor)
        held._users.add(user)
        return held


def leave(held: HeldFile, user: object, connection: sqlite3.Connection | None, *, path: Path) -> None:
    """Close the connection of a user, and the file after its last user. The last of all processes removes the log, if
    that is the log of the path."""
    with _GUARD:
        held._leave(user, connection, path)


def users_at(path: Path) -> list[object]:
    """The users in this process that have the file at `path` open."""
    with _GUARD:
        found = inode_at(path)
        held = None if found is None else _HELD.get(found)
        return [] if held is None else list(held._users)


def _forget_all() -> None:
    """In a forked child: close the copies of the descriptors, which would keep the locks of a killed parent."""
    for held in _HELD.values():
        _INHERITED.add(held.inode)
        for descriptor in (*held._others, held._descriptor):
            os.close(descriptor)
    _HELD.clear()
    _GUARD.release()


def inode_at(path: Path) -> Inode | None:
    """The file that the path names now, by following links; None: there is none."""
    try:
        return _inode(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _byte_of(log: tuple[Inode, Inode]) -> Range:
    """The byte of `_LOGS` that stands for this log and index."""
    (_, log_number), (_, index_number) = log
    return Range(_LOGS.start + ((log_number << 24) ^ index_number) % _LOGS.length)


def _busy(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"store {path} is being written by another process for too long",
        fix="look for a stopped or stuck process that has it open",
    )


os.register_at_fork(before=_GUARD.acquire, after_in_parent=_GUARD.release, after_in_child=_forget_all)
