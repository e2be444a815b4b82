"""The writing of the batches of a query under a term: one fenced write a batch, before any of its output is visible.

Promise (I2): the sink's commit of batch N waits until checkpoint N is committed under the term. (I1): batch N is
planned once, with the offsets that Spark wrote for it; a batch that runs again was retaken by this term. A refused plan
is TermLost. The commit of the plan overlaps with the sink's staging. `batch_rules` decides which checks surround the
evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypedDict

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.batch_rules import asked_around
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import kinds_of, paths_of, sources_beside
from tenure.checkpoints.store import CheckpointStore
from tenure.cleanup.orphans import scratch_folder
from tenure.coordination.term import Term, check_term
from tenure.errors import Fenced, GuardFailed, QueryFailed, SessionEnded, SinkUnavailable, StorageError, TermLost
from tenure.events import CheckpointSaved, RecordsSkipped, WriteRefused
from tenure.inputs.kafka_records import LOSS
from tenure.inputs.planned_inputs import count_of, in_words
from tenure.inputs.query_inputs import NO_INPUTS, PlannedInputs, QueryInputs
from tenure.pipelines.pipeline import Stream
from tenure.rundirs.run_directory import RunDirectory, read_offsets, read_query_id
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Batch, Stages, Written
from tenure.spark.errors import SPARK_ERRORS, words_of
from tenure.spark.plans import source_folders_of
from tenure.storage.urls import hadoop_url
from tenure.takeover.query_takeover import Begun


class _Logged(TypedDict):
    """The words of Spark's logs about a batch."""

    directory: RunDirectory
    offsets: str
    folders: tuple[str, ...]
    kinds: Mapping[str, str]


