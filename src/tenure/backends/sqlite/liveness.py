"""Which sessions live: kernel locks show killed processes, renewals show stopped processes.

Promise: a session counts as dead when its kernel lock is free, or when this observer has read the same number of
renewals for the whole ttl on its own clock. No wall clock and no time of another process takes part. So an observer
waits a full ttl after its first look, and never ends a session too early. The observer is the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tenure.clock import Clock, SystemClock
from tenure.coordination.records import SessionId
from tenure.errors import StoreUnavailable
from tenure.file_locks import is_at, make_locked, take_lock


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the database has it."""

    id: SessionId
    ttl_s: float
    renewals: int


class Sightings:
    """The renewals that the observers of this process have read. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[SessionId, tuple[int, float]] = {}  # guarded by _lock

    def note(self, session: SessionId, renewals: int, *, at_s: float) -> None:
        """Note that this process opened or renewed the session, in a transaction that began at `at_s`."""
        with self._lock:
            self._seen[session] = (renewals, at_s)

    def overdue(self, rows: Sequence[SessionRow], *, asked_at_s: float, answered_at_s: float) -> list[SessionRow]:
        """The sessions that did not renew for their ttl. A new number counts from after the answer, a known number is
        judged before the question: a pause of the observer never ends a session too early."""
        with self._lock:
            for row in rows:
                known = self._seen.get(row.id)
                if known is None or known[0] != row.renewals:
                    self._seen[row.id] = (row.renewals, answered_at_s)
            return [row for row in rows if asked_at_s >= self._seen[row.id][1] + row.ttl_s]

    def keep(self, rows: Sequence[SessionRow]) -> None:
        """Forget all sessions but these, which are all that there are."""
        living = {row.id for row in rows}
        with self._lock:
            self._seen = {session: seen for session, seen in self._seen.items() if session in living}


_SIGHTINGS: Final[dict[Hashable, Sightings]] = {}


def sightings_of(database: Hashable, clock: Clock) -> Sightings:
    """The sightings of a database on a clock, which outlive its stores: a caller that opens the store again and again,
    each time for less than a ttl, notices a stopped member all the same. A forked child begins without them."""
    machine = type(clock) is SystemClock  # all of them show one time
    return _SIGHTINGS.setdefault((database, None if machine else clock), Sightings())


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


os.register_at_fork(after_in_child=_SIGHTINGS.clear)
