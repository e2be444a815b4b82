"""Leaders that follow one another over one topic, on real Spark; each may end at a step of a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.driver.stream import FencedStream
from tenure.events import Event, Events
from tenure.pipelines.pipeline import Stream
from tenure.rundirs.run_directory import read_query_id
from tenure.scope_context import ScopeContext
from tenure.sinks import Delta
from tenure.sinks.sink import Batch, OutputMode, Sink, Written
from tenure.spark.errors import SPARK_ERRORS
from tenure.spark.source_plans import sources_of
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.servers import KafkaServer

SCOPE, QUERY = Scope("rows"), "copy"
Kind = TypeVar("Kind", bound=Event)


class Died(Exception):
    """Stands for the end of a leader's process."""


class DyingDelta(Delta):
    """A table whose writer dies before or after its commit of a batch."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.dies: tuple[str, int] | None = None
        self.before: Callable[[], None] = lambda: None
        """Called before the rows of a batch are evaluated."""

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        if self.dies == ("before", batch.id):
            planned()
            raise Died
        self.before()
        written = super().write(rows, batch, planned=planned, events=events)
        if self.dies == ("after", batch.id):
            raise Died
        return written


class Scene:
    """A topic, a store, a storage, and the table of one query."""

    def __init__(self, spark: SparkSession, kafka: KafkaServer, folder: Path, topic: str) -> None:
        self._spark, self._kafka, self.folder, self.topic = spark, kafka, folder, topic
        self._store = MemoryStore(MemoryServer())
        self.told: list[Event] = []
        self._epochs = 0

    def send(self, *values: int, partition: int = 0) -> None:
        self._kafka.send(self.topic, map(str, values), partition=partition)

    def rows(self, **options: str) -> DataFrame:
        """The numbers in the topic, with its place."""
        given = {"kafka.bootstrap.servers": self._kafka.address, "subscribe": self.topic, "startingOffsets": "earliest"}
        read = self._spark.readStream.format("kafka").options(**{**given, **options}).load()
        return read.select(fn.col("value").cast("string").cast("long").alias("id"))

    def totals(self, **options: str) -> DataFrame:
        """How often each number modulo 2 was there: a query with state, in update mode."""
        return self.rows(**options).groupBy((fn.col("id") % 2).alias("k")).count()

    def table(self, *, dies: tuple[str, int] | None = None, key: tuple[str, ...] = ()) -> DyingDelta:
        sink = DyingDelta(self.folder / "table", key=key)
        sink.dies = dies
        return sink

    @contextmanager
    def leader(self, rows: DataFrame, sink: Sink, *, short_batch: bool = False) -> Iterator[FencedStream]:
        """A new leader's query, not started. At the end its term is over."""
        mode: OutputMode = "update" if "count" in rows.columns else "append"
        sink.check(output_mode=mode)
        self._epochs += 1
        storage, events = str(self.folder / "storage"), Events(self.told.append)
        context = ScopeContext(self._store, SCOPE, storage, SystemClock(), events)
        with SessionKeeper(self._store, ttl=timedelta(seconds=600), clock=SystemClock()) as keeper:
            election = Election(self._store, SCOPE, member=f"m{self._epochs}", clock=SystemClock())
            term = election.campaign(keeper, stop=threading.Event())
            assert term is not None
            stream = FencedStream(
                Stream(QUERY, rows, sink, mode, None, sources=sources_of(rows)),
                context,
                term=term,
                missing=lambda paths: (),
                short_batch=short_batch,
            )
            try:
                yield stream
            finally:
                stream.close()
                election.resign(term)

    def lead(self, rows: DataFrame, sink: Sink, *, short_batch: bool = False) -> BaseException | None:
        """Run all that is in the topic, as a new leader. Return the error that ended it; None: it ended well. An error
        before its start is raised."""
        with self.leader(rows, sink, short_batch=short_batch) as stream:
            stream.prepare()
            query = stream.start()
            try:
                query.processAllAvailable()
            except SPARK_ERRORS as error:
                return stream.failure or error
            finally:
                query.stop()
        return None

    def events(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.told if isinstance(event, kind)]

    def query_id(self) -> str:
        """Spark's id of the query."""
        first = next((self.folder / "storage" / "runs" / QUERY).iterdir())
        return read_query_id(str(first))

    def output(self, *columns: str) -> list[Any]:
        """The table, sorted."""
        table = DeltaTable(str(self.folder / "table")).to_pyarrow_table()
        found = sorted(zip(*(table[column].to_pylist() for column in columns), strict=True))
        return [row[0] for row in found] if len(columns) == 1 else found
