"""The work of a driver process: runs all streams of a pipeline under a term, and stops them at its end.

Promise: `lead` returns only when its queries are stopped; queries that do not stop in time are DriverStuck. The error
of a query is one line; the JVM's own words are in Spark's log. Not promised: that no batch is in flight when the term
is lost; the fence and the sinks make such a batch harmless.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final, TypeVar

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tenure.cleanup.cleaner import Combined, stop_or_lost
from tenure.cleanup.plan import STAGED, Cleanable
from tenure.clock import Clock
from tenure.coordination.term import Term
from tenure.doctor.targets import ask_targets
from tenure.driver.declarations import Declarations
from tenure.driver.declare_streams import declare, limits_of, with_sources
from tenure.driver.executors import ask_executors
from tenure.driver.failures import (
    declared_before,
    how_jvm_ended,
    judged,
    of_ended_jvm,
    query_error,
    short_batch,
    why_ended,
)
from tenure.driver.listening import listening
from tenure.driver.progress import Measuring
from tenure.driver.running_queries import RunningQueries, finish_batches
from tenure.driver.stores import LeadersStore
from tenure.driver.stream import FencedStream
from tenure.errors import DriverDied, DriverStuck, PipelineFileError, TenureError, UsageError
from tenure.events import JvmStarted, LocalFilesSlow, TablesNotKept
from tenure.housekeeping import scope_cleaner, scope_sweeper
from tenure.inputs.input_files import missing_files
from tenure.link.driver import Ended
from tenure.link.words import Pulse
from tenure.pipelines.pipeline import Job, Pipeline, Stream
from tenure.rundirs.attempted_batches import attempts_at
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Located, Stages
from tenure.spark.errors import SPARK_ERRORS, one_line
from tenure.spark.hadoop import check_classes, prepare_file_systems, use_fitting_files, use_own_local_files
from tenure.spark.kept_tables import KeptTables, use_kept_tables
from tenure.spark.own_classes import use_own_classes
from tenure.spark.replayed_states import ReplayedStates
from tenure.spark.session import end_session, kill_jvm
from tenure.spark.time_zone import NO_ZONE, GivenZone, use_zone
from tenure.storage.reach import reach
from tenure.takeover.mirror import Mirrors
from tenure.takeover.rehearsal import Rehearsals

_DECLARES: Final = "declares"
"""The mark of a query whose declaration at a grant takes long."""
_LONG: Final = 10
"""How many times as long as its first call a declaration may take before that counts as no progress."""
_AT_ONCE: Final = 8
"""How many queries are taken over at once."""

_CALM_S: Final = 5.0
"""How long after its grant a leader waits for the first batch of each query before it sweeps all the same."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DriverWork:
    """The pipeline of a driver, and how the driver runs it."""

    member: str
    pipeline: Pipeline
    pipeline_file: str
    params: Mapping[str, str]
    spark_log: str
    """The file for the output of Spark's JVM."""
    until_idle: bool
    warm: bool
    """Rehearse while the member stands by."""
    mirrors: bool
    """Mirror the leader's state while the member stands by."""
    stop_patience: timedelta
    """How long queries may take to stop."""
    zone: GivenZone = NO_ZONE
    asks_targets: bool = False
    """Ask the targets of the queries, and the executors, before the declarations are compared."""
    short_batch: Collection[str] = ()
    """The queries whose newest batch may run again without records that are gone."""


