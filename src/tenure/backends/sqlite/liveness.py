"""Who lives: kernel locks for those who were killed, renewals for those who stopped.

Promise: a session is held to be dead when its kernel lock is free, or when this observer has seen the same number
of renewals for its whole ttl on its own clock. No wall clock and no time of another process takes part.
So an observer that looks for the first time waits a full ttl; it never ends a session too early.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tenure.coordination.records import SessionId
from tenure.errors import StoreUnavailable


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the database has it."""

    id: SessionId
    ttl_s: float
    renewals: int


class Sightings:
    """What one observer has seen of the renewals. Not thread-safe: used under the lock of the database."""

    def __init__(self) -> None:
        self._seen: dict[SessionId, tuple[int, float]] = {}

    def note(self, session: SessionId, renewals: int, *, at_s: float) -> None:
        """The session was opened or renewed by ourselves, done at `at_s`."""
        self._seen[session] = (renewals, at_s)

    def overdue(self, rows: list[SessionRow], *, asked_at_s: float, answered_at_s: float) -> set[SessionId]:
        """The sessions that did not renew for their ttl. A new number counts from after the answer, an old one is
        judged at before the question: the observer's own pauses make a session older, never younger."""
        seen = {row.id: self._seen.get(row.id) for row in rows}
        self._seen = {
            row.id: known if (known := seen[row.id]) and known[0] == row.renewals else (row.renewals, answered_at_s)
            for row in rows
        }
        return {row.id for row in rows if asked_at_s >= self._seen[row.id][1] + row.ttl_s}


class LockFile:
    """The kernel's lock on the file of one session: free as soon as its process is gone."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def create(cls, path: Path) -> LockFile | None:
        """Make and lock the file; None when a pruner took it in between: then try another name."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if _take(descriptor, fcntl.LOCK_EX) and _is_at(path, descriptor):
            return cls(path, descriptor)
        os.close(descriptor)
        return None

    def release(self) -> None:
        """Free the lock. By closing only: an explicit unlock in a forked child would free the parent's."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def lock_path(directory: Path, session: SessionId) -> Path:
    """Where the lock file of a session is."""
    return directory / f"{session}.lock"


def is_free(path: Path) -> bool:
    """Whether the kernel says that nobody holds the lock. A file that is missing, or not for us to open, says
    nothing: the session's ttl decides then."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return False
    except OSError as error:
        raise StoreUnavailable(f"lock file {path} cannot be opened: {error}") from error
    try:
        return _take(descriptor, fcntl.LOCK_SH)  # shared: observers do not disturb each other
    finally:
        os.close(descriptor)


def discard(path: Path) -> None:
    """Remove the lock file of a session whose row is gone. What cannot be removed now is pruned later."""
    with suppress(OSError):
        path.unlink()


def prune(directory: Path, living: set[SessionId]) -> None:
    """Remove the lock files that belong to no session. Call it while holding the database's write lock: no session
    gets its row meanwhile, and one that is being opened holds its lock already or will see that its file is gone."""
    for path in directory.glob("*.lock"):
        if path.stem in living:
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # gone, or another user's: its owner prunes it
        try:
            if _take(descriptor, fcntl.LOCK_EX) and _is_at(path, descriptor):
                discard(path)
        finally:
            os.close(descriptor)


def _take(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
