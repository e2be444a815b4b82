"""Locks on ranges of a file that belong to an open descriptor (Linux, "open file description locks").

Promise: only the descriptor's owner drops its locks, by `unlock` or by closing it; the kernel drops them when the last
process that has the descriptor is gone. Not so for the locks that SQLite takes: POSIX drops a process's locks on a file
as soon as any code of the process closes that file. Locks of both kinds see and exclude each other.
"""

from __future__ import annotations

import fcntl
import struct
from dataclasses import dataclass

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
