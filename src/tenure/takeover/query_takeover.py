"""The takeover of one query at the start of a term: from the newest checkpoint to a run directory for Spark.

Promise: `batch_rules` alone decides the steps. A batch that runs again is retaken first, by one fenced write after its
seed is whole. InputsGone is raised when the inputs of a planned batch are gone and no whole run directory has that
batch as done. Not promised: that the owner of the source directory is dead; it may go on writing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypedDict

from tenure.checkpoints.batch_rules import Takeover, take_over
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RunName, runs_of
from tenure.checkpoints.source import Source, kinds_of, paths_of
from tenure.coordination.term import Term
from tenure.errors import CorruptRunDirectory, TenureError
from tenure.events import BatchRetaken, MirrorFailed, RunDirectorySeeded
from tenure.inputs.query_inputs import NO_INPUTS, PlannedInputs, QueryInputs
from tenure.progress import seeding
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.moved_files import Move, moves_between
from tenure.rundirs.run_directory import RunDirectory, has_commit
from tenure.rundirs.seed_logs import decode_query_id
from tenure.rundirs.seeding import seed_mirrored
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext
from tenure.spark.releases import READS_NO_METADATA_OF_4_0
from tenure.takeover.mirror import Mirrors


@dataclass(frozen=True, slots=True)
class Begun:
    """The place of a query's run in this term."""

    run_directory: str
    """Below the storage."""
    continues: bool = False
    """The query has a checkpoint, so it has read its sources before."""
    retaken: int | None = None
    """The batch that Spark runs again; None: there is none."""
    inputs: PlannedInputs = NO_INPUTS
    """The planned inputs of that batch."""


class _Plan(TypedDict):
    """The offsets of a batch, and of which sources they are."""

    offsets: str
    folders: tuple[str, ...]
    kinds: Mapping[str, str]
    moves: Mapping[str, Move]


