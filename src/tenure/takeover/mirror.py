"""Mirrors: while somebody else leads, a standby fills the run directories that it will take over with.

Promise: a mirror is named for the next epoch and its member, and nobody but that member in that very epoch runs on it.
It is removed when the epoch became another's, or the standby ends in good order; what a killed member left, by a
leader's sweep. Not promised: that it is complete; a takeover brings what is missing, and `lag` says how much that was
when the mirror was last compared. Nobody waits for a mirror: one that cannot be had in time is done without.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RunName
from tenure.coordination.candidates import Lag
from tenure.errors import StorageError, TenureError
from tenure.events import BlobLeft, MirrorFailed
from tenure.retry import exponential_delay
from tenure.scope_context import ScopeContext
from tenure.takeover.run_directory import RunDirectory, has_commit, remove_tree
from tenure.takeover.state_copy import Mirrored, SeedPoint, Stopped, copy_ahead
from tenure.wording import sentence

ROUND_S = 1.0
"""How often a mirror is compared with the leader's run directory."""

TAKE_S = 5.0
"""How long a takeover waits for a file that is being copied."""

_AGAIN = exponential_delay(initial=timedelta(seconds=2), maximum=timedelta(minutes=5))
"""How long a query whose mirror failed is left alone: it begins from nothing."""


@dataclass(slots=True)
class _Mirror:
    """What a standby has of one query."""

    query: str
    path: str = ""
    """Of the directory, below the storage; empty: there is none."""
    epoch: int = 0
    source: str = ""
    mirrored: Mirrored | None = None
    newest: int = -1
    """The newest batch that is planned; -1: none."""
    missing: int = 0
    """The bytes that are known to be missing."""
    point: SeedPoint | None = None
    """What it was filled for the last time; None: nothing."""
    failed: str = ""
    """Why it could not be filled the last time; empty: it could."""
    delays: Iterator[float] = field(default_factory=_AGAIN.delays_s)
    again_s: float = float("-inf")
    """Until when it is left alone."""

    @property
    def batch(self) -> int:
        """The newest batch that it could run; -1: none."""
        return -1 if self.point is None else self.point.batch


