"""One query under a term: one fenced write a batch, before any of its output can be seen.

Promise (I2): the sink's commit of batch N waits until checkpoint N is committed under the term. (I1): batch N
is planned with the offsets that Spark wrote for it, once. A refused plan ends the query with TermLost. The
plan's commit overlaps with the sink's staging. Not promised: that Spark stops; the fence does not need it.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RunName
from tenure.checkpoints.store import CheckpointStore
from tenure.clock import Clock
from tenure.coordination.term import Term
from tenure.errors import GuardFailed, SessionEnded, TenureError, TermLost
from tenure.events import (
    BatchCommitted,
    BatchStarted,
    CheckpointSaved,
    Events,
    MirrorFailed,
    QueryStarted,
    RunDirectorySeeded,
    WriteRefused,
)
from tenure.pipelines.pipeline import Stream
from tenure.spark.bringing import Goal, Mirrored, Seeded
from tenure.spark.callbacks import CallerThread
from tenure.spark.mirror import Mirrors
from tenure.spark.run_directory import RunDirectory, latest_commit, read_offsets, read_query_id
from tenure.spark.seeding import seed_mirrored
from tenure.spark.sinks.sink import Batch


class _FinishedError(Exception):
    """Ends a query between two batches."""


class FencedStream:
    """A declared stream, run by the leader of one term."""

    def __init__(
        self,
        declared: Stream,
        *,
        term: Term,
        checkpoints: CheckpointStore,
        storage: str,
        clock: Clock,
        events: Events,
        mirrors: Mirrors | None = None,
    ) -> None:
        """`storage`: URL of the pipeline's storage; run directories are recorded relative to it, so that it can be
        mounted elsewhere. `mirrors`: what the standby has got; None: nothing."""
        self._declared = declared
        self._term = term
        self._checkpoints = checkpoints
        self._storage = storage.rstrip("/")
        self._clock = clock
        self._events = events
        self._planner = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"tenure-plan-{declared.name}")
        self._mirrors = mirrors
        self._run_directory = str(RunName.new(declared.name, epoch=term.epoch, member=term.holder))
        self._query_id: str | None = None  # None: not read yet
        self._query: StreamingQuery | None = None  # None: not started
        self._batches = 0
        self._nothing_planned = False
        self._last: int | None = None  # the batch that the sink took last; None: none yet
        self._caller = CallerThread()
        self._turn = threading.Lock()  # guards the two below
        self._finishing = False
        self._in_batch = False
        self.failure: BaseException | None = None
        """What ended the query, when it was raised on our side of Spark; None: nothing was."""

    @property
    def name(self) -> str:
        """The query's name."""
        return self._declared.name

    @property
    def ends_by_itself(self) -> bool:
        """Whether the query ends when it has taken what its sources had at its start."""
        return _is_available_now(self._declared.trigger)

    def start(self) -> StreamingQuery:
        """Seed a run directory from the newest checkpoint and start the query on it.

        Raises Corrupt..., StorageError, StoreUnavailable; what Spark raises at a start.
        """
        newest = self._checkpoints.newest()
        if newest is not None:
            self._seed(newest)
        self._nothing_planned = newest is None or newest.closed
        directory = f"{self._storage}/{self._run_directory}"
        writer = (
            self._declared.rows.writeStream.queryName(self.name)
            .outputMode(self._declared.output_mode)
            .option("checkpointLocation", directory)
            .foreachBatch(self._on_batch)
        )
        query = self._query = with_trigger(writer, self._declared.trigger).start()
        self._events.emit(
            QueryStarted(
                scope=self._term.scope, epoch=self._term.epoch, query=self.name, run_directory=self._run_directory
            )
        )
        return query

    @property
    def caught_up(self) -> bool:
        """Whether the batch that was planned when it started, if one was, is in the sink."""
        return self._batches > 0 or self._nothing_planned

    def finish(self) -> None:
        """Begin no batch any more; one that has begun goes on."""
        with self._turn:
            self._finishing = True

    @property
    def in_batch(self) -> bool:
        """Whether a batch is being written. Spark may be about to begin another one."""
        with self._turn:
            return self._in_batch

    def settled(self) -> bool:
        """Whether Spark, too, has noted that the last batch is done. Raises StorageError."""
        return self._last is None or latest_commit(f"{self._storage}/{self._run_directory}") == self._last

    def close_batch(self) -> None:
        """Once the query is stopped: tell the successor that it need not run the last batch again, if that is so.

        Raises TermLost, StorageError, StoreUnavailable.
        """
        if self._last is not None and self.settled():
            self._checkpoints.close(self._term, self._last, run_directory=self._run_directory)

    def progress(self) -> str | None:
        """What changes whenever the query gets on; None: it is between two batches, or was not started.

        Raises what Spark raises when its JVM is gone.
        """
        if self._query is None or not self._query.status["isTriggerActive"]:
            return None
        last = self._query.lastProgress  # told for each batch, and every 10 s while there is no data
        return f"{self._batches} {'' if last is None else last['timestamp']}"

    def close(self) -> None:
        """Release the threads of a query that is stopped, without waiting for a commit that hangs."""
        self._planner.shutdown(wait=False, cancel_futures=True)
        self._caller.end()

    def _seed(self, newest: Checkpoint) -> None:
        began_s = self._clock.monotonic_s()
        goal = Goal(newest.batch, newest.offsets, newest.closed)
        ahead = self._seed_mirror(newest, goal)
        seeded = ahead
        if seeded is None:
            source = RunDirectory(f"{self._storage}/{newest.run_directory}")
            seeded = seed_mirrored(Mirrored(source, RunDirectory(f"{self._storage}/{self._run_directory}")), goal)
        self._events.emit(
            RunDirectorySeeded(
                scope=self._term.scope,
                epoch=self._term.epoch,
                query=self.name,
                batch=newest.batch + newest.closed,
                files=seeded.files,
                mirrored=ahead is not None,
                seconds=self._clock.monotonic_s() - began_s,
            )
        )

    def _seed_mirror(self, newest: Checkpoint, goal: Goal) -> Seeded | None:
        """Run where the standby has brought most of it; None: there is no mirror that can be used."""
        taken = None
        if self._mirrors is not None:
            taken = self._mirrors.take(self.name, source=newest.run_directory, epoch=self._term.epoch)
        if taken is None:
            return None
        path, mirrored = taken
        try:
            seeded = seed_mirrored(mirrored, goal)
        except TenureError as error:  # what is wrong with the source itself, a seed of its own says again
            self._events.emit(MirrorFailed(self._term.scope, query=self.name, why=str(error)))
            return None
        self._run_directory = path
        return seeded

    def _on_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Called by Spark after it wrote `offsets/<batch_id>`, in a thread of its own."""
        self._caller.note()
        with self._turn:
            if self._finishing:
                raise _FinishedError  # not planned: the successor decides on this batch
            self._in_batch = True
        try:
            self._plan_and_write(rows, batch_id)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            with self._turn:
                self._in_batch = False

    def _plan_and_write(self, rows: DataFrame, batch_id: int) -> None:
        began_s = self._clock.monotonic_s()
        term, name = self._term, self.name
        self._events.emit(BatchStarted(scope=term.scope, epoch=term.epoch, query=name, batch=batch_id))
        planned: Future[None] = self._planner.submit(self._plan, batch_id)
        batch = Batch(scope=term.scope, query=name, query_id=self._spark_query_id(), id=batch_id, epoch=term.epoch)
        try:
            written = self._declared.sink.write(rows, batch, planned=planned.result, events=self._events)
        finally:
            planned.exception()  # the plan is settled before anything else happens, also when the sink failed
        planned.result()
        self._batches += 1
        self._last = batch_id
        self._events.emit(
            BatchCommitted(
                scope=term.scope,
                epoch=term.epoch,
                query=name,
                batch=batch_id,
                repeated=written.repeated,
                seconds=self._clock.monotonic_s() - began_s,
            )
        )

    def _plan(self, batch_id: int) -> None:
        began_s = self._clock.monotonic_s()
        directory = f"{self._storage}/{self._run_directory}"
        checkpoint = Checkpoint(
            query=self.name,
            query_id=self._spark_query_id(),
            batch=batch_id,
            offsets=read_offsets(directory, batch_id),
            run_directory=self._run_directory,
            epoch=self._term.epoch,
            planned_at=self._clock.now().isoformat(timespec="milliseconds"),
        )
        try:
            self._checkpoints.plan(self._term, checkpoint)
        except TermLost as lost:
            if isinstance(lost.__cause__, GuardFailed | SessionEnded):  # else the store was away until the deadline
                what = f"plan of batch {batch_id} of query {self.name!r}"
                self._events.emit(WriteRefused(scope=self._term.scope, epoch=self._term.epoch, by="store", what=what))
            raise
        self._events.emit(
            CheckpointSaved(
                scope=self._term.scope,
                epoch=self._term.epoch,
                query=self.name,
                batch=batch_id,
                seconds=self._clock.monotonic_s() - began_s,
            )
        )

    def _spark_query_id(self) -> str:
        """The id in the run directory's `metadata`: seeded with it, so that it outlives every takeover."""
        if self._query_id is None:
            self._query_id = read_query_id(f"{self._storage}/{self._run_directory}")
        return self._query_id


def with_trigger(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    """Spark's writer with the declared trigger."""
    if trigger is None:
        return writer
    if _is_available_now(trigger):
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=trigger)


def _is_available_now(trigger: str | None) -> bool:
    return trigger is not None and trigger.strip().lower().replace("-", " ") == "available now"