class SparkDriver:
    """Leads one pipeline in this process. Used by one thread."""

    def __init__(
        self,
        context: ScopeContext,
        work: DriverWork,
        *,
        start_spark: Callable[[], SparkSession],
        declarations: Declarations,
        look_first: Callable[[], None] = lambda: None,
        heard: ScopeContext | None = None,
        own: LeadersStore | None = None,
    ) -> None:
        """`look_first`: as in `Sweeper`. `heard`: the scope as a standby knows it; None: `context`. `own`: the store of
        `context`, which a standby closes; None: it stays open."""
        self._context = context
        self._heard = heard or context
        self._own = own
        self._work = work
        self._start_spark = start_spark
        self._declarations = declarations
        self._look_first = look_first
        self._patience_s = work.stop_patience.total_seconds()
        self._spark: SparkSession | None = None  # None: not prepared
        self._rehearsals: Rehearsals | None = None  # None: not prepared
        self._mirrors: Mirrors | None = None  # None: not standing by
        self._tables: KeptTables | None = None  # None: the JVM keeps no tables
        self._limits: Mapping[str, float] = {}
        self._streams: Sequence[FencedStream] = ()
        self._measuring = Measuring()
        self._declared: Sequence[Stream] = ()
        self._declaring_since_s: float | None = None  # None: no new leader declares
        self._first_took_s = 0.0

    def prepare(self) -> Mapping[str, float]:
        """Start Spark and declare the streams once, so that their errors come before the member contends. Return the
        declared stall timeouts in seconds. Raises DriverDied, also where the errors are those of a JVM that ended."""
        # Workers cannot import the pipeline's file by its name, so its definitions travel with the functions.
        cloudpickle.register_pickle_by_value(sys.modules[self._work.pipeline.declare.__module__])  # type: ignore[no-untyped-call] # untyped in pyspark
        self._spark = spark = self._start_spark()
        try:
            self._declare_on(spark)
        except (TenureError, *SPARK_ERRORS) as error:
            if (died := of_ended_jvm(error, spark=spark, log=self._work.spark_log)) is not None:
                raise died from error
            raise
        return self._limits

    def _declare_on(self, spark: SparkSession) -> None:
        java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")  # type: ignore[union-attr] # it has one
        self._context.events.emit(JvmStarted(self._context.scope, member=self._work.member, java=str(java)))
        use_own_classes(spark)
        use_fitting_files(spark, reach(self._context.storage))
        slow = use_own_local_files(spark)
        if slow is not None:
            self._context.events.emit(LocalFilesSlow(self._context.scope, member=self._work.member, why=slow))
        prepare_file_systems(spark)
        check_classes(spark, self._context.storage, what="the storage")
        self._tables, why = use_kept_tables(spark, self._context.storage)
        if why is not None:
            self._context.events.emit(TablesNotKept(self._context.scope, member=self._work.member, why=why))
        began_s = self._context.clock.monotonic_s()
        job = self._declare()
        self._first_took_s = self._context.clock.monotonic_s() - began_s
        streams = [with_sources(stream) for stream in job.streams]
        for stream in streams:
            if isinstance(stream.sink, Located):
                check_classes(spark, stream.sink.location, what=f"the sink of stream {stream.name!r}")
        if self._work.asks_targets:
            ask_targets(streams, self._context)
            ask_executors(spark, self._context)
        self._declarations.check(streams)
        self._rehearsals = Rehearsals(streams, self._heard, member=self._work.member, tables=self._tables)
        self._declared = streams
        if self._work.warm:
            self._rehearsals.start()
        self._mirror()
        self._limits = limits_of(streams)

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        """Run the streams; see `Work.lead`."""
        assert self._spark is not None
        if self._rehearsals is not None:
            self._rehearsals.abandon()
        mirrors = self._mirrors
        if mirrors is not None:
            mirrors.stop()
        job = self._declare_again(term)
        declared_now = [with_sources(stream) for stream in job.streams]
        self._declarations.record(term, declared_now)
        clock, missing = self._context.clock, functools.partial(missing_files, self._spark)
        streams = [
            FencedStream(
                declared,
                self._context,
                term=term,
                missing=missing,
                mirrors=mirrors,
                short_batch=declared.name in self._work.short_batch,
            )
            for declared in declared_now
        ]
        running = RunningQueries(clock, until_idle=self._work.until_idle)
        staged = self._staged(declared_now, term)
        sweeper = scope_sweeper(self._context, term, more=staged, look_first=self._look_first)
        with listening(self._spark, job.listeners, queries=[one.name for one in streams], clock=clock):
            try:
                self._streams = streams
                with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tenure-take-over") as pool:
                    prepared = [pool.submit(self._do, stream, stream.prepare) for stream in streams]
                    for stream, ready in zip(streams, prepared, strict=True):
                        ready.result()
                        running.watch(self._do(stream, stream.start), stream)
                self._end_mirrors()
                sweeper.start(ready=_calm(streams, clock))
                ended = running.wait(term, stop=stop, finish=finish, start_again=self._start_again)
                if ended is Ended.STOPPED and not stop.is_set():
                    finish_batches(streams, running, term, stop=stop, finish=finish, clock=clock)
                if ended is Ended.IDLE:
                    # No batch begins any more: the streams are idle once their last batches are done.
                    ended = finish_batches(streams, running, term, stop=stop, finish=finish, clock=clock)
                # From here on queries end because they are stopped.
                failed = [
                    stream.name for stream in streams if stream.failure is not None or stream.name in running.failed
                ]
            finally:
                sweeper.stop()
                self._streams = ()
                self._stop(running)
                self._measuring.finish(streams)
                for stream in streams:
                    stream.close()
        if (short := short_batch(streams)) is not None:
            raise short
        if ended is Ended.IDLE:
            sweeper.last(stop=stop)
        if ended is Ended.FAILED and any(stream.is_done_elsewhere() for stream in streams):
            return Ended.OVERTAKEN
        if ended is Ended.FAILED:
            raise why_ended(streams, running.errors, failed, spark=self._spark, log=self._work.spark_log)
        return ended

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        """Remove the pipeline's remains. Spark ends first, so that nothing of this process writes any more."""
        self._end_spark()
        cleaner = scope_cleaner(self._context, more=self._staged(self._declared, None))
        remaining = cleaner.run(term, stop=stop_or_lost(stop, term))
        if term.lost:
            return Ended.LOST
        if stop.is_set():
            return Ended.STOPPED
        return Ended.LEFT if remaining else Ended.CLEANED

    def stand_by(self) -> None:
        """Mirror anew in a new session: any leader may remove the mirrors of an earlier session."""
        if self._own is not None:
            self._own.rest()
        self._end_mirrors()
        self._mirror()

    def elected(self) -> None:
        """Connect to the store while the agent looks whether the pipeline has ended."""
        if self._own is not None:
            self._own.elected()

    def _staged(self, streams: Sequence[Stream], term: Term | None) -> Mapping[str, Cleanable]:
        """The staged output of the sinks. `term` None: the pipeline has ended."""
        staged = {
            stream.name: stream.sink.staged(
                attempts_at(stream.name, self._context, epoch=None if term is None else term.epoch)
            )
            for stream in streams
            if isinstance(stream.sink, Stages)
        }
        return {STAGED: Combined(staged)}

    def _mirror(self) -> None:
        if not self._work.mirrors:
            return
        assert self._spark is not None
        queries, member = [stream.name for stream in self._declared], self._work.member
        states = ReplayedStates(self._spark)
        self._mirrors = Mirrors(queries, self._heard, member=member, tables=self._tables, states=states)
        self._mirrors.start()

    def _end_mirrors(self) -> None:
        """End the mirrors, and remove their unused copies in the background."""
        mirrors, self._mirrors = self._mirrors, None
        if mirrors is not None:
            mirrors.stop()
            end = functools.partial(mirrors.close, patience_s=self._patience_s)
            threading.Thread(target=end, name="tenure-mirrors-end", daemon=True).start()

    def begun(self) -> Sequence[int | None]:
        """How many batches each running query has begun; None: a batch is being written."""
        return [stream.resting for stream in self._streams]

    def pulse(self) -> Pulse:
        """Ask the JVM for the time, and the queries for their progress; emit the figures of the batches that ended.

        Raises DriverDied: the JVM is gone.
        """
        spark = self._spark
        try:
            if spark is None:
                return Pulse({})  # the driver cleans up
            spark.sparkContext._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr] # it has one
            streams = self._streams  # another thread sets it
            marks = {name: mark for stream in streams for name, mark in stream.marks(self._limits)}
            if not streams:
                mark = _DECLARES if self._declares_long() else None
                marks = {stream.name: mark for stream in self._declared if stream.name in self._limits}
            behind = {stream.name: count for stream in streams if (count := stream.behind()) is not None}
            if streams:
                self._measuring.begin(streams)
        except SPARK_ERRORS as error:
            if self._spark is None:
                return Pulse({})  # the driver ended Spark meanwhile
            raise DriverDied(how_jvm_ended(spark) or f"Spark's JVM does not answer: {one_line(error)}") from error
        mirrors = self._mirrors  # another thread sets it
        lag = None if mirrors is None else mirrors.lag
        rehearsals = self._rehearsals
        trouble = None if rehearsals is None else rehearsals.trouble
        return Pulse(marks, None if lag is None else asdict(lag), trouble, behind)

    def close(self) -> None:
        """Stop Spark and end its JVM."""
        self._end_spark()
        if self._own is not None:
            self._own.close()

    def _end_spark(self) -> None:
        if self._mirrors is not None:
            self._mirrors.close(patience_s=self._patience_s)
            self._mirrors = None
        if self._rehearsals is not None:
            self._rehearsals.abandon()
        if self._spark is not None:
            spark, self._spark = self._spark, None
            end_session(spark, patience_s=self._patience_s)
        if self._rehearsals is not None:
            self._rehearsals.close(patience_s=self._patience_s)
            self._rehearsals = None

    def _declare(self, term: Term | None = None) -> Job:
        assert self._spark is not None
        use_zone(self._spark, self._work.zone, kept=self._declarations.kept_zone(term))
        return declare(self._spark, self._work.pipeline, file=self._work.pipeline_file, params=self._work.params)

    def _declare_again(self, term: Term) -> Job:
        """As `_declare`, by a driver that has declared the streams before."""
        self._declaring_since_s = self._context.clock.monotonic_s()
        try:
            return self._declare(term)
        except (PipelineFileError, UsageError, *SPARK_ERRORS) as error:
            if (died := of_ended_jvm(error, spark=self._spark, log=self._work.spark_log)) is not None:
                raise died from error
            raise declared_before(error) from error
        finally:
            self._declaring_since_s = None

    def _declares_long(self) -> bool:
        """Whether the declaration at a grant takes longer than the first call lets expect: something in it may hang, as
        in a batch."""
        since_s = self._declaring_since_s  # another thread sets it
        return since_s is not None and self._context.clock.monotonic_s() - since_s > _LONG * self._first_took_s

    def _do(self, stream: FencedStream, step: Callable[[], T]) -> T:
        try:
            return step()
        except SPARK_ERRORS as error:
            failed = query_error(stream.name, error, spark=self._spark, log=self._work.spark_log)
            failed.__cause__ = error
            raise judged(stream, failed) from error
        except TenureError as error:
            raise judged(stream, error) from error

    def _start_again(self, stream: FencedStream, error: BaseException) -> StreamingQuery | None:
        return self._do(stream, functools.partial(stream.start_again, error))

    def _stop(self, running: RunningQueries) -> None:
        if not running.stop_all(patience=self._work.stop_patience):
            assert self._spark is not None
            kill_jvm(self._spark)
            raise DriverStuck(f"queries did not stop in {self._patience_s:g} s; the JVM was killed")


def _calm(streams: Sequence[FencedStream], clock: Clock) -> Callable[[], bool]:
    """Whether the batches that were retaken are done, and no first batch is kept waiting by a sweep."""
    end_s = clock.monotonic_s() + _CALM_S

    def is_calm() -> bool:
        begun = all(stream.last is not None for stream in streams) or clock.monotonic_s() >= end_s
        return begun and all(stream.retaken_is_done for stream in streams)

    return is_calm
