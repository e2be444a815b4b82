"""A standby's rehearsals beside a real leader's output: they warm up, and nothing else changes anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tenure.backends.memory import MemoryServer, MemoryStore
from tenure.blobs.filesystem import FileBlobs
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.events import BatchCommitted, Event, Events, RehearsalFailed, StandbyWarm
from tenure.handles.store import HandleStore
from tenure.pipelines.pipeline import Stream
from tenure.sinks import Delta, Foreach
from tenure.spark.rehearsal import MORE_ROUNDS, MORE_S, ROUNDS, Rehearsals, Rounds
from tenure.spark.sinks.sink import Batch, Sink, Written
from tenure.spark.stream import FencedStream
from tenure.testing.waiting import wait_until

SCOPE, QUERY = Scope("rows"), "hours"
PATIENCE = timedelta(seconds=60)


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

    def checkpoints(self, query: str) -> CheckpointStore:
        blobs = FileBlobs(str(self.folder / "storage" / "blobs"))
        handles = HandleStore(self._store, SCOPE, area=CHECKPOINTS.child(query), blobs=blobs, clock=SystemClock())
        return CheckpointStore(handles, query=query)

    def lead(self, declared: Stream) -> None:
        """Run all that was fed, as the leader."""
        stream = FencedStream(
            declared,
            term=self.term,
            checkpoints=self.checkpoints(QUERY),
            storage=str(self.folder / "storage"),
            clock=SystemClock(),
            events=self.events,
        )
        query = stream.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
            stream.close()

    def rehearsals(self, declared: Stream) -> Rehearsals:
        return Rehearsals(
            [declared],
            scope=SCOPE,
            member="ben",
            checkpoints=self.checkpoints,
            storage=str(self.folder / "storage"),
            clock=SystemClock(),
            events=self.events,
        )

    def rehearse(self, declared: Stream) -> None:
        """Rehearse to the end."""
        rehearsals = self.rehearsals(declared)
        rehearsals.start()
        rehearsals.join(timeout_s=PATIENCE.total_seconds())
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


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    store = MemoryStore(MemoryServer())
    with SessionKeeper(store, ttl=timedelta(seconds=60), clock=SystemClock()) as keeper:
        term = Election(store, SCOPE, member="anna", clock=SystemClock()).campaign(keeper, stop=threading.Event())
        assert term is not None
        yield Scene(spark, tmp_path, store, term)


def test_a_rehearsal_changes_nothing(scene: Scene) -> None:
    declared = scene.declared(scene.table())
    scene.feed(6)
    scene.lead(declared)
    scene.feed(3)  # there is more to do, and it is not the standby's to do
    inputs = len(list((scene.folder / "input").glob("*.parquet")))
    before = scene.everything()
    scene.rehearse(declared)
    assert scene.of(RehearsalFailed) == []
    assert len(scene.of(StandbyWarm)) == 1
    assert scene.everything() == before
    assert len(list((scene.folder / "input").glob("*.parquet"))) == inputs
    left = [path for path in scene.rehearsals_folder.rglob("*") if path.is_file() and "/state/" not in str(path)]
    assert left == []  # Spark itself may still upload state of a query that has ended


def test_nothing_is_left_of_a_member_that_ends(scene: Scene) -> None:
    declared = scene.declared(scene.table(), stateful=False)  # nothing that this test's JVM would upload later
    scene.feed(3)
    scene.lead(declared)
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    wait_until(lambda: list(scene.rehearsals_folder.glob("*/offsets/*")), PATIENCE, what="a rehearsal that runs")
    rehearsals.close(patience_s=PATIENCE.total_seconds())
    assert not scene.rehearsals_folder.exists()
    rehearsals.close(patience_s=0)  # nothing is there: no matter


def test_the_leader_after_a_rehearsal_is_right(scene: Scene) -> None:
    declared = scene.declared(scene.table())
    scene.feed(6)
    scene.lead(declared)
    scene.rehearse(declared)
    scene.feed(6)
    scene.lead(declared)
    rows = DeltaTable(str(scene.folder / "table")).to_pyarrow_table()
    assert rows.num_rows == len(set(rows["at"].to_pylist()))
    assert set(rows["count"].to_pylist()) == {1}
    done = [event.batch for event in scene.told if isinstance(event, BatchCommitted) and not event.repeated]
    assert len(done) == len(set(done))


def test_a_function_is_not_called(scene: Scene) -> None:
    calls: list[int] = []

    def function(rows: DataFrame, batch: Batch) -> None:
        calls.append(batch.id)
        rows.write.format("noop").mode("append").save()

    declared = scene.declared(Foreach(function, idempotent=True))
    scene.feed(2)
    scene.lead(declared)
    led = list(calls)
    scene.rehearse(declared)
    assert scene.of(StandbyWarm)
    assert calls == led


def test_what_cannot_be_read_is_told_and_the_member_stays(scene: Scene) -> None:
    declared = scene.declared(scene.table())
    scene.feed(2)
    scene.lead(declared)
    (scene.folder / "storage" / "runs").rename(scene.folder / "moved")
    scene.rehearse(declared)
    failed = [event for event in scene.told if isinstance(event, RehearsalFailed)]
    assert len(failed) == ROUNDS
    assert "is missing" in failed[0].why
    assert scene.of(StandbyWarm) == []


@pytest.mark.parametrize(
    ("seconds", "rehearsals"),
    [(0.5, ROUNDS + MORE_ROUNDS), (MORE_S / 4, 6), (MORE_S, ROUNDS), (10 * MORE_S, ROUNDS)],
)
def test_a_batch_that_takes_long_is_rehearsed_less_often(seconds: float, rehearsals: int) -> None:
    rounds, ended_s, done = Rounds(), 0.0, 0
    while rounds.left:
        ended_s += seconds
        rounds.done(ended_s)
        done += 1
    assert done == rehearsals


class HangingSink:
    """A sink that hangs in a rehearsal until it is released."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()

    def check(self, *, output_mode: str) -> None: ...

    def write(self, rows: Any, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        planned()
        rows.write.format("noop").mode("append").save()
        return Written(repeated=False)

    def rehearse(self, rows: Any, directory: str) -> None:
        self.entered.set()
        assert self.release.wait(PATIENCE.total_seconds())


def test_a_rehearsal_that_hangs_does_not_hold_up_the_leader(scene: Scene) -> None:
    sink = HangingSink()
    declared = scene.declared(sink)
    scene.feed(2)
    scene.lead(declared)
    committed = len(scene.of(BatchCommitted))
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    assert sink.entered.wait(PATIENCE.total_seconds())
    try:
        rehearsals.abandon()
        scene.feed(1)
        scene.lead(declared)
        assert len(scene.of(BatchCommitted)) > committed
        assert not sink.release.is_set()
    finally:
        sink.release.set()
    rehearsals.join(timeout_s=PATIENCE.total_seconds())
    assert scene.of(StandbyWarm) == scene.of(RehearsalFailed) == []


def test_a_member_that_leads_at_once_rehearses_nothing(scene: Scene) -> None:
    sink = HangingSink()
    declared = scene.declared(sink)
    scene.feed(1)
    scene.lead(declared)
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    rehearsals.abandon()
    rehearsals.join(timeout_s=PATIENCE.total_seconds())
    assert not sink.entered.is_set()


def test_a_standby_waits_for_the_first_batch(scene: Scene) -> None:
    declared = scene.declared(scene.table())
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    scene.feed(1)
    scene.lead(declared)
    wait_until(lambda: scene.of(StandbyWarm), PATIENCE, what="a warm standby")
    rehearsals.join(timeout_s=PATIENCE.total_seconds())
