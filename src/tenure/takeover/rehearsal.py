"""Rehearsals: a standby runs the newest planned batch of each query by itself, into a folder of its own, so that the
classes, the compiled code and the connections that its first batch as a leader needs are there already.

Promise: a rehearsal commits nothing: no checkpoint, no output, no word to the source that a batch is done; it ends
inside the batch. What it writes lies below `rehearsals/` of the storage, under the member's name, and is removed at
its end, and once more with the member. Not promised: that it succeeds: then it says so, and is tried again later. Nor
that it sees each row: a leader may remove a source's files while they are read.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.coordination.encoding import new_uid
from tenure.errors import StorageError, TenureError
from tenure.events import BlobLeft, RehearsalFailed, StandbyWarm
from tenure.pipelines.pipeline import Stream
from tenure.retry import exponential_delay
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Rehearsable
from tenure.spark.caller_threads import CallerThread
from tenure.spark.errors import one_line
from tenure.takeover.run_directory import remove_tree
from tenure.takeover.seeding import seed
from tenure.takeover.state_copy import SeedPoint

ROUNDS = 3
"""How often each query is rehearsed at least: the JVM compiles what has run a few times."""

MORE_ROUNDS = 7
"""How often it is rehearsed beyond that, as long as `MORE_S` are not over: the JVM compiles better what has run often,
and a batch that takes long gains nothing by it."""

MORE_S = 20.0
"""Counted from the end of a query's first rehearsal."""

_AGAIN = exponential_delay(initial=timedelta(seconds=1), maximum=timedelta(minutes=5))
"""How long a query whose rehearsal failed is left alone."""

SETTINGS: Mapping[str, str] = {
    # A leader whose source has `cleanSource` removes the files of a batch that is done, while we read them.
    "spark.sql.files.ignoreMissingFiles": "true",
    # Snapshots of a state that nobody needs: Spark would upload them after the rehearsal, in the way of a takeover.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000000",
}
"""Under which only rehearsals run."""

_LOOK_S = 1.0
"""How often a standby looks for the first batch of a query that has none."""


class _EvaluatedError(Exception):
    """Ends a rehearsal inside its batch."""


@dataclass(slots=True)
class Rounds:
    """How often a query must still be rehearsed, and when."""

    left: int = ROUNDS
    more: int = MORE_ROUNDS
    since_s: float | None = None
    """When its first rehearsal ended; None: not yet."""
    again_s: float = float("-inf")
    """Until when it is left alone."""
    why: str = ""
    """Why the last one failed; empty: it went well."""
    delays: Iterator[float] = field(default_factory=_AGAIN.delays_s)

    def failed(self, now_s: float, why: str) -> None:
        """One did not go well. Beyond the rounds that are needed there is nothing to try again."""
        self.why, self.again_s = why, now_s + next(self.delays)
        if self.left == 1 and self.more < MORE_ROUNDS:
            self.left = 0

    def done(self, now_s: float) -> None:
        """One went well."""
        self.why, self.delays = "", _AGAIN.delays_s()
        if self.since_s is None:
            self.since_s = now_s
        if self.left > 1 or self.more == 0 or now_s - self.since_s > MORE_S:
            self.left -= 1
        else:
            self.more -= 1


