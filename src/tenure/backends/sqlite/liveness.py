"""Which processes live: the kernel's lock on the file of a session is free as soon as its process is gone.

Promise: a lock that is free belongs to no process that lives. `shared/renewals.py` judges stopped processes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tenure.coordination.records import SessionId
from tenure.errors import StoreUnavailable
from tenure.file_locks import is_at, make_locked, take_lock


class LockFile:
    """The kernel's lock on the file of one session: free as soon as its process is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def create(cls, path: Path) -> LockFile | None:
        """Make and lock the file; None: a pruner took the file in between, so try another name."""
        descriptor = make_locked(path, mode=0o666)
        return None if descriptor is None else cls(descriptor)

    def release(self) -> None:
        """Free the lock by closing the file: an explicit unlock in a forked child would free the parent's lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_path(directory: Path, session: SessionId) -> Path:
    """The path of a session's lock file."""
    return directory / f"{session}.lock"


def is_free(path: Path) -> bool:
    """Whether no process holds the lock. False for a file that is missing or not readable: then the ttl decides."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return False
    except OSError as error:
        raise StoreUnavailable(f"lock file {path} cannot be opened: {error}") from error
    try:
        return take_lock(descriptor, shared=True)  # shared: observers do not disturb each other
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Remove the lock file of a session whose row is gone; if that fails, a pruner removes the file later."""
    with suppress(OSError):
        path.unlink()


def prune(directory: Path, living: set[SessionId]) -> None:
    """Remove the lock files that belong to no session. The caller holds the database's write lock: no session gets its
    row meanwhile, and a session that is being opened holds its lock already, or notices that its file is gone."""
    for path in directory.glob("*.lock"):
        if path.stem in living:
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # gone, or another user's: its owner prunes it
        try:
            if take_lock(descriptor) and is_at(path, descriptor):
                discard(path)
        finally:
            os.close(descriptor)
