"""The work of a driver process: runs all streams of a pipeline under one term, and stops them when it ends.

Promise: `lead` returns only when its queries are stopped; queries that do not stop in time are DriverStuck.
An error of a query is one line; the JVM's own words are in Spark's log. Not promised: that no batch is in
flight when the term is lost; the fence and the sinks make that harmless.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.store import CheckpointStore
from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.coordination.term import Term
from tenure.errors import (
    DriverDied,
    DriverStuck,
    PipelineFileError,
    QueryFailed,
    StorageError,
    TenureError,
    TermLost,
    UsageError,
)
from tenure.events import Events
from tenure.pipelines.lifecycle import Ended
from tenure.pipelines.loading import where
from tenure.pipelines.pipeline import Job, Pipeline, Stream
from tenure.spark.rehearsal import Rehearsals
from tenure.spark.session import end_session, jvm_exit_code, kill_jvm
from tenure.spark.stream import FencedStream, with_trigger

_SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""What a call into the JVM can raise: Spark's own word, the gateway's, and a JVM that is gone."""

_FINISH_LOOK_S = 0.01

_SETTLE_S = 5.0
"""How long Spark may take to note that a batch is done; past that the successor runs the batch again."""

_LOOK_UP_S = 0.02
"""How long a lost term may go unnoticed by the waiting driver."""