class Rehearsals:
    """Rehearses the streams of one standby, in one thread, until it is warm or told to stop."""

    def __init__(
        self,
        streams: Sequence[Stream],
        context: ScopeContext,
        *,
        member: str,
    ) -> None:
        self._streams = tuple(streams)
        self._scope = context.scope
        self._member = member
        self._checkpoints = context.checkpoints
        self._storage = context.storage
        self._folder = f"{self._storage}/rehearsals/{member}"
        self._clock = context.clock
        self._events = context.events
        self._abandoned = threading.Event()
        self._lock = threading.Lock()  # guards _query; held while a query starts
        self._query: StreamingQuery | None = None  # None: none runs
        self._trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="tenure-rehearsals", daemon=True)

    def start(self) -> None:
        """Begin, in a thread that ends by itself."""
        self._thread.start()

    @property
    def trouble(self) -> str | None:
        """Why a query could not be rehearsed the last time, and still has to be; None: none is like that."""
        return None if self._abandoned.is_set() else self._trouble

    def abandon(self) -> None:
        """Begin no other query, and ask the one that runs to stop. Waits for one that is starting, not for one to
        stop: it can do no harm."""
        self._abandoned.set()
        with self._lock:
            query = self._query
        if query is not None:
            threading.Thread(target=_stop, args=(query,), name="tenure-rehearsal-stop", daemon=True).start()

    def close(self, *, patience_s: float) -> None:
        """End the thread, or give it up after `patience_s`, and remove what the member left. Call it when the JVM has
        ended: Spark goes on uploading the state of a query that was stopped."""
        self.abandon()
        self.join(timeout_s=patience_s)
        if self._thread.ident is not None:
            self._remove(self._folder)

    def join(self, *, timeout_s: float) -> None:
        """Wait until the thread has ended, at most so long."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        if self._clock.wait(self._abandoned, timeout_s=_LOOK_S):
            return  # the member leads already: nobody was there before it
        self._remove(self._folder)  # what a process of this name left that was killed
        began_s = self._clock.monotonic_s()
        rounds = {stream.name: Rounds() for stream in self._streams}
        while not self._abandoned.is_set():
            waiting = [(stream, rounds[stream.name]) for stream in self._streams if rounds[stream.name].left]
            if not waiting:
                seconds = self._clock.monotonic_s() - began_s
                self._events.emit(StandbyWarm(scope=self._scope, member=self._member, seconds=seconds))
                return
            now_s = self._clock.monotonic_s()
            done = [self._rehearse(stream, one) for stream, one in waiting if now_s >= one.again_s]
            failing = [(stream.name, one.why) for stream, one in waiting if one.left and one.why]
            self._trouble = f"query {failing[0][0]!r} was not rehearsed: {failing[0][1]}" if failing else None
            if not any(done):
                self._clock.wait(self._abandoned, timeout_s=_LOOK_S)

    def _rehearse(self, stream: Stream, rounds: Rounds) -> bool:
        """Rehearse once; return whether there was a batch to rehearse, and it went well. A query without a batch yet
        keeps no other one waiting."""
        if self._abandoned.is_set():
            return False
        try:
            newest = self._checkpoints(stream.name).newest()
            if newest is None or newest.closed:  # closed: the state before it is not there
                return False
            self._once(stream, newest)
        except (TenureError, PySparkException, Py4JError, OSError) as error:
            if not self._abandoned.is_set():
                why = one_line(error)
                if why != rounds.why:
                    self._events.emit(RehearsalFailed(self._scope, query=stream.name, why=why))
                rounds.failed(self._clock.monotonic_s(), why)
            return False
        if not self._abandoned.is_set():
            rounds.done(self._clock.monotonic_s())
        return True

    def _once(self, stream: Stream, planned: Checkpoint) -> None:
        directory = f"{self._folder}/{stream.name}-{new_uid()[:12]}"
        failures: list[BaseException] = []
        caller = CallerThread()

        def evaluate(rows: DataFrame, batch_id: int) -> None:
            caller.note()
            try:
                if isinstance(stream.sink, Rehearsable):
                    stream.sink.rehearse(rows, f"{directory}/output")
                else:
                    rows.write.format("noop").mode("append").save()
            except BaseException as error:
                failures.append(error)
                raise
            failures.append(_EvaluatedError())
            raise failures[0]

        try:
            seed(
                f"{self._storage}/{planned.run_directory}",
                directory,
                SeedPoint(planned.batch, planned.offsets, folders=planned.folders),
                query_id=str(uuid.uuid4()),  # Spark waits for the end of an active query of the same id
            )
            writer = (
                stream.rows.writeStream.queryName(f"{stream.name} (rehearsal)")
                .outputMode(stream.output_mode)
                .option("checkpointLocation", directory)
                .foreachBatch(evaluate)
            )
            with self._lock:
                if self._abandoned.is_set():
                    return
                with _settings(stream.rows.sparkSession):
                    query = self._query = writer.start()  # it keeps the settings that it starts with
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

    def _remove(self, folder: str) -> None:
        try:
            remove_tree(folder)
        except StorageError as error:
            self._events.emit(BlobLeft(self._scope, address=folder, why=str(error)))


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Queries that start in the block have the settings of rehearsals, for as long as they run."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, str(was))


def _stop(query: StreamingQuery) -> None:
    try:
        query.stop()
    except (PySparkException, Py4JError, OSError):
        return  # it ended by itself, or with its JVM: a rehearsal has nothing to lose
