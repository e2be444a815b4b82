"""The life of a query under a term: taken over, started, watched, finished. `BatchWriter` writes its batches.

Promise: a batch that begins after `finish` is refused before it is planned, and ends the query; the successor decides
on it. Not promised: that Spark stops; the fence does not need that.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Iterator
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.source import KAFKA, kinds_of
from tenure.coordination.term import Term
from tenure.driver.batch_writer import BatchWriter
from tenure.driver.declare_streams import call_of, is_available_now, may_run_without_data, with_trigger
from tenure.driver.progress import ProgressReader
from tenure.errors import InputsGone, StorageError
from tenure.events import BatchCommitted, BatchStarted, QueryStarted, QueryStartedAgain
from tenure.inputs.input_files import Missing
from tenure.inputs.kafka_records import KafkaRecords
from tenure.inputs.planned_inputs import offsets_behind
from tenure.inputs.query_inputs import QueryInputs, Shortness
from tenure.pipelines.pipeline import Stream
from tenure.rundirs.moved_files import modification_times
from tenure.rundirs.run_directory import format_of_state, has_commit, latest_commit, read_offsets
from tenure.rundirs.seed_logs import decode_offsets
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Calls, Stages
from tenure.spark.block_settings import block_settings
from tenure.spark.caller_threads import CallerThread
from tenure.spark.errors import is_late_worker, one_line
from tenure.spark.own_folders import hold
from tenure.spark.plans import ask_kafka_for_newest, keeps_state
from tenure.spark.releases import KAFKA_COUNTS_UNASKED, settings_to_go_on
from tenure.takeover.mirror import Mirrors
from tenure.takeover.query_takeover import Begun, QueryTakeover

_STARTS: Final = 18
"""How often a query is started under a term, before its driver starts anew. Each start that fails takes Spark's ten
seconds, so these are three minutes: longer than a new driver needs on a host that is as busy. With fewer, two members
of a busy host replace their drivers in turn, and each new driver makes the other's processes late."""


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
        short_batch: bool = False,
    ) -> None:
        """`missing`: input files -> those that do not exist. `mirrors`: of the standby; None: it had none.
        `short_batch`: an operator answers for a batch that runs again without records that are gone."""
        self._declared = declared
        self._context = context
        self._term = term
        self._mirrors = mirrors
        self._inputs = QueryInputs(
            declared.name,
            KafkaRecords(declared.rows),
            missing=missing,
            times=functools.partial(modification_times, declared.rows.sparkSession),
            shortness=Shortness(
                lambda: keeps_state(declared.rows),
                names_batches=isinstance(declared.sink, Stages),
                short_batch=short_batch,
            ),
            quarantine=lambda: context.left_out(declared.name),
        )
        self._takeover = QueryTakeover(
            declared.name, context, term, inputs=self._inputs, mirrors=mirrors, sources=declared.sources
        )
        self._begun = Begun("")
        self._writer: BatchWriter | None = None  # None: not taken over
        self._reader: ProgressReader | None = None  # None: as above
        self._query: StreamingQuery | None = None  # None: not started
        self._started = threading.Event()  # set when it is known whether `_query` runs
        self._starts = 0
        self._newest = -1  # the newest batch that has begun; -1: none
        self.last: int | None = None  # the last batch that this term put into the sink; None: no batch yet
        self._caller = CallerThread()
        self.turn: Final = threading.RLock()  # guards the four below
        """A thread that has it keeps a batch from beginning, and from ending."""
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
        self._begun = self._takeover.begin(without_data=without_data)
        self._writer = BatchWriter(
            self._declared,
            self._context,
            term=self._term,
            checkpoints=self._takeover.checkpoints,
            begun=self._begun,
            inputs=self._inputs,
            query=self._running,
        )
        self._reader = ProgressReader(self.name, self._term, directory=self._directory)

    def start(self) -> StreamingQuery:
        """Start the query on its run directory. Raises RuntimeError before `prepare`; Spark's own errors."""
        if self._writer is None:
            raise RuntimeError(f"query {self.name!r} is not prepared: it has no run directory to start on")
        writer = (
            self._declared.rows.writeStream.queryName(self.name)
            .outputMode(self._declared.output_mode)
            .option("checkpointLocation", hold(self._declared.rows.sparkSession, self._writer.directory))
            .foreachBatch(self._on_batch)
        )
        settings = settings_to_go_on(functools.partial(format_of_state, self._writer.directory))
        self._started.clear()
        self._starts += 1
        try:
            with block_settings(self._declared.rows.sparkSession, settings):
                query = self._query = with_trigger(writer, self._declared.trigger).start()
        finally:
            self._started.set()
        term, run_directory = self._term, self._begun.run_directory
        self._context.events.emit(
            QueryStarted(term.scope, epoch=term.epoch, query=self.name, run_directory=run_directory)
        )
        return query

    def start_again(self, error: BaseException) -> StreamingQuery | None:
        """Start the query again that this error has ended, where Spark's Python process was late at the start: this JVM
        is warm, and a new one would need the host for longer. None: it ended otherwise, or too often so.

        It has begun no batch: at most, Spark has noted the offsets of one, and takes them up. Raises as `start`.
        """
        if not is_late_worker(error) or self.resting != 0 or self._starts >= _STARTS:
            return None
        scope, epoch = self._term.scope, self._term.epoch
        self._context.events.emit(QueryStartedAgain(scope, epoch=epoch, query=self.name, why=one_line(error)))
        return self.start()

    @property
    def has_read(self) -> bool:
        """Whether the query has read its sources, in this term or before it."""
        return self._begun.continues or self.last is not None

    @property
    def has_done(self) -> bool:
        """Whether a batch of the query is known to be done, in this term or before it."""
        return self._takeover.has_done or self.last is not None

    @property
    def newest(self) -> int:
        """The newest batch that has begun or was planned before; -1: none."""
        return max(self._newest, self._takeover.newest)

    @property
    def retaken_is_done(self) -> bool:
        """Whether the retaken batch is done, if there was one."""
        retaken = self._begun.retaken
        if retaken is None or (self.last is not None and self.last > retaken):
            return True
        try:
            return self.last == retaken and has_commit(self._directory, retaken)
        except StorageError:
            return False  # the caller asks again

    @property
    def last_is_done(self) -> bool:
        """Whether the last batch of this term is done, if there was one. Raises StorageError."""
        return self.last is None or latest_commit(self._directory) == self.last

    def is_done_elsewhere(self) -> bool:
        """Whether the query ended because an overtaken leader got its batch done and removed the inputs, before this
        leader wrote anything: the next takeover starts after that batch. Raises StorageError, StoreError, Corrupt..."""
        # Not its subclass: an operator must see that a batch may be short.
        return type(self.failure) is InputsGone and self._takeover.is_done_elsewhere()

    def finish(self) -> None:
        """Begin no further batch. A batch that has begun goes on."""
        with self.turn:
            self._finishing = True

    @property
    def resting(self) -> int | None:
        """How many batches have begun, and Spark may be about to begin one; None: a batch is being written."""
        with self.turn:
            return None if self._in_batch else self._begun_batches

    @property
    def refused(self) -> bool:
        """Whether the query ended because it began a batch after `finish`."""
        with self.turn:
            return self._refused

    def measure(self) -> None:
        """Emit the figures of the batches that ended since the last call. Raises Spark's own errors when its JVM is
        gone."""
        if self._query is not None and self._reader is not None:
            for measured in self._reader.look(self._query):
                self._context.events.emit(measured)

    def behind(self) -> int | None:
        """How many offsets of Kafka the query is behind, by Spark's last progress; None: it reads none, or does not
        know. Raises Spark's own errors when its JVM is gone."""
        if self._query is None or self._writer is None or KAFKA not in kinds_of(self._writer.sources).values():
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
        return f"{self.last} {'' if last is None else last['timestamp']}"

    def close(self) -> None:
        """Release the threads of a stopped query, without waiting for a commit that hangs."""
        if self._writer is not None:
            self._writer.close()
        self._caller.end()
        self._inputs.close()

    @property
    def _directory(self) -> str:
        return f"{self._context.storage}/{self._begun.run_directory}"

    def _on_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Spark calls this after it wrote `offsets/<batch_id>`, in a thread of its own."""
        self._caller.note()
        with self.turn:
            if self._finishing:
                self._refused = True
                raise _FinishedError  # not planned: the successor decides on this batch
            self._in_batch = True
            self._begun_batches += 1
            self._newest = batch_id
        try:
            self._write(rows, batch_id)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            with self.turn:
                self._in_batch = False

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        term, clock, events = self._term, self._context.clock, self._context.events
        assert self._writer is not None
        began_s = clock.monotonic_s()
        events.emit(BatchStarted(term.scope, epoch=term.epoch, query=self.name, batch=batch_id))
        if self.last is None and KAFKA_COUNTS_UNASKED:  # the batch may have been planned before the query's start
            entry = read_offsets(self._directory, batch_id)
            where = f"{self._directory}/offsets/{batch_id}"
            ask_kafka_for_newest(rows, self._running(), decode_offsets(entry, where=where))
        repeated = self._writer.write(rows, batch_id, has_done=self.has_done).repeated
        if self.last is None and self._mirrors is not None:
            self._mirrors.let_tables_go(self.name)
        self.last = batch_id
        seconds = clock.monotonic_s() - began_s
        events.emit(
            BatchCommitted(
                term.scope, epoch=term.epoch, query=self.name, batch=batch_id, repeated=repeated, seconds=seconds
            )
        )

    def _running(self) -> StreamingQuery:
        self._started.wait()  # Spark may call `_on_batch` before `start` has returned the query
        assert self._query is not None
        return self._query