class BatchWriter:
    """Writes the batches of a stream that was taken over. Used by one thread, which Spark owns."""

    def __init__(
        self,
        declared: Stream,
        context: ScopeContext,
        *,
        term: Term,
        checkpoints: CheckpointStore,
        begun: Begun,
        inputs: QueryInputs,
        query: Callable[[], StreamingQuery],
    ) -> None:
        """`query`: waits for the running query, as Spark may write a batch before its start has returned."""
        self._declared = declared
        self._context = context
        self._term = term
        self._begun = begun
        self._inputs = inputs
        self._query = query
        self._checkpoints = checkpoints
        self._planner = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"tenure-plan-{declared.name}")
        self._query_id: str | None = None  # None: not read yet
        self._folders: tuple[str, ...] | None = None  # None: not read yet
        self._planned: tuple[int | None, str] = None, ""  # the batch that was planned last, and its offsets
        self.sources = declared.sources
        """As declared; empty once Spark is known to read others."""
        self.directory = f"{context.storage}/{begun.run_directory}"

    def write(self, rows: DataFrame, batch_id: int, *, has_done: bool) -> Written:
        """Plan a batch, and let the sink take it. `has_done`: a batch of the query is known to be done."""
        term, name = self._term, self._declared.name
        plan: Future[None] = self._planner.submit(self._plan, batch_id)

        def check() -> None:
            self._ask(f"write of batch {batch_id} of query {name!r}")

        short = batch_id == self._begun.retaken and (
            self._inputs.is_tolerant(self._begun.inputs) or self._inputs.leaves_out(batch_id)
        )
        query_id, ttl = self._spark_query_id(), self._context.ttl
        scratch = hadoop_url(f"{self._context.storage}/{scratch_folder(name, batch_id, epoch=term.epoch)}")
        batch = Batch(
            term.scope, name, query_id, batch_id, term.epoch, short=short, ttl=ttl, scratch=scratch, check_term=check
        )
        try:
            written = self._write(rows, batch, plan, has_done=has_done)
        except SPARK_ERRORS as error:
            if LOSS in words_of(error):  # Spark refuses to read on without records that are gone
                records = self._inputs.records(batch=batch_id, **self._logged(batch_id))
                if gone := self._inputs.gone(PlannedInputs(records=records), batch=batch_id):
                    raise self._inputs.error(gone, batch=batch_id) from error
            raise
        finally:
            plan.exception()  # the plan is settled before anything else happens, also when the sink failed
        plan.result()
        if skipped := self._inputs.skipped(batch=batch_id, **self._logged(batch_id)):  # Spark may have read nothing
            count, what = count_of(skipped), in_words(skipped)
            self._context.events.emit(
                RecordsSkipped(term.scope, epoch=term.epoch, query=name, batch=batch_id, offsets=count, what=what)
            )
        return written

    def close(self) -> None:
        """Release the thread that plans, without waiting for a commit that hangs."""
        self._planner.shutdown(wait=False, cancel_futures=True)

    def _write(self, rows: DataFrame, batch: Batch, plan: Future[None], *, has_done: bool) -> Written:
        """Let the sink take the batch, with the checks of `batch_rules`, before Spark may note the batch as done."""
        sink, inputs = self._declared.sink, self._inputs
        asked = asked_around(retaken=batch.id == self._begun.retaken)
        without = NO_INPUTS  # of a batch that runs again, when they were looked for last
        ours: list[BaseException] = []  # the errors of the plan, which a sink lets through

        def planned() -> None:
            nonlocal without
            try:
                plan.result()
                if asked.inputs:
                    without = inputs.check(self._begun.inputs, batch=batch.id, written=False)
            except BaseException as error:
                ours.append(error)
                raise

        try:
            written = sink.write(rows, batch, planned=planned, events=self._context.events)
        except Fenced as fenced:
            raise self._fenced(fenced, batch) from fenced
        except StorageError as error:
            if error in ours or not has_done:
                raise
            raise SinkUnavailable(f"query {batch.query!r}: {error.what}", fix=error.fix) from error
        if asked.inputs:
            if not isinstance(sink, Stages):  # it may have evaluated the rows late
                without = inputs.check(self._begun.inputs, batch=batch.id, written=True)
            inputs.check_state(without, batch=batch.id, repeated=written.repeated)
        if asked.term:
            self._ask(f"end of batch {batch.id} of query {self._declared.name!r}")
        return written

    def _fenced(self, fenced: Fenced, batch: Batch) -> Exception:
        """The error for a target's refusal: the store decides whether the term is lost."""
        term, what = self._term, f"batch {batch.id} of {batch.query} to its target"
        self._context.events.emit(WriteRefused(scope=term.scope, epoch=term.epoch, by="sink", what=what))
        try:
            check_term(self._context.store, term, clock=self._context.clock)
        except TermLost as lost:
            return lost
        return QueryFailed(
            f"the target of query {batch.query!r} refused epoch {term.epoch} ({fenced.what}), and the store says that "
            "this term stands: the target remembers an epoch of another life of this pipeline",
            fix="let the target forget the epochs that it has seen for this pipeline, and start again",
        )

    def _ask(self, what: str) -> None:
        """Ask the store whether the term stands. Raises TermLost, StoreUnavailable."""
        try:
            check_term(self._context.store, self._term, clock=self._context.clock)
        except TermLost as lost:
            self._tell_refused(lost, what)
            raise

    def _tell_refused(self, lost: TermLost, what: str) -> None:
        if isinstance(lost.__cause__, GuardFailed | SessionEnded):  # else the store was away until the deadline
            self._context.events.emit(
                WriteRefused(scope=self._term.scope, epoch=self._term.epoch, by="store", what=what)
            )

    def _plan(self, batch_id: int) -> None:
        began_s, term = self._context.clock.monotonic_s(), self._term
        offsets = read_offsets(self.directory, batch_id)
        self._planned = batch_id, offsets
        folders = self._source_folders()
        checkpoint = Checkpoint(
            query=self._declared.name,
            query_id=self._spark_query_id(),
            batch=batch_id,
            offsets=offsets,
            run_directory=self._begun.run_directory,
            epoch=term.epoch,
            planned_at=self._context.clock.now().isoformat(timespec="milliseconds"),
            folders=folders,
            kinds=kinds_of(self.sources),
            paths=paths_of(self.sources),
        )
        try:
            self._checkpoints.plan(term, checkpoint)
        except TermLost as lost:
            self._tell_refused(lost, f"plan of batch {batch_id} of query {self._declared.name!r}")
            raise
        seconds = self._context.clock.monotonic_s() - began_s
        self._context.events.emit(
            CheckpointSaved(term.scope, epoch=term.epoch, query=self._declared.name, batch=batch_id, seconds=seconds)
        )

    def _spark_query_id(self) -> str:
        """The id in the run directory's `metadata`, which is seeded with the id, so that it outlives every takeover."""
        if self._query_id is None:
            self._query_id = read_query_id(self.directory)
        return self._query_id

    def _logged(self, batch_id: int) -> _Logged:
        planned, offsets = self._planned
        offsets = offsets if planned == batch_id else read_offsets(self.directory, batch_id)
        folders = self._source_folders()
        return {
            "directory": RunDirectory(self.directory),
            "offsets": offsets,
            "folders": folders,
            "kinds": kinds_of(self.sources),
        }

    def _source_folders(self) -> tuple[str, ...]:
        if self._folders is None:
            self._folders = source_folders_of(self._query())
            self.sources = sources_beside(self._folders, self._declared.sources)
        return self._folders
