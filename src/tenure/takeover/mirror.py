"""Mirrors: a standby copies the leader's state into the run directories with which it will take over.

Promise: a mirror is named for the next epoch and its member, and only that member runs on it, only in that epoch. The
standby removes a mirror when another member has that epoch, and at its own orderly end; a leader's sweep removes the
mirrors of a killed member. Not promised: that a mirror is complete. A takeover copies the missing files; `lag` says how
much was missing at the last comparison. A takeover does not wait for a mirror longer than `TAKE_S`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RunName
from tenure.coordination.candidates import Lag
from tenure.errors import StorageError, TenureError
from tenure.events import BlobLeft, MirrorFailed, Once, SnapshotNotMade
from tenure.progress import Counter, seeding
from tenure.retry import exponential_delay
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory, has_commit, remove_tree
from tenure.rundirs.state_copy import SeedPoint, Stopped, copy_ahead
from tenure.scope_context import ScopeContext
from tenure.spark.errors import SPARK_ERRORS
from tenure.spark.kept_tables import KeptTables
from tenure.spark.releases import READS_NO_METADATA_OF_4_0
from tenure.takeover.snapshots import Snapshots, States
from tenure.wording import sentence

ROUND_S = 1.0
"""How often a mirror is compared with the leader's run directory."""

TAKE_S = 5.0
"""How long a takeover waits for the end of a running copy."""

OWN_S = 2.0
"""How long a mirror stays after its epoch was won: this member may have won it, and its driver learns that later than
the store."""

_AGAIN = exponential_delay(initial=timedelta(seconds=2), maximum=timedelta(minutes=5))
"""How long a query waits after its mirror failed."""


@dataclass(slots=True)
class _Mirror:
    """A standby's mirror of one query."""

    query: str
    failures: Once
    path: str = ""
    """The mirror's directory, below the storage; empty: there is none."""
    epoch: int = 0
    source: str = ""
    mirrored: Mirrored | None = None
    newest: int = -1
    """The newest planned batch; -1: none."""
    missing: int = 0
    """Bytes that are known to be missing."""
    point: SeedPoint | None = None
    """The batch for which the mirror was last filled; None: none."""
    delays: Iterator[float] = field(default_factory=_AGAIN.delays_s)
    won_s: float | None = None
    """When its epoch was seen to be won; None: it was not."""
    again_s: float = float("-inf")
    """When the next filling may start."""

    @property
    def batch(self) -> int:
        """The newest batch that could run on the mirror; -1: none."""
        return -1 if self.point is None else self.point.batch


