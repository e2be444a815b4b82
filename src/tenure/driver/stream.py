"""One query under a term: one fenced write a batch, before any output of the batch is visible.

Promise (I2): the sink's commit of batch N waits until checkpoint N is committed under the term. (I1): batch N is
planned once, with the offsets that Spark wrote for it; a batch that runs again was retaken by this term. A refused plan
ends the query with TermLost. The commit of the plan overlaps with the sink's staging. `batch_rules` decides which
checks surround the evaluation. Not promised: that Spark stops; the fence does not need that.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.batch_rules import asked_around
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import KAFKA, kinds_of, paths_of, sources_beside
from tenure.coordination.term import Term, check_term
from tenure.driver.batch_inputs import BatchInputs, Logged
from tenure.driver.declare_streams import call_of, is_available_now, may_run_without_data, with_trigger
from tenure.driver.source_lag import offsets_behind
from tenure.driver.spark_plans import source_folders_of
from tenure.errors import (
    Fenced,
    GuardFailed,
    InputsGone,
    QueryFailed,
    SessionEnded,
    SinkUnavailable,
    StorageError,
    TermLost,
)
from tenure.events import BatchCommitted, BatchStarted, CheckpointSaved, QueryStarted, WriteRefused
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Batch, Calls, Written
from tenure.spark.caller_threads import CallerThread
from tenure.spark.errors import SPARK_ERRORS
from tenure.spark.own_folders import hold
from tenure.takeover.input_files import Missing
from tenure.takeover.mirror import Mirrors
from tenure.takeover.query_takeover import Begun, QueryTakeover
from tenure.takeover.run_directory import RunDirectory, has_commit, latest_commit, read_offsets, read_query_id


class _FinishedError(Exception):
    """Ends a query between two batches."""


class FencedStream:
    """A declared stream, run by the leader of one term."""

    def __init__(
        self,
        declared: Stream,
        context: ScopeContext,
        *,
        term: Term,
        missing: Missing,
        mirrors: Mirrors | None = None,
        accepts_short: bool = False,
    ) -> None:
        """`missing`: input files -> those that do not exist. `mirrors`: of the standby; None: it had none.
        `accepts_short`: an operator answers for a batch that runs again without records that are gone."""
        self._declared = declared
        self._term = term
        self._store = context.store
        self._checkpoints = context.checkpoints(declared.name)
        self._storage = context.storage
        self._inputs = BatchInputs(
            declared, missing=missing, accepts_short=accepts_short, quarantine=lambda: context.left_out(declared.name)
        )
        self._clock = context.clock
        self._ttl = context.ttl
        self._events = context.events
        self._planner = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"tenure-plan-{declared.name}")
        self._sources = declared.sources
        self._mirrors = mirrors
        self._takeover = QueryTakeover(
            declared.name,
            context,
            term,
            self._checkpoints,
            inputs=self._inputs.of_query,
            mirrors=mirrors,
            sources=declared.sources,
        )
        self._begun = Begun("")
        self._query_id: str | None = None  # None: not read yet
        self._query: StreamingQuery | None = None  # None: not started
        self._started = threading.Event()  # set when it is known whether `_query` runs
        self._folders: tuple[str, ...] | None = None  # None: not read yet
        self._planned: tuple[int | None, str] = None, ""  # the batch that was planned last, and its offsets
        self._batches = 0
        self._newest = -1  # the newest batch that has begun; -1: none
        self.last: int | None = None  # the last batch that this term put into the sink; None: no batch yet
        self._caller = CallerThread()
        self._turn = threading.Lock()  # guards the four below
        self._finishing = False
        self._in_batch = False
        self._begun_batches = 0
        self._refused = False
        self.failure: BaseException | None = None
        """The error that ended the query, when Python raised it; None: Python raised none."""

    @property
    def name(self) -> str:
        """The query's name."""
        return self._declared.name

    @property
    def ends_by_itself(self) -> bool:
        """Whether the query ends when it has read all that its sources held at its start."""
        return is_available_now(self._declared.trigger)

    def prepare(self) -> None:
        """Take the query over: seed a run directory from the newest checkpoint. Several streams may do so at once.

        Raises Corrupt..., InputsGone, StorageError, StoreUnavailable, TermLost; Spark's own errors.
        """
        without_data = may_run_without_data(self._declared.rows)
        self._begun = self._inputs.begun = self._takeover.begin(without_data=without_data)

    def start(self) -> StreamingQuery:
        """Start the query on its run directory. Raises RuntimeError before `prepare`; Spark's own errors."""
        if not self._begun.run_directory:
            raise RuntimeError(f"query {self.name!r} is not prepared: it has no run directory to start on")
        writer = (
            self._declared.rows.writeStream.queryName(self.name)
            .outputMode(self._declared.output_mode)
            .option("checkpointLocation", hold(self._declared.rows.sparkSession, self._directory))
            .foreachBatch(self._on_batch)
        )
        try:
            query = self._query = with_trigger(writer, self._declared.trigger).start()
        finally:
            self._started.set()
        term, run_directory = self._term, self._begun.run_directory
        self._events.emit(QueryStarted(term.scope, epoch=term.epoch, query=self.name, run_directory=run_directory))
        return query

    @property
    def has_read(self) -> bool:
        """Whether the query has read its sources, in this term or before it."""
        return self._begun.continues or self.last is not None

    @property
    def has_committed(self) -> bool:
        """Whether a batch of the query is known to be done, in this term or before it."""
        return self._takeover.has_committed or self.last is not None

    @property
    def newest(self) -> int:
        """The newest batch that has begun or was planned before; -1: none."""
        return max(self._newest, self._takeover.newest)

    @property
    def caught_up(self) -> bool:
        """Whether Spark has noted the retaken batch as done, if there was one."""
        retaken = self._begun.retaken
        if retaken is None or (self.last is not None and self.last > retaken):
            return True
        try:
            return self.last == retaken and has_commit(self._directory, retaken)
        except StorageError:
            return False  # the caller asks again

    def was_finished_elsewhere(self) -> bool:
        """Whether the query ended because an overtaken leader has finished the batch and removed its inputs, before
        this leader wrote anything: the next takeover starts after that batch. Raises StorageError, StoreError,
        Corrupt..."""
        if type(self.failure) is not InputsGone:  # not its subclass: an operator must see that a batch may be short
            return False
        newest = self._checkpoints.newest()
        return newest is not None and any(self._takeover.finished(newest))

    def finish(self) -> None:
        """Begin no further batch. A batch that has begun goes on."""
        with self._turn:
            self._finishing = True

    @property
    def in_batch(self) -> bool:
        """Whether a batch is being written. If not, Spark may be about to begin a batch."""
        with self._turn:
            return self._in_batch

    @property
    def resting(self) -> int | None:
        """How many batches have begun; None: a batch is being written."""
        with self._turn:
            return None if self._in_batch else self._begun_batches

    @property
    def refused(self) -> bool:
        """Whether the query ended because it began a batch after `finish`."""
        with self._turn:
            return self._refused

    def settled(self) -> bool:
        """Whether Spark has noted the last batch as done. Raises StorageError."""
        return self.last is None or latest_commit(self._directory) == self.last

    def behind(self) -> int | None:
        """How many offsets of Kafka the query is behind, by Spark's last progress; None: it reads none, or does not
        know. Raises Spark's own errors when its JVM is gone."""
        if self._query is None or KAFKA not in kinds_of(self._sources).values():
            return None
        last = self._query.lastProgress
        return None if last is None else offsets_behind(last)

    def marks(self, wanted: Collection[str]) -> Iterator[tuple[str, str | None]]:
        """The marks of the query and of the call of its sink's function: texts that change with progress. Only names in
        `wanted` are read, as each asks the JVM.

        Raises Spark's own errors when its JVM is gone.
        """
        if self.name in wanted:
            yield self.name, self._progress()
        if isinstance(self._declared.sink, Calls) and call_of(self.name) in wanted:
            yield call_of(self.name), self._declared.sink.call(self.name)

    def _progress(self) -> str | None:
        """A text that changes with the query's progress; None: it is between two batches, or not started."""
        if self._query is None or not self._query.status["isTriggerActive"]:
            return None
        last = self._query.lastProgress  # new for each batch, and every 10 s without data
        return f"{self._batches} {'' if last is None else last['timestamp']}"

    def close(self) -> None:
        """Release the threads of a stopped query, without waiting for a commit that hangs."""
        self._planner.shutdown(wait=False, cancel_futures=True)
        self._caller.end()
        self._inputs.close()

    @property
    def _directory(self) -> str:
        return f"{self._storage}/{self._begun.run_directory}"

    def _on_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Spark calls this after it wrote `offsets/<batch_id>`, in a thread of its own."""
        self._caller.note()
        with self._turn:
            if self._finishing:
                self._refused = True
                raise _FinishedError  # not planned: the successor decides on this batch
            self._in_batch = True
            self._begun_batches += 1
            self._newest = batch_id
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
        self._events.emit(BatchStarted(term.scope, epoch=term.epoch, query=name, batch=batch_id))
        plan: Future[None] = self._planner.submit(self._plan, batch_id)

        def check() -> None:
            self._ask(f"write of batch {batch_id} of query {name!r}")

        query_id, short = self._spark_query_id(), self._inputs.may_be_short(batch_id)
        batch = Batch(term.scope, name, query_id, batch_id, term.epoch, short=short, ttl=self._ttl, check_term=check)
        try:
            written = self._write(rows, batch, plan)
        except SPARK_ERRORS as error:
            if (gone := self._inputs.gone(error, batch_id, **self._logged(batch_id))) is not None:
                raise gone from error
            raise
        finally:
            plan.exception()  # the plan is settled before anything else happens, also when the sink failed
        plan.result()
        self._inputs.report_skipped(batch_id, **self._logged(batch_id), term=term, events=self._events)
        self._batches += 1
        if self.last is None and self._mirrors is not None:
            self._mirrors.let_tables_go(name)
        self.last = batch_id
        seconds, repeated = self._clock.monotonic_s() - began_s, written.repeated
        self._events.emit(
            BatchCommitted(term.scope, epoch=term.epoch, query=name, batch=batch_id, repeated=repeated, seconds=seconds)
        )

    def _write(self, rows: DataFrame, batch: Batch, plan: Future[None]) -> Written:
        """Let the sink take the batch, with the checks of `batch_rules`, before Spark may note the batch as done."""
        sink, retaken = self._declared.sink, batch.id == self._begun.retaken
        asked = asked_around(retaken=retaken)

        ours: list[BaseException] = []  # the errors of the plan, which a sink lets through

        def planned() -> None:
            try:
                plan.result()
                if asked.inputs:
                    self._inputs.look(batch.id, written=False)
            except BaseException as error:
                ours.append(error)
                raise

        try:
            written = sink.write(rows, batch, planned=planned, events=self._events)
        except Fenced as fenced:
            raise self._fenced(fenced, batch) from fenced
        except StorageError as error:
            if error in ours or not self.has_committed:
                raise
            raise SinkUnavailable(f"query {batch.query!r}: {error.what}", fix=error.fix) from error
        if asked.inputs:
            self._inputs.look(batch.id, written=True)
            self._inputs.look_at_state(batch.id, repeated=written.repeated)
        if asked.term:
            self._ask(f"end of batch {batch.id} of query {self.name!r}")
        return written

    def _fenced(self, fenced: Fenced, batch: Batch) -> Exception:
        """The error for a target's refusal: the store decides whether the term is lost."""
        term, what = self._term, f"batch {batch.id} of {self.name} to its target"
        self._events.emit(WriteRefused(scope=term.scope, epoch=term.epoch, by="sink", what=what))
        try:
            check_term(self._store, term, clock=self._clock)
        except TermLost as lost:
            return lost
        return QueryFailed(
            f"the target of query {self.name!r} refused epoch {term.epoch} ({fenced.what}), and the store says that "
            "this term stands: the target remembers an epoch of another life of this pipeline",
            fix="let the target forget the epochs that it has seen for this pipeline, and start again",
        )

    def _ask(self, what: str) -> None:
        """Ask the store whether the term stands. Raises TermLost, StoreUnavailable."""
        try:
            check_term(self._store, self._term, clock=self._clock)
        except TermLost as lost:
            self._tell_refused(lost, what)
            raise

    def _tell_refused(self, lost: TermLost, what: str) -> None:
        if isinstance(lost.__cause__, GuardFailed | SessionEnded):  # else the store was away until the deadline
            self._events.emit(WriteRefused(scope=self._term.scope, epoch=self._term.epoch, by="store", what=what))

    def _plan(self, batch_id: int) -> None:
        began_s, term = self._clock.monotonic_s(), self._term
        offsets = read_offsets(self._directory, batch_id)
        self._planned = batch_id, offsets
        folders = self._source_folders()
        checkpoint = Checkpoint(
            query=self.name,
            query_id=self._spark_query_id(),
            batch=batch_id,
            offsets=offsets,
            run_directory=self._begun.run_directory,
            epoch=term.epoch,
            planned_at=self._clock.now().isoformat(timespec="milliseconds"),
            folders=folders,
            kinds=kinds_of(self._sources),
            paths=paths_of(self._sources),
        )
        try:
            self._checkpoints.plan(term, checkpoint)
        except TermLost as lost:
            self._tell_refused(lost, f"plan of batch {batch_id} of query {self.name!r}")
            raise
        seconds = self._clock.monotonic_s() - began_s
        self._events.emit(
            CheckpointSaved(term.scope, epoch=term.epoch, query=self.name, batch=batch_id, seconds=seconds)
        )

    def _spark_query_id(self) -> str:
        """The id in the run directory's `metadata`, which is seeded with the id, so that it outlives every takeover."""
        if self._query_id is None:
            self._query_id = read_query_id(self._directory)
        return self._query_id

    def _logged(self, batch_id: int) -> Logged:
        planned, offsets = self._planned
        offsets = offsets if planned == batch_id else read_offsets(self._directory, batch_id)
        folders = self._source_folders()
        return {
            "directory": RunDirectory(self._directory),
            "offsets": offsets,
            "folders": folders,
            "kinds": kinds_of(self._sources),
        }

    def _source_folders(self) -> tuple[str, ...]:
        if self._folders is None:
            self._started.wait()  # Spark may call `_on_batch` before `start` has returned the query
            assert self._query is not None
            self._folders = source_folders_of(self._query)
            self._sources = sources_beside(self._folders, self._declared.sources)
        return self._folders
