"""Rehearsals: a standby runs the newest planned batch of each query in a folder of its own, so that its first batch as
a leader finds classes loaded, code compiled and connections open.

Promise: a rehearsal commits nothing: no checkpoint, no output, no commit to the source. It ends inside the batch. Its
files lie below `rehearsals/MEMBER` of the storage; they are removed at its end, and once more at the member's end. Not
promised: that a rehearsal succeeds; a failed rehearsal emits an event and is tried again later. Nor that it reads each
row: a leader may remove a source's files meanwhile.

Each request to an object store costs money and time. So after each rehearsal the standby rests until the requests of
Spark's JVM since its begin are `A_SECOND` a second in the mean. Tenure's and delta-rs' own requests are not counted,
and come on top. Where Hadoop counts none, as on a local disk, there is no rest.
"""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.clock import Clock
from tenure.coordination.encoding import new_uid
from tenure.errors import StorageError, TenureError
from tenure.events import BlobLeft, Once, RehearsalFailed, StandbyWarm
from tenure.pipelines.pipeline import Stream
from tenure.retry import exponential_delay
from tenure.rundirs.moved_files import moves_between
from tenure.rundirs.run_directory import format_of_state, remove_tree
from tenure.rundirs.seeding import seed, seed_without_tables
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Rehearsable
from tenure.spark.block_settings import block_settings
from tenure.spark.caller_threads import CallerThread
from tenure.spark.errors import SPARK_ERRORS, one_line
from tenure.spark.kept_tables import KeptTables
from tenure.spark.own_folders import hold, release
from tenure.spark.releases import READS_NO_METADATA_OF_4_0, settings_to_go_on
from tenure.storage.urls import hadoop_url

ROUNDS = 3
"""How often each query is rehearsed at least: the JVM compiles code that has run a few times."""

MORE_ROUNDS = 7
"""How often a query is rehearsed beyond that, within `MORE_S`: the JVM optimises code that has run often. A batch that
takes long gains nothing by it."""

MORE_S = 20.0
"""The time for further rounds, from the end of a query's first rehearsal."""

_AGAIN = exponential_delay(initial=timedelta(seconds=1), maximum=timedelta(minutes=5))
"""How long a query waits after a failed rehearsal."""

SETTINGS: Mapping[str, str] = {
    # With `cleanSource`, a leader removes the files of a finished batch while a rehearsal reads them.
    "spark.sql.files.ignoreMissingFiles": "true",
    # Spark would upload snapshots of an unneeded state after the rehearsal, in the way of a takeover.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000000",
}
"""Settings of Spark for rehearsals only."""

_LOOK_S = 1.0
"""How often a standby looks for the first batch of a query."""


class _EvaluatedError(Exception):
    """Ends a rehearsal inside its batch."""


@dataclass(slots=True)
class Rounds:
    """The remaining rehearsals of a query."""

    needed: int = ROUNDS
    more: int = MORE_ROUNDS
    since_s: float | None = None
    """When the first rehearsal ended; None: not yet."""
    again_s: float = float("-inf")
    """When the next rehearsal may start."""
    why: str = ""
    """Why the last rehearsal failed; empty: it succeeded."""
    delays: Iterator[float] = field(default_factory=_AGAIN.delays_s)

    def failed(self, now_s: float, why: str) -> None:
        """Note a failed rehearsal. A failure beyond the needed rounds ends the rehearsals of the query."""
        self.why, self.again_s = why, now_s + next(self.delays)
        if self.needed == 1 and self.more < MORE_ROUNDS:
            self.needed = 0

    def done(self, now_s: float) -> None:
        """Note a rehearsal that succeeded."""
        self.why, self.delays = "", _AGAIN.delays_s()
        if self.since_s is None:
            self.since_s = now_s
        if self.needed > 1 or self.more == 0 or now_s - self.since_s > MORE_S:
            self.needed -= 1
        else:
            self.more -= 1