class Mirrors:
    """The mirrors of one standby, filled by a thread of their own. Used for one standby phase."""

    def __init__(
        self,
        queries: Sequence[str],
        context: ScopeContext,
        *,
        member: str,
        tables: KeptTables | None = None,
        states: States | None = None,
    ) -> None:
        """`tables`: the JVM fetches the tables of each mirror ahead; None: it has no such tables. `states`: replay what
        a mirror has in changelogs only; None: nobody does."""
        self._tables = tables
        self._snapshots = None if states is None else Snapshots(states, clock=context.clock)
        self._mirrors = [_Mirror(query, Once(context.events)) for query in queries]
        self._scope = context.scope
        self._member = member
        self._checkpoints = {query: context.checkpoints(query) for query in queries}
        self._epoch = context.epoch
        self._storage = context.storage
        self._clock = context.clock
        self._events = context.events
        self._stopped = threading.Event()
        self._lock = threading.Lock()  # guards _mirrors; held while a mirror is filled
        self._thread = threading.Thread(target=self._run, name="tenure-mirrors", daemon=True)

    def start(self) -> None:
        """Begin to mirror, in a thread that ends with `stop`."""
        self._thread.start()

    @property
    def lag(self) -> Lag | None:
        """How far the mirrors are behind the planned batches. None: a takeover would have to copy the whole state of a
        query, or nothing is planned yet, or the mirrors have ended."""
        planned = [mirror for mirror in self._mirrors if mirror.newest >= 0]
        if (
            not planned
            or any(mirror.batch < 0 for mirror in planned)
            or not self._thread.is_alive()
            or self._stopped.is_set()
        ):
            return None
        return Lag(max(mirror.newest - mirror.batch for mirror in planned), sum(mirror.missing for mirror in planned))

    def stop(self) -> None:
        """Ask the thread to stop. A running copy ends after its current file."""
        self._stopped.set()
        if self._snapshots is not None:
            self._snapshots.abandon()

    def take(self, query: str, *, source: str, epoch: int) -> tuple[str, Mirrored] | None:
        """Hand over the mirror of `source` for a query and epoch: its path below the storage, and its content. None:
        there is no such mirror, or it is not free within `TAKE_S`."""
        self.stop()
        if not self._lock.acquire(timeout=TAKE_S):
            return None
        try:
            for mirror in self._mirrors:
                fits = (mirror.query, mirror.source, mirror.epoch) == (query, source, epoch)
                if fits and mirror.mirrored is not None:
                    mirrored, mirror.mirrored = mirror.mirrored, None
                    return mirror.path, mirrored
            return None
        finally:
            self._lock.release()

    def let_tables_go(self, query: str) -> None:
        """Keep the tables of a query's mirror no longer: a batch has loaded them, or no batch will."""
        if self._tables is not None:
            with suppress(*SPARK_ERRORS):  # the tables went with their JVM
                self._tables.release(_holder(query))

    def close(self, *, patience_s: float) -> None:
        """End the mirrors, and remove those that were not taken, unless the thread hangs for longer than
        `patience_s`."""
        self.stop()
        if self._lock.acquire(timeout=patience_s):
            try:
                for mirror in self._mirrors:
                    self._discard(mirror)
            finally:
                self._lock.release()

    def _run(self) -> None:
        for mirror in self._mirrors:  # an earlier time of standing by may have held some
            self.let_tables_go(mirror.query)
        while not self._clock.wait(self._stopped, timeout_s=ROUND_S):
            try:
                newest_epoch = self._epoch()
            except TenureError as error:  # the mirrors stay as good as before
                for mirror in self._mirrors:
                    self._report(mirror, error)
                continue
            for mirror in self._mirrors:
                if self._stopped.is_set():
                    return
                if self._clock.monotonic_s() < mirror.again_s:
                    continue
                try:
                    # Without the lock: the store may be away, and a takeover waits for the lock.
                    newest = self._checkpoints[mirror.query].glance()
                except TenureError as error:  # the mirror stays as good as before
                    self._report(mirror, error)
                    continue
                with self._lock:
                    if self._stopped.is_set():
                        return
                    self._round(mirror, newest, epoch=newest_epoch + 1)

    def _round(self, mirror: _Mirror, newest: Checkpoint | None, *, epoch: int) -> None:
        if newest is None:
            mirror.newest = -1
            self._discard(mirror)  # the pipeline has ended
            return
        mirror.newest = newest.batch
        try:
            if mirror.mirrored is not None and (mirror.epoch, mirror.source) != (epoch, newest.run_directory):
                if mirror.source == newest.run_directory and self._may_be_taken(mirror):
                    return
                self._discard(mirror)
            done = self._is_done(mirror, newest)
            if mirror.mirrored is None and newest.epoch != epoch - 1 and not done:
                return  # the leader has not retaken the batch yet, and will run in another directory
            self._fill(mirror, newest, epoch=epoch, done=done)
        except Stopped:
            return
        except StorageError as error:  # the copied files stay: the storage may be away for a moment only
            mirror.again_s = self._clock.monotonic_s() + next(mirror.delays)
            self._report(mirror, error)
        except Exception as error:  # noqa: BLE001 - a storage's client raises any error, and nothing depends on a mirror
            mirror.again_s = self._clock.monotonic_s() + next(mirror.delays)
            self._discard(mirror)
            self._report(mirror, error)

    def _may_be_taken(self, mirror: _Mirror) -> bool:
        """Whether this member may have won the mirror's epoch. The new leader, if another, has planned nothing yet."""
        now_s = self._clock.monotonic_s()
        if mirror.won_s is None:
            mirror.won_s = now_s
        return now_s - mirror.won_s < OWN_S

    def _is_done(self, mirror: _Mirror, newest: Checkpoint) -> bool:
        """Whether a takeover would continue after the batch. A yes is remembered."""
        point, same_source = mirror.point, mirror.source == newest.run_directory
        if point is not None and point.committed and same_source and point.batch == newest.batch:
            return True
        return has_commit(f"{self._storage}/{newest.run_directory}", newest.batch)

    def _fill(self, mirror: _Mirror, newest: Checkpoint, *, epoch: int, done: bool) -> None:
        newer = READS_NO_METADATA_OF_4_0
        point = SeedPoint(newest.batch, newest.offsets, done, newest.folders, newest.kinds, newer=newer)
        if mirror.mirrored is None:
            mirror.path = str(RunName.new(mirror.query, epoch=epoch, member=self._member))
            mirror.epoch, mirror.source = epoch, newest.run_directory
            mirror.mirrored = Mirrored(
                RunDirectory(f"{self._storage}/{mirror.source}"), RunDirectory(f"{self._storage}/{mirror.path}")
            )
        if mirror.point == point:
            if self._make_snapshots(mirror):
                self._hold_tables(mirror)
            return
        mirror.missing = 0

        def count(change: int) -> None:
            mirror.missing += change

        with ExitStack() as told:
            if mirror.point is None:  # the first copy: later copies are short
                told_of = seeding(self._scope, mirror.query, ahead=True, clock=self._clock, events=self._events)
                mirror.mirrored.counter = told.enter_context(told_of)
            copy_ahead(mirror.mirrored, point, stop=self._stopped.is_set, on_missing=count)
        mirror.mirrored.counter = Counter()
        self._make_snapshots(mirror)
        self._hold_tables(mirror)
        mirror.point, mirror.delays = point, _AGAIN.delays_s()
        mirror.failures.look()

    def _hold_tables(self, mirror: _Mirror) -> None:
        if self._tables is not None and mirror.mirrored is not None:
            found = {f"{mirror.mirrored.target.url}/{path}": size for path, size in mirror.mirrored.table_sizes.items()}
            self._tables.hold(_holder(mirror.query), found, ahead=True)

    def _make_snapshots(self, mirror: _Mirror) -> bool:
        """Go on with the snapshots of a mirror. Return whether a snapshot was put."""
        if self._snapshots is None or mirror.mirrored is None:
            return False
        before = dict(mirror.mirrored.snapshots)
        failed = self._snapshots.step(mirror.mirrored)
        if failed is not None:
            self._events.emit(SnapshotNotMade(self._scope, query=mirror.query, why=sentence(str(failed))))
        return mirror.mirrored.snapshots != before

    def _report(self, mirror: _Mirror, error: Exception) -> None:
        why = sentence(str(error)) or type(error).__name__
        if not self._stopped.is_set():
            mirror.failures.look(MirrorFailed(self._scope, query=mirror.query, why=why))

    def _discard(self, mirror: _Mirror) -> None:
        if mirror.mirrored is None:
            return
        if self._snapshots is not None:
            self._snapshots.abandon(mirror.mirrored)
        mirror.mirrored, mirror.point, mirror.missing, mirror.won_s = None, None, 0, None
        self.let_tables_go(mirror.query)
        try:
            remove_tree(f"{self._storage}/{mirror.path}")
        except StorageError as error:
            self._events.emit(BlobLeft(self._scope, address=mirror.path, why=str(error)))


def _holder(query: str) -> str:
    return f"the mirror of {query}"