class SparkDriver:
    """Leads one pipeline in this process. Used by one thread."""

    def __init__(
        self,
        *,
        scope: Scope,
        member: str,
        pipeline: Pipeline,
        pipeline_file: str,
        params: Mapping[str, str],
        start_spark: Callable[[], SparkSession],
        checkpoints: Callable[[str], CheckpointStore],
        storage: str,
        spark_log: str,
        until_idle: bool,
        warm: bool,
        stop_patience: timedelta,
        clock: Clock,
        events: Events,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """`pipeline_file` is where the pipeline was loaded from. `checkpoints`: query name -> its store. `warm`:
        rehearse while standing by. `stop_patience`: how long queries may take to stop."""
        self._scope = scope
        self._member = member
        self._pipeline = pipeline
        self._pipeline_file = pipeline_file
        self._params = params
        self._start_spark = start_spark
        self._checkpoints = checkpoints
        self._storage = storage
        self._spark_log = spark_log
        self._until_idle = until_idle
        self._warm = warm
        self._stop_patience = stop_patience
        self._clock = clock
        self._events = events
        self._on_close = on_close
        self._spark: SparkSession | None = None  # None: not prepared
        self._rehearsals: Rehearsals | None = None  # None: not prepared
        self._limits: Mapping[str, float] = {}
        self._streams: Sequence[FencedStream] = ()

    def prepare(self) -> Mapping[str, float]:
        """Start Spark, and declare the streams once, so that what is wrong with them is said
        before the member contends. Returns the limits that streams declare, in seconds."""
        # Workers cannot import the pipeline's file by its name, so what it defines travels with the functions.
        cloudpickle.register_pickle_by_value(sys.modules[self._pipeline.declare.__module__])  # type: ignore[no-untyped-call] # untyped in pyspark
        self._spark = self._start_spark()
        job = self._declare(self._spark, self._pipeline)
        self._rehearsals = Rehearsals(
            job.streams,
            scope=self._scope,
            member=self._member,
            checkpoints=self._checkpoints,
            storage=self._storage,
            clock=self._clock,
            events=self._events,
        )
        if self._warm:
            self._rehearsals.start()
        self._limits = {one.name: one.limit.total_seconds() for one in job.streams if one.limit is not None}
        return self._limits

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        """Run the streams until the term is lost, `stop` is set, or they end. Once `finish` is set, each one ends its
        batch and begins no other."""
        assert self._spark is not None
        if self._rehearsals is not None:
            self._rehearsals.abandon()
        job = self._declare(self._spark, self._pipeline)
        streams = [
            FencedStream(
                declared,
                term=term,
                checkpoints=self._checkpoints(declared.name),
                storage=self._storage,
                clock=self._clock,
                events=self._events,
            )
            for declared in job.streams
        ]
        running = _Running(self._clock)
        try:
            self._streams = streams
            for stream in streams:
                running.watch(self._start(stream), until_idle=self._until_idle and not stream.ends_by_itself)
            ended = running.wait(term, stop=stop, finish=finish)
            finished = finish.is_set() and not stop.is_set() and self._finish(streams, term, stop=stop)
        finally:
            self._streams = ()
            self._stop(running)
            for stream in streams:
                stream.close()
        if finished:
            for stream in streams:
                stream.close_batch()
        if ended is Ended.FAILED:
            self._raise_failure(streams, running)
        return ended

    def _finish(self, streams: Sequence[FencedStream], term: Term, *, stop: threading.Event) -> bool:
        """Wait until every stream is between two batches, for as long as the term is held; return whether they are."""
        for stream in streams:
            stream.finish()
        while any(stream.in_batch for stream in streams):
            if stop.is_set() or term.lost:
                return False
            self._clock.wait(stop, timeout_s=_FINISH_LOOK_S)
        end_s = self._clock.monotonic_s() + _SETTLE_S
        while not all(stream.settled() for stream in streams) and self._clock.monotonic_s() < end_s:
            self._clock.wait(stop, timeout_s=_FINISH_LOOK_S)
        return True

    def pulse(self) -> Mapping[str, str | None]:
        """Ask the JVM for the time, and those queries for their progress that declare a limit.

        Raises DriverDied: the JVM is gone.
        """
        assert self._spark is not None
        try:
            self._spark.sparkContext._jvm.java.lang.System.nanoTime()  # type: ignore[union-attr] # it has one
            return {stream.name: stream.progress() for stream in self._streams if stream.name in self._limits}
        except _SPARK_ERRORS as error:
            raise DriverDied(self._how_jvm_ended() or f"Spark's JVM does not answer: {_one_line(error)}") from error

    def close(self) -> None:
        """Stop Spark and end its JVM."""
        if self._rehearsals is not None:
            self._rehearsals.abandon()
        if self._spark is not None:
            end_session(self._spark, patience_s=self._stop_patience.total_seconds())
            self._spark = None
        if self._rehearsals is not None:
            self._rehearsals.close(patience_s=self._stop_patience.total_seconds())
            self._rehearsals = None
        self._on_close()

    def _declare(self, spark: SparkSession, pipeline: Pipeline) -> Job:
        job = Job(spark, self._params)
        before = {query.id for query in spark.streams.active}  # a rehearsal may still be stopping
        try:
            pipeline.declare(job)
        except TenureError:
            raise
        except (Exception, SystemExit) as error:  # user code and Spark's analysis of it: told in one line
            raise PipelineFileError(f"{where(error, self._pipeline_file)}: {_one_line(error)}") from error
        started = [query for query in spark.streams.active if query.id not in before]
        if started:
            running = [str(query.name or query.id) for query in started]
            for query in started:
                query.stop()
            raise PipelineFileError(
                f"pipeline {pipeline.name!r} starts {len(running)} queries by itself ({', '.join(running)}), "
                "outside of the fence",
                fix="declare them with job.stream(...) instead of writeStream.start()",
            )
        if not job.streams:
            raise PipelineFileError(f"pipeline {pipeline.name!r} declares no stream", fix="call job.stream(...)")
        for stream in job.streams:
            self._check_trigger(stream)
        return job

    def _check_trigger(self, stream: Stream) -> None:
        """Let Spark read the trigger's text before a term is spent on it. Nothing is started."""
        try:
            with_trigger(stream.rows.writeStream, stream.trigger)
        except _SPARK_ERRORS as error:
            raise UsageError(
                f"trigger {stream.trigger!r} of stream {stream.name!r} is refused by Spark: {_one_line(error)}",
                fix="use an interval such as '1 second', or 'available now'",
            ) from error

    def _start(self, stream: FencedStream) -> StreamingQuery:
        try:
            return stream.start()
        except _SPARK_ERRORS as error:
            raise self._told(stream, error) from error

    def _stop(self, running: _Running) -> None:
        if not running.stop_all(patience=self._stop_patience):
            assert self._spark is not None
            kill_jvm(self._spark)
            raise DriverStuck(f"queries did not stop in {self._stop_patience.total_seconds():g} s; the JVM was killed")

    def _raise_failure(self, streams: list[FencedStream], running: _Running) -> None:
        """Raise the reason why a query ended: our own error, TermLost before others."""
        failures = [stream.failure for stream in streams if stream.failure is not None]
        for kind in (TermLost, TenureError):
            for failure in failures:
                if isinstance(failure, kind):
                    raise failure
        for stream in streams:
            error = running.errors.get(stream.name)
            if error is not None:
                raise self._told(stream, stream.failure or error) from error

    def _told(self, stream: FencedStream, error: BaseException) -> TenureError:
        line = _one_line(error)
        if "No space left on device" in str(error):
            return StorageError(f"query {stream.name!r}: {line}", fix="free space on that disk")
        if isinstance(error, (Py4JError, OSError)):
            ended = self._how_jvm_ended()
            if ended is not None:
                return DriverDied(ended, fix=f"see {self._spark_log}")
        return QueryFailed(f"query {stream.name!r} failed: {line}", fix=f"see {self._spark_log}")

    def _how_jvm_ended(self) -> str | None:
        """None: it runs, or is not ours. Its connections break a little before it has ended."""
        ended = None if self._spark is None else jvm_exit_code(self._spark, patience_s=2)
        return None if ended is None else f"Spark's JVM ended with exit code {ended}"


class _Running:
    """The queries of one term, each watched by one thread that ends with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queries: dict[str, StreamingQuery] = {}
        self._lock = threading.Lock()  # guards the two below
        self._ended: set[str] = set()
        self.errors: dict[str, BaseException] = {}
        """The error of each query that ended with one, by name."""
        self._wake = threading.Event()

    def watch(self, query: StreamingQuery, *, until_idle: bool) -> None:
        name = str(query.name)
        self._queries[name] = query
        wait = query.processAllAvailable if until_idle else query.awaitTermination
        threading.Thread(target=self._until_ended, args=(name, wait), name=f"tenure-query-{name}", daemon=True).start()

    def wait(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        while True:
            if term.lost:
                return Ended.LOST
            with self._lock:
                failed, done = bool(self.errors), len(self._ended) == len(self._queries)
            if (
                stop.is_set() or finish.is_set()
            ):  # first: a signal to the whole group ends the JVM too, and that is no failure
                return Ended.STOPPED
            if failed:
                return Ended.FAILED
            if done:
                return Ended.IDLE
            self._clock.wait(self._wake, timeout_s=_LOOK_UP_S)
            self._wake.clear()

    def stop_all(self, *, patience: timedelta) -> bool:
        """Ask every query to stop, at once; return whether all did in time. `StreamingQuery.stop` can hang."""
        threads = [
            threading.Thread(target=self._stop, args=(name, query), daemon=True)
            for name, query in self._queries.items()
        ]
        end_s = self._clock.monotonic_s() + patience.total_seconds()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=max(0.0, end_s - self._clock.monotonic_s()))
        return not any(thread.is_alive() for thread in threads)

    def _stop(self, name: str, query: StreamingQuery) -> None:
        try:
            query.stop()
        except _SPARK_ERRORS as error:  # a query that failed says so again when it is stopped
            with self._lock:
                self.errors.setdefault(name, error)

    def _until_ended(self, name: str, wait: Callable[[], object]) -> None:
        try:
            wait()
        except _SPARK_ERRORS as error:  # what ended the query is told by the driver, in its own thread
            with self._lock:
                self.errors[name] = error
        finally:
            with self._lock:
                self._ended.add(name)
            self._wake.set()


_PYTHON_CAUSE = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)$", flags=re.MULTILINE)
_STREAM_FAILED = re.compile(r"\A\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")  # we name the query
_JVM_CAUSE = re.compile(r"^Caused by: (.+)$", flags=re.MULTILINE)


def _one_line(error: BaseException) -> str:
    """The sentence that matters of a Spark or Python error: what a Python worker raised, the JVM's innermost
    cause, or its own first line."""
    text = str(error).strip()
    causes = _PYTHON_CAUSE.findall(text) or _JVM_CAUSE.findall(text)
    first = causes[-1] if causes else _STREAM_FAILED.sub("", text).split("\n", 1)[0]
    kind = "" if isinstance(error, PySparkException) else f"{type(error).__name__}: "
    return f"{kind}{first.rstrip('; ')}"[:600]