class Rehearsals:
    """Rehearses the streams of one standby, in one thread, until the standby is warm or `abandon`."""

    def __init__(
        self, streams: Sequence[Stream], context: ScopeContext, *, member: str, tables: KeptTables | None = None
    ) -> None:
        """`tables`: the JVM has these on its disk, so no rehearsal copies tables; None: each rehearsal copies them."""
        self._streams = tuple(streams)
        self._tables = tables
        self._scope = context.scope
        self._member = member
        self._checkpoints = context.checkpoints
        self._storage = context.storage
        self._folder = f"{self._storage}/rehearsals/{member}"
        self._clock = context.clock
        self._events = context.events
        self._failures = {stream.name: Once(context.events) for stream in streams}
        self._pace = Pace(self._requests, context.clock)
        self._abandoned = threading.Event()
        self._lock = threading.Lock()  # guards _query; held while a query starts
        self._query: StreamingQuery | None = None  # None: none runs
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="tenure-rehearsals", daemon=True)

    def start(self) -> None:
        """Begin to rehearse, in a thread that ends by itself."""
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        """Why a query that still needs rehearsals failed its last; None: there is no such query."""
        return None if self._abandoned.is_set() else self._trouble

    def abandon(self) -> None:
        """Start no further query, and ask a running query to stop. Waits for a starting query, but not for a stop: a
        rehearsal can do no harm."""
        self._abandoned.set()
        with self._lock:
            query = self._query
        if query is not None:
            threading.Thread(target=_stop, args=(query,), name="tenure-rehearsal-stop", daemon=True).start()

    def close(self, *, patience_s: float) -> None:
        """End the thread, or give up after `patience_s`, and remove the member's files. Call this after the JVM's end:
        Spark goes on uploading the state of a stopped query."""
        self.abandon()
        self.join(timeout_s=patience_s)
        if self._thread.ident is not None:
            self._remove(self._folder)

    def join(self, *, timeout_s: float) -> None:
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        if self._clock.wait(self._abandoned, timeout_s=_LOOK_S):
            return  # the member leads already
        self._remove(self._folder)  # the files of a killed process of this name
        try:
            self._until_warm()
        finally:
            self._let_tables_go()

    def _let_tables_go(self) -> None:
        """Hold no table any more. The mirrors hold those that a takeover needs."""
        if self._tables is not None:
            with suppress(*SPARK_ERRORS):  # the tables went with their JVM
                for stream in self._streams:
                    self._tables.release(_holder(stream))

    def _until_warm(self) -> None:
        began_s = self._clock.monotonic_s()
        rounds = {stream.name: Rounds() for stream in self._streams}
        while not self._abandoned.is_set():
            waiting = [(stream, rounds[stream.name]) for stream in self._streams if rounds[stream.name].needed]
            if not waiting:
                seconds = self._clock.monotonic_s() - began_s
                self._events.emit(StandbyWarm(scope=self._scope, member=self._member, seconds=seconds))
                return
            now_s = self._clock.monotonic_s()
            done = [self._rehearse(stream, query) for stream, query in waiting if now_s >= query.again_s]
            failing = [(stream.name, query.why) for stream, query in waiting if query.needed and query.why]
            self._trouble = f"query {failing[0][0]!r} was not rehearsed: {failing[0][1]}" if failing else None
            if not any(done):
                self._clock.wait(self._abandoned, timeout_s=_LOOK_S)

    def _rehearse(self, stream: Stream, rounds: Rounds) -> bool:
        """Rehearse a query once. Return whether it had a batch and succeeded. A query without a batch does not hold up
        the others."""
        if self._abandoned.is_set():
            return False
        try:
            newest = self._checkpoints(stream.name).glance()
            if newest is None or newest.closed:  # closed: the state before the batch is gone
                return False
            self._once(stream, newest)
        except (TenureError, PySparkException, Py4JError, OSError) as error:
            if not self._abandoned.is_set():
                why = one_line(error)
                self._failures[stream.name].look(RehearsalFailed(self._scope, query=stream.name, why=why))
                rounds.failed(self._clock.monotonic_s(), why)
            return False
        if not self._abandoned.is_set():
            self._failures[stream.name].look()
            rounds.done(self._clock.monotonic_s())
        return True

    def _once(self, stream: Stream, planned: Checkpoint) -> None:
        directory = f"{self._folder}/{stream.name}-{new_uid()[:12]}"
        spark = stream.rows.sparkSession
        self._pace.begin()
        failures: list[BaseException] = []
        caller = CallerThread()

        def evaluate(rows: DataFrame, batch_id: int) -> None:
            caller.note()
            try:
                if isinstance(stream.sink, Rehearsable):
                    stream.sink.rehearse(rows, hadoop_url(f"{directory}/output"))
                else:
                    rows.write.format("noop").mode("append").save()
            except BaseException as error:
                failures.append(error)
                raise
            failures.append(_EvaluatedError())
            raise failures[0]

        try:
            self._seed(stream, planned, directory)
            writer = (
                stream.rows.writeStream.queryName(f"{stream.name} (rehearsal)")
                .outputMode(stream.output_mode)
                .option("checkpointLocation", hold(spark, directory))
                .foreachBatch(evaluate)
            )
            with self._lock:
                if self._abandoned.is_set():
                    return
                format_ = functools.partial(format_of_state, directory)
                with block_settings(spark, {**SETTINGS, **settings_to_go_on(format_)}):
                    query = self._query = writer.start()  # a query keeps the settings of its start
            try:
                query.awaitTermination()
            except (PySparkException, Py4JError):
                if not isinstance(failures[0] if failures else None, _EvaluatedError):
                    raise
            finally:
                with self._lock:
                    self._query = None
        finally:
            caller.end()
            self._remove(directory)
            release(spark, directory)
        self._pace.rest(self._abandoned)

    def _seed(self, stream: Stream, planned: Checkpoint, directory: str) -> None:
        source, query_id = f"{self._storage}/{planned.run_directory}", str(uuid.uuid4())
        # Spark would wait for the end of an active query of the same id.
        point = SeedPoint(
            planned.batch,
            planned.offsets,
            folders=planned.folders,
            kinds=planned.kinds,
            moves=moves_between(planned.paths, stream.sources),
            newer=READS_NO_METADATA_OF_4_0,
        )
        if self._tables is None:
            seed(source, directory, point, query_id=query_id)
            return
        sizes = seed_without_tables(source, directory, point, query_id=query_id)
        # Held from one rehearsal to the next, so that each table is fetched once.
        self._tables.hold(_holder(stream), {f"{source}/{path}": size for path, size in sizes.items()})

    def _requests(self) -> int:
        return requests_of(self._streams[0].rows.sparkSession, self._folder)

    def _remove(self, folder: str) -> None:
        try:
            remove_tree(folder)
        except StorageError as error:
            self._events.emit(BlobLeft(self._scope, address=folder, why=str(error)))


