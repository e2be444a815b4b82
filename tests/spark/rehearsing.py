"""A leader and a rehearsing standby over a folder of files, on real Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.term import Term
from tenure.driver.stream import FencedStream
from tenure.events import Event, Events, RehearsalFailed, StandbyWarm
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks import Delta
from tenure.sinks.sink import Sink
from tenure.takeover.rehearsal import Rehearsals
from tests.kit.memory import MemoryStore
from tests.kit.waiting import NEVER_S

SCOPE, QUERY = Scope("rows"), "hours"


class Scene:
    """A query over hourly counts of a folder, whose source deletes the files of a batch that is done."""

    def __init__(self, spark: SparkSession, folder: Path, store: MemoryStore, term: Term) -> None:
        self._spark, self.folder, self._store, self.term = spark, folder, store, term
        self.told: list[Event] = []
        self.events = Events(self.told.append)
        self._files = 0
        (folder / "input").mkdir()

    @property
    def rehearsals_folder(self) -> Path:
        return self.folder / "storage" / "rehearsals" / "ben"

    def feed(self, files: int) -> None:
        for _ in range(files):
            number, self._files = self._files, self._files + 1
            at = [datetime(2013, 1, 1, tzinfo=UTC) + timedelta(minutes=30 * number + i) for i in range(10)]
            table = pa.table({"id": list(range(10)), "at": pa.array(at, pa.timestamp("us", tz="UTC"))})
            hidden = self.folder / "input" / f".{number:03d}.parquet"
            pq.write_table(table, hidden)
            hidden.rename(hidden.with_name(f"{number:03d}.parquet"))

    def declared(self, sink: Sink, *, stateful: bool = True) -> Stream:
        reader = self._spark.readStream.schema("id long, at timestamp").option("maxFilesPerTrigger", 1)
        events = reader.option("cleanSource", "delete").parquet(str(self.folder / "input"))
        rows = events.withWatermark("at", "1 hour").groupBy("at").count() if stateful else events
        sink.check(output_mode="append")
        return Stream(QUERY, rows, sink, "append", None)

    def table(self) -> Delta:
        return Delta(str(self.folder / "table"))

    @property
    def context(self) -> ScopeContext:
        return ScopeContext(self._store, SCOPE, str(self.folder / "storage"), SystemClock(), self.events)

    def lead(self, declared: Stream) -> None:
        """Run all that was fed, as the leader."""
        stream = FencedStream(
            declared,
            self.context,
            term=self.term,
            missing=lambda paths: (),
        )
        stream.prepare()
        query = stream.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
            stream.close()

    def rehearsals(self, declared: Stream) -> Rehearsals:
        return Rehearsals(
            [declared],
            self.context,
            member="ben",
        )

    def rehearse(self, declared: Stream) -> None:
        """Rehearse to the end."""
        rehearsals = self.rehearsals(declared)
        rehearsals.start()
        rehearsals.join(timeout_s=NEVER_S)
        assert self.of(StandbyWarm) or self.of(RehearsalFailed)

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.told if isinstance(event, kind)]

    def everything(self) -> Mapping[str, object]:
        """All records and files that anybody but the rehearsing member reads; Spark itself may still be uploading the
        leader's state."""
        files: dict[str, object] = {
            str(path.relative_to(self.folder)): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in self.folder.rglob("*")
            if path.is_file() and "/state/" not in str(path)
        }
        records: dict[str, object] = {record.key: record.version for record in self._store.list(SCOPE, "").records}
        return files | records
