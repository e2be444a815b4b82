"""A standby's rehearsals beside a real leader's output: they warm up, and nothing else changes anywhere."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.session import SessionKeeper
from tenure.events import BatchCommitted, Events, RehearsalFailed, StandbyWarm
from tenure.retry import fixed_delay
from tenure.rundirs.seeding import seed
from tenure.sinks import ForeachBatch
from tenure.sinks.sink import Batch, Written
from tenure.takeover import rehearsal as rehearsal_module
from tenure.takeover.rehearsal import ROUNDS
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S, wait_until
from tests.spark.rehearsing import SCOPE, Scene


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
    wait_until(lambda: list(scene.rehearsals_folder.glob("*/offsets/*")), what="a rehearsal that runs")
    rehearsals.close(patience_s=NEVER_S)
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

    declared = scene.declared(ForeachBatch(function, idempotent=True))
    scene.feed(2)
    scene.lead(declared)
    led = list(calls)
    scene.rehearse(declared)
    assert scene.of(StandbyWarm)
    assert calls == led


def test_what_cannot_be_read_is_told_once_and_tried_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = scene.declared(scene.table(), stateful=False)  # nothing that Spark would go on uploading to where it was
    scene.feed(2)
    scene.lead(declared)
    runs = (scene.folder / "storage" / "runs").rename(scene.folder / "moved")
    tried: list[str] = []

    def noted(*args: Any, **named: Any) -> object:
        tried.append(args[1])
        return seed(*args, **named)

    monkeypatch.setattr(rehearsal_module, "seed", noted)
    monkeypatch.setattr(rehearsal_module, "_AGAIN", fixed_delay(delay=timedelta(milliseconds=10)))
    monkeypatch.setattr(rehearsal_module, "_LOOK_S", 0.05)
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    wait_until(lambda: len(tried) > ROUNDS, what="more attempts than rounds")
    (failed,) = scene.of(RehearsalFailed)
    assert isinstance(failed, RehearsalFailed)
    assert "is missing" in failed.why
    assert rehearsals.trouble == f"query 'hours' was not rehearsed: {failed.why}"
    assert scene.of(StandbyWarm) == []
    runs.rename(scene.folder / "storage" / "runs")
    wait_until(lambda: scene.of(StandbyWarm), what="a warm standby")
    assert rehearsals.trouble is None
    rehearsals.join(timeout_s=NEVER_S)


class TidyingSink:
    """A sink in whose rehearsals, or batches, all files of the source go between their listing and their reading."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.leads_from = folder, math.inf
        self.directories: list[str] = []
        self.settings: list[Mapping[str, str | None]] = []

    def check(self, *, output_mode: str) -> None: ...

    def write(self, rows: Any, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        planned()
        self._read(rows, tidy=batch.id >= self.leads_from)
        return Written(repeated=False)

    def rehearse(self, rows: Any, directory: str) -> None:
        self.directories.append(directory)
        self._read(rows, tidy=True)

    def _read(self, rows: Any, *, tidy: bool) -> None:
        self.settings.append({name: rows.sparkSession.conf.get(name) for name in rehearsal_module.SETTINGS})
        for file in self.folder.glob("*.parquet") if tidy else []:
            file.unlink()
        rows.write.format("noop").mode("append").save()


def test_files_that_the_leader_removes_meanwhile_do_no_harm(scene: Scene) -> None:
    sink = TidyingSink(scene.folder / "input")
    declared = scene.declared(sink, stateful=False)
    scene.feed(3)
    scene.lead(declared)
    assert list(sink.folder.glob("*.parquet")), "the last batch's files are still there"
    scene.rehearse(declared)
    assert scene.of(RehearsalFailed) == []
    assert scene.of(StandbyWarm)
    urls = f"file://{scene.folder}/storage/rehearsals/ben/"
    assert [directory for directory in sink.directories if not directory.startswith(urls)] == []
    assert not list(sink.folder.glob("*.parquet"))
    led, rehearsed = sink.settings[:3], sink.settings[3:]
    assert all(settings == rehearsal_module.SETTINGS for settings in rehearsed)
    scene.feed(1)
    scene.lead(declared)
    assert sink.settings[-1] == led[0]
    assert led[0].items().isdisjoint(rehearsal_module.SETTINGS.items())


def test_a_leader_that_misses_a_file_of_its_source_fails_also_after_a_rehearsal(scene: Scene) -> None:
    sink = TidyingSink(scene.folder / "input")
    declared = scene.declared(sink, stateful=False)
    scene.feed(2)
    scene.lead(declared)
    scene.rehearse(declared)
    scene.feed(2)
    sink.leads_from = 2
    with pytest.raises(StreamingQueryException):
        scene.lead(declared)


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
        assert self.release.wait(NEVER_S)


def test_a_rehearsal_that_hangs_does_not_hold_up_the_leader(scene: Scene) -> None:
    sink = HangingSink()
    declared = scene.declared(sink)
    scene.feed(2)
    scene.lead(declared)
    committed = len(scene.of(BatchCommitted))
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    assert sink.entered.wait(NEVER_S)
    try:
        rehearsals.abandon()
        scene.feed(1)
        scene.lead(declared)
        assert len(scene.of(BatchCommitted)) > committed
        assert not sink.release.is_set()
    finally:
        sink.release.set()
    rehearsals.join(timeout_s=NEVER_S)
    assert scene.of(StandbyWarm) == scene.of(RehearsalFailed) == []


def test_a_member_that_leads_at_once_rehearses_nothing(scene: Scene) -> None:
    sink = HangingSink()
    declared = scene.declared(sink)
    scene.feed(1)
    scene.lead(declared)
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    rehearsals.abandon()
    rehearsals.join(timeout_s=NEVER_S)
    assert not sink.entered.is_set()


def test_a_standby_waits_for_the_first_batch(scene: Scene) -> None:
    declared = scene.declared(scene.table())
    rehearsals = scene.rehearsals(declared)
    rehearsals.start()
    scene.feed(1)
    scene.lead(declared)
    wait_until(lambda: scene.of(StandbyWarm), what="a warm standby")
    rehearsals.join(timeout_s=NEVER_S)