def _holder(stream: Stream) -> str:
    return f"rehearsals of {stream.name}"


def _stop(query: StreamingQuery) -> None:
    try:
        query.stop()
    except (PySparkException, Py4JError, OSError):
        return  # it has ended by itself, or with its JVM


A_SECOND: Final = 1.4

_REQUESTS: Final = "store_io_request"
"""Hadoop's name for the number of requests that a client has sent."""


class Pace:
    """The rests of one standby. Used by one thread."""

    def __init__(self, requests: Callable[[], int], clock: Clock) -> None:
        """`requests`: how many were made so far."""
        self._requests = requests
        self._clock = clock
        self._made = 0
        self._since_s = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self._made, self._since_s = self._requests(), self._clock.monotonic_s()

    def rest(self, stop: threading.Event) -> None:
        """Wait as long as the requests since `begin` are too many, or until `stop`."""
        due_s = self._since_s + (self._requests() - self._made) / A_SECOND
        remaining_s = due_s - self._clock.monotonic_s()
        if remaining_s > 0:
            self._clock.wait(stop, timeout_s=remaining_s)


def requests_of(spark: SparkSession, url: str) -> int:
    """The requests that Spark's JVM has sent to a storage. Raises Spark's own errors."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    files = jvm.org.apache.hadoop.fs.Path(url).getFileSystem(context._jsc.hadoopConfiguration())
    statistics = jvm.org.apache.hadoop.fs.statistics.IOStatisticsSupport.retrieveIOStatistics(files)  # null: none
    return 0 if statistics is None else int(statistics.counters().get(_REQUESTS) or 0)
