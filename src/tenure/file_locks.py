"""The kernel's lock on a file that is made for it.

Promise: the lock is free as soon as no process has the descriptor any more, however the processes ended. A remover of
abandoned files takes the lock first, so nobody's file goes.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def make_locked(path: Path, *, mode: int) -> int | None:
    """Make the file and lock it; return its descriptor. None: a remover took the file in between."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    if take_lock(descriptor) and is_at(path, descriptor):
        return descriptor
    os.close(descriptor)
    return None


def take_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock; False: another process has it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still names this file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