class Mirrors:
    """The mirrors of one standby, filled by one thread of their own. Each is used for one time of standing by."""

    def __init__(
        self,
        queries: Sequence[str],
        context: ScopeContext,
        *,
        member: str,
    ) -> None:
        self._mirrors = [_Mirror(query) for query in queries]
        self._scope = context.scope
        self._member = member
        self._checkpoints = {query: context.checkpoints(query) for query in queries}
        self._epoch = context.epoch
        self._storage = context.storage
        self._clock = context.clock
        self._events = context.events
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # guards _mirrors; held while one of them is filled
        self._thread = threading.Thread(target=self._run, name="tenure-mirrors", daemon=True)

    def start(self) -> None:
        """Begin, in a thread that ends with `stop`."""
        self._thread.start()

    @property
    def lag(self) -> Lag | None:
        """How far the mirrors are behind what is planned; None: a takeover would have to bring the whole state of a
        query, or nothing is planned yet, or it is over."""
        planned = [one for one in self._mirrors if one.newest >= 0]
        if (
            not planned
            or any(one.batch < 0 for one in planned)
            or not self._thread.is_alive()
            or self._stopped.is_set()
        ):
            return None
        return Lag(max(one.newest - one.batch for one in planned), sum(one.missing for one in planned))

    def stop(self) -> None:
        """Fill no more; what is being copied is finished by itself, to the next file."""
        self._stopped.set()

    def take(self, query: str, *, source: str, epoch: int) -> tuple[str, Mirrored] | None:
        """Hand over the mirror of a query for a run directory of this epoch, if it is one of `source`: its path below
        the storage, and what it has got. None: there is no such mirror, or it is not free within `TAKE_S`."""
        self.stop()
        if not self._lock.acquire(timeout=TAKE_S):
            return None
        try:
            for one in self._mirrors:
                if one.query == query and one.mirrored is not None and (one.source, one.epoch) == (source, epoch):
                    mirrored, one.mirrored = one.mirrored, None
                    return one.path, mirrored
            return None
        finally:
            self._lock.release()

    def close(self, *, patience_s: float) -> None:
        """End, and remove what was not taken, unless the thread hangs for longer than `patience_s`."""
        self.stop()
        if self._lock.acquire(timeout=patience_s):
            try:
                for one in self._mirrors:
                    self._discard(one)
            finally:
                self._lock.release()

    def _run(self) -> None:
        while not self._clock.wait(self._stopped, timeout_s=ROUND_S):
            try:
                newest_epoch = self._epoch()
            except TenureError as error:  # what they have got is as good as before
                for one in self._mirrors:
                    self._say(one, error)
                continue
            for one in self._mirrors:
                if self._stopped.is_set():
                    return
                if self._clock.monotonic_s() < one.again_s:
                    continue
                try:
                    # Without the lock: a store that is away is waited for, and a takeover waits for the lock.
                    newest = self._checkpoints[one.query].newest()
                except TenureError as error:  # what it has got is as good as before
                    self._say(one, error)
                    continue
                with self._lock:
                    if self._stopped.is_set():
                        return
                    self._round(one, newest, epoch=newest_epoch + 1)

    def _round(self, one: _Mirror, newest: Checkpoint | None, *, epoch: int) -> None:
        if newest is None:
            one.newest = -1
            self._discard(one)  # the pipeline has ended: nobody will run here
            return
        one.newest = newest.batch
        try:
            if one.mirrored is not None and (one.epoch, one.source) != (epoch, newest.run_directory):
                self._discard(one)
            done = self._is_done(one, newest)
            if one.mirrored is None and newest.epoch != epoch - 1 and not done:
                return  # the leader has retaken nothing yet: it will run elsewhere than where this checkpoint says
            self._fill(one, newest, epoch=epoch, done=done)
        except Stopped:
            return
        except Exception as error:  # noqa: BLE001 - a storage's client raises what it likes, and nothing depends on it
            one.again_s = self._clock.monotonic_s() + next(one.delays)
            self._discard(one)
            self._say(one, error)

    def _is_done(self, one: _Mirror, newest: Checkpoint) -> bool:
        """Whether a takeover would go on after the batch. Asked until it is so: then it stays so."""
        known = one.point
        if known is not None and known.committed and (one.source, known.batch) == (newest.run_directory, newest.batch):
            return True
        return has_commit(f"{self._storage}/{newest.run_directory}", newest.batch)

    def _fill(self, one: _Mirror, newest: Checkpoint, *, epoch: int, done: bool) -> None:
        point = SeedPoint(newest.batch, newest.offsets, done, newest.folders)
        if one.mirrored is None:
            one.path = str(RunName.new(one.query, epoch=epoch, member=self._member))
            one.epoch, one.source = epoch, newest.run_directory
            one.mirrored = Mirrored(
                RunDirectory(f"{self._storage}/{one.source}"), RunDirectory(f"{self._storage}/{one.path}")
            )
        if one.point == point:
            return
        one.missing = 0

        def count(change: int) -> None:
            one.missing += change

        copy_ahead(one.mirrored, point, stop=self._stopped.is_set, on_missing=count)
        one.point, one.failed, one.delays = point, "", _AGAIN.delays_s()

    def _say(self, one: _Mirror, error: Exception) -> None:
        why = sentence(str(error)) or type(error).__name__
        if why != one.failed and not self._stopped.is_set():
            one.failed = why
            self._events.emit(MirrorFailed(self._scope, query=one.query, why=why))

    def _discard(self, one: _Mirror) -> None:
        if one.mirrored is None:
            return
        one.mirrored, one.point, one.missing = None, None, 0
        try:
            remove_tree(f"{self._storage}/{one.path}")
        except StorageError as error:
            self._events.emit(BlobLeft(self._scope, address=one.path, why=str(error)))
