"""Spark on a real S3 server behind a gate that refuses puts and loses answers; a leader of one query there."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.driver.stream import FencedStream
from tenure.events import Event, Events
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks import Delta
from tenure.spark.hadoop import use_fitting_files
from tenure.spark.own_classes import use_own_classes
from tenure.spark.session import DEFAULTS
from tenure.storage.reach import reach
from tenure.takeover.mirror import Mirrors
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.servers import BUCKET
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.seaweedfs import s3a_settings
from tests.support.far_gate import FarGate

SCOPE, QUERY = Scope("rows"), "days"
KINDS = {
    "the source's log": "/sources/",
    "offsets": "/offsets/",
    "a blob": "/blobs/",
    "state": ".changelog",
    "a staged file": ".parquet",
    "Delta's log": "/_delta_log/",
    "commits": "/commits/",
}
"""Each kind of file that a batch writes, in this order -> a part of its key."""


def session_for(gate: FarGate) -> Callable[[], SparkSession]:
    """The start of a session that reaches S3 by the gate, and tries little again."""
    s3a = {
        **s3a_settings(gate.url),
        "attempts.maximum": "2",
        "retry.limit": "1",
        "retry.interval": "10ms",
    }

    def start() -> SparkSession:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers would take whatever `python3` is
        jars = ",".join(map(str, sorted((ivy_folder() / "jars").glob("*.jar"))))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} pyspark-shell"
        builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "1")
        for name, value in {
            **DEFAULTS,
            **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        del os.environ["PYSPARK_SUBMIT_ARGS"]
        session.sparkContext.setLogLevel("OFF")
        return session

    return start


class Place:
    """A query of counts by day over a folder of files, with its storage and its table in S3."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.root = f"s3a://{BUCKET}/{os.urandom(6).hex()}"
        self._store = MemoryStore(MemoryServer())
        self._input = folder / "input"
        self._input.mkdir()
        self.files = 0
        self.told: list[Event] = []
        use_own_classes(spark)
        use_fitting_files(spark, reach(f"{self.root}/storage"))

    def feed(self) -> None:
        """One more file: two rows of its day, one row of the next."""
        days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=self.files + next_) for next_ in (0, 0, 1)]
        hidden = self._input / f".{self.files:03d}.json"
        hidden.write_text("".join(json.dumps({"at": f"{day:%Y-%m-%dT%H:%M:%SZ}"}) + "\n" for day in days))
        os.utime(hidden, (1_767_225_600 + self.files,) * 2)  # Spark reads files in the order of these times
        hidden.rename(self._input / f"{self.files:03d}.json")
        self.files += 1

    def declared(self) -> Stream:
        """The query, as a pipeline declares it."""
        reader = self._spark.readStream.schema("at timestamp").option("maxFilesPerTrigger", 1)
        rows = reader.json(str(self._input)).withWatermark("at", "36 hours").groupBy("at").count()
        sink = Delta(f"{self.root}/table")
        sink.check(output_mode="append")
        return Stream(QUERY, rows, sink, "append", None)

    def context(self) -> ScopeContext:
        """The scope, its store and its storage."""
        events = Events(self.told.append)
        return ScopeContext(self._store, SCOPE, f"{self.root}/storage", SystemClock(), events, inline_limit=1)

    @contextmanager
    def led(self, mirrors: Mirrors | None = None) -> Iterator[tuple[FencedStream, StreamingQuery]]:
        """The query, under a new term. `mirrors`: of the standby that leads."""
        clock, context = SystemClock(), self.context()
        with SessionKeeper(self._store, ttl=timedelta(seconds=600), clock=clock) as keeper:
            term = Election(self._store, SCOPE, member="anna", clock=clock).campaign(keeper, stop=threading.Event())
            assert term is not None
            stream = FencedStream(self.declared(), context, term=term, missing=lambda paths: (), mirrors=mirrors)
            stream.prepare()
            query = stream.start()
            try:
                yield stream, query
            finally:
                query.stop()
                stream.close()

    def counts(self) -> Counter[tuple[int, int]]:
        """(day of the month, its rows), for each row of the table."""
        rows = DeltaTable(f"{self.root}/table").to_pyarrow_table().to_pylist()
        return Counter((row["at"].day, row["count"]) for row in rows)

    def truth(self) -> Counter[tuple[int, int]]:
        """The days that are over, once each."""
        return Counter({(1 + day, 3 if day else 2): 1 for day in range(self.files - 1)})