class QueryTakeover:
    """Takes over one query, once."""

    def __init__(
        self,
        query: str,
        context: ScopeContext,
        term: Term,
        *,
        inputs: QueryInputs,
        mirrors: Mirrors | None,
        sources: Sequence[Source],
    ) -> None:
        """`mirrors`: of the standby; None: it had none. `sources`: as declared."""
        self._term = term
        self.checkpoints = context.checkpoints(query)
        self._query = query
        self._storage = context.storage
        self._inputs = inputs
        self._mirrors = mirrors
        self._sources = sources
        self._clock = context.clock
        self._events = context.events
        self.newest = -1
        """The newest planned batch; -1: none is planned, or it was not read yet."""
        self.has_done = False
        """Whether a batch of the query is known to have been done."""

    def begin(self, *, without_data: bool = True) -> Begun:
        """Prepare the run directory, and retake the newest batch where it must run again. `without_data`: Spark may run
        batches without data. Raises Corrupt..., DeclaredOtherwise, InputsGone, StorageError, StoreUnavailable,
        TermLost; the query must not run then."""
        own = str(RunName.new(self._query, epoch=self._term.epoch, member=self._term.holder))
        newest = self.checkpoints.newest(self._term)
        if newest is None:
            return Begun(own)
        self.newest, self.has_done = newest.batch, newest.batch > 0 or newest.closed
        self._check_moved(newest)
        inputs, gone = self._look_for_inputs(newest)
        way = take_over(
            newest.run_directory,
            has_commit=lambda path: has_commit(f"{self._storage}/{path}", newest.batch),
            inputs_gone=lambda: bool(gone()),
            done_in=lambda: self.done_in(newest),
            may_be_short=lambda: self._inputs.may_be_short(gone(), batch=newest.batch),
        )
        self.has_done |= way is not None and way.done
        if way is None:
            raise self._inputs.error(gone(), batch=newest.batch)
        own = self._seed(newest, way, own, without_data=without_data)
        paths = paths_of(self._sources)
        if way.recorded or (paths and not newest.paths):  # of an adopted checkpoint, they are known from now on
            self.checkpoints.retake(self._term, run_directory=own, paths=paths or None, closed=way.done)
        if way.recorded:
            scope, epoch = self._term.scope, self._term.epoch
            self._events.emit(BatchRetaken(scope, epoch=epoch, query=self._query, batch=newest.batch, done=way.done))
        if way.done:
            return Begun(own, continues=True)
        return Begun(own, continues=True, retaken=newest.batch, inputs=inputs())

    def is_done_elsewhere(self) -> bool:
        """Whether the newest batch is done in some whole run directory. Raises like `newest`; StorageError."""
        newest = self.checkpoints.newest()
        return newest is not None and any(self.done_in(newest))

    def done_in(self, newest: Checkpoint) -> Iterator[str]:
        """The whole run directories of the query that have the checkpoint's batch as done, with the same offsets; the
        newest epoch first. The checkpoint's own directory may be among them by now. Raises StorageError."""
        for run in reversed(runs_of(self._storage, self._query)):
            directory = RunDirectory(f"{self._storage}/{run}")
            if not has_commit(directory.url, newest.batch):
                continue
            try:  # a half-made seed has `commits` before its state, and `metadata` last
                same = decode_query_id(directory.read_text("metadata"), where=directory.where("metadata"))
                offsets = directory.read_text(f"offsets/{newest.batch}")
            except CorruptRunDirectory:
                continue
            if (same, offsets) == (newest.query_id, newest.offsets):
                yield str(run)

    def _check_moved(self, newest: Checkpoint) -> None:
        moves = moves_between(newest.paths, self._sources)
        directory = RunDirectory(f"{self._storage}/{newest.run_directory}")
        if moves:
            self._inputs.check_moved(directory, moves, offsets=newest.offsets, folders=newest.folders)
        if not newest.paths:
            self._inputs.check_known(directory, self._sources, offsets=newest.offsets, folders=newest.folders)

    def _look_for_inputs(self, newest: Checkpoint) -> tuple[Callable[[], PlannedInputs], Callable[[], PlannedInputs]]:
        """Two functions: the planned inputs, and those of them that are gone. Each looks once, at its first call."""

        @cache
        def inputs() -> PlannedInputs:
            source = RunDirectory(f"{self._storage}/{newest.run_directory}")
            return self._inputs.planned(source, newest.batch, **self._plan_of(newest))

        @cache
        def gone() -> PlannedInputs:
            return self._inputs.gone(inputs(), batch=newest.batch)

        return inputs, gone

    def _plan_of(self, newest: Checkpoint) -> _Plan:
        """What the checkpoint says of its sources; an older version has not recorded their kinds."""
        return {
            "offsets": newest.offsets,
            "folders": newest.folders,
            "kinds": newest.kinds or kinds_of(self._sources),
            "moves": moves_between(newest.paths, self._sources),
        }

    def _seed(self, newest: Checkpoint, way: Takeover[str], own: str, *, without_data: bool) -> str:
        """Fill a run directory, and return its path below the storage."""
        began_s = self._clock.monotonic_s()
        owed_at_ms = int(self._clock.now().timestamp() * 1000) if without_data else None
        point = SeedPoint(
            newest.batch,
            committed=way.done,
            owed_at_ms=owed_at_ms,
            newer=READS_NO_METADATA_OF_4_0,
            **self._plan_of(newest),
        )
        ahead = None if point.moves else self._seed_mirror(way.source, point)
        if ahead is None:
            source = RunDirectory(f"{self._storage}/{way.source}")
            files = self._copy(Mirrored(source, RunDirectory(f"{self._storage}/{own}")), point)
        else:
            own, files = ahead
        term, batch, seconds = self._term, newest.batch + way.done, self._clock.monotonic_s() - began_s
        seeded = RunDirectorySeeded(
            term.scope, term.epoch, self._query, batch, files=files, mirrored=ahead is not None, seconds=seconds
        )
        self._events.emit(seeded)
        return own

    def _copy(self, mirrored: Mirrored, point: SeedPoint) -> int:
        scope, clock, events = self._term.scope, self._clock, self._events
        with seeding(scope, self._query, ahead=False, clock=clock, events=events) as mirrored.counter:
            return seed_mirrored(mirrored, point)

    def _seed_mirror(self, source: str, point: SeedPoint) -> tuple[str, int] | None:
        """Complete the standby's mirror, and return its path and the number of new files; None: there is no usable
        mirror."""
        taken = None
        if self._mirrors is not None:
            taken = self._mirrors.take(self._query, source=source, epoch=self._term.epoch)
        if taken is None:
            return None
        path, mirrored = taken
        try:
            return path, self._copy(mirrored, point)
        except TenureError as error:  # an error of the source comes again with a new seed
            self._events.emit(MirrorFailed(self._term.scope, query=self._query, why=str(error)))
            return None
