"""A state that is in changelogs only: a standby makes the snapshot that its leader has not made yet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tenure.clock import SystemClock
from tenure.rundirs.run_directory import RunDirectory, latest_planned, read_offsets
from tenure.rundirs.seeding import seed_mirrored
from tenure.rundirs.state_copy import Mirrored, SeedPoint, copy_ahead
from tenure.spark.own_classes import use_own_classes
from tenure.spark.replayed_states import ReplayedStates
from tenure.takeover import snapshots as snapshots_module
from tenure.takeover.snapshots import Snapshots, due
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.spark

SETTINGS = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000",  # the leader makes none
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
REPLAYED = "rocksdbNumReplayChangelogFiles"


@pytest.fixture(scope="module")
def changing(spark: SparkSession) -> Iterator[SparkSession]:
    use_own_classes(spark)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name in SETTINGS:
        spark.conf.unset(name)


class Query:
    """A query that drops duplicates, and the keys that it has passed on."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._input = folder / "input"
        self._input.mkdir()
        self._files = 0
        self.keys: list[int] = []

    def feed(self, *keys: int) -> None:
        hidden = self._input / f".{self._files:03d}.json"
        hidden.write_text("".join(json.dumps({"key": key}) + "\n" for key in keys))
        os.utime(hidden, (1_767_225_600 + self._files,) * 2)
        hidden.rename(self._input / f"{self._files:03d}.json")
        self._files += 1

    def run(self, directory: str) -> Any:
        """All files that are new there, a batch each. Return Spark's report of the first batch."""

        def take(rows: DataFrame, batch: int) -> None:
            self.keys += [row.key for row in rows.collect()]

        files = self._spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).json(str(self._input))
        query = files.dropDuplicates(["key"]).writeStream.foreachBatch(take).option("checkpointLocation", directory)
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        return running.recentProgress[0]


def point_of(directory: str) -> SeedPoint:
    batch = latest_planned(directory)
    assert batch is not None
    return SeedPoint(batch, read_offsets(directory, batch), committed=True)


def mirror_of(source: str, target: str) -> Mirrored:
    mirrored = Mirrored(RunDirectory(source), RunDirectory(target))
    copy_ahead(mirrored, point_of(source), stop=lambda: False, on_missing=lambda change: None)
    return mirrored


def with_snapshots(mirrored: Mirrored, made: Snapshots) -> None:
    """All snapshots that are due are made."""

    def none_is_due() -> bool:
        failed = made.step(mirrored)
        assert failed is None, failed
        return due(mirrored) is None

    wait_until(none_is_due, what="the snapshots")


@pytest.fixture
def made(changing: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Snapshots:
    monkeypatch.setattr(snapshots_module, "LEAST_BYTES", 1)
    return Snapshots(ReplayedStates(changing), clock=SystemClock())


def test_a_takeover_replays_nothing_that_a_snapshot_has(
    changing: SparkSession, made: Snapshots, tmp_path: Path
) -> None:
    query = Query(changing, tmp_path)
    first, plain, ahead, third = (f"{tmp_path}/{name}" for name in ("first", "plain", "ahead", "third"))
    for keys in ((1, 2, 3), (3, 4), (4, 5, 6)):
        query.feed(*keys)
    query.run(first)
    mirrored = mirror_of(first, ahead)
    with_snapshots(mirrored, made)
    assert sorted(mirrored.snapshots) == ["state/0/0", "state/0/1"]
    assert mirrored.table_sizes, "a JVM may fetch them ahead"
    seed_mirrored(mirrored, point_of(first))
    seed_mirrored(mirror_of(first, plain), point_of(first))

    query.feed(1, 6, 7)
    before = list(query.keys)
    replayed = {directory: replays(query.run(directory)) for directory in (plain, ahead)}
    assert replayed[plain] > 0
    assert replayed[ahead] == 0
    assert query.keys == [*before, 7, 7], "either knows all keys"

    # The next standby finds the snapshot in the leader's run directory, and needs nothing below it.
    query.feed(2, 8)
    mirrored = mirror_of(ahead, third)
    assert all(path.endswith(".zip") for path in mirrored.tables)
    assert len(mirrored.tables) == 2
    seed_mirrored(mirrored, point_of(ahead))
    query.run(third)
    assert query.keys == [*before, 7, 7, 8]


def test_the_leaders_own_snapshot_of_the_same_version_takes_the_place_of_ours(
    changing: SparkSession, made: Snapshots, tmp_path: Path
) -> None:
    """The leader uploads it when it pleases, under the same name, with other tables. Checksums of ours stood beside it:
    Hadoop refused the leader's file."""
    query = Query(changing, tmp_path)
    first, ahead = f"{tmp_path}/first", f"{tmp_path}/ahead"
    query.feed(1, 2, 3)
    query.run(first)
    mirrored = mirror_of(first, ahead)
    replays_before = dict(mirrored.replays)
    with_snapshots(mirrored, made)
    names = {folder: path.rpartition("/")[2] for folder, path in mirrored.snapshots.items()}
    for folder, replay in replays_before.items():  # as the leader's maintenance does
        theirs = ReplayedStates(changing).replay(f"{first}/{folder}", version=replay.version, unique=replay.unique)
        theirs.put()
        theirs.close()
    seed_mirrored(mirrored, point_of(first))
    for folder, name in names.items():
        assert Path(ahead, folder, name).read_bytes() == Path(first, folder, name).read_bytes()
    query.feed(1, 3, 4)
    before = list(query.keys)
    assert replays(query.run(ahead)) == 0
    assert query.keys == [*before, 4]


def test_a_snapshot_grows_from_the_one_before_and_the_older_goes(
    changing: SparkSession, made: Snapshots, tmp_path: Path
) -> None:
    query = Query(changing, tmp_path)
    first, ahead = f"{tmp_path}/first", f"{tmp_path}/ahead"
    query.feed(1, 2, 3)
    query.run(first)
    mirrored = mirror_of(first, ahead)
    with_snapshots(mirrored, made)
    older = dict(mirrored.snapshots)
    query.feed(4, 5, 6, 7)
    query.run(first)
    copy_ahead(mirrored, point_of(first), stop=lambda: False, on_missing=lambda change: None)
    mirrored.replays = {
        folder: replay.__class__(replay.version, replay.unique, replay.changes, 0)  # as of small tables
        for folder, replay in mirrored.replays.items()
    }
    with_snapshots(mirrored, made)
    for folder, path in older.items():
        assert mirrored.snapshots[folder] != path
        assert not Path(ahead, path).exists()
    seed_mirrored(mirrored, point_of(first))
    query.feed(1, 7, 8)
    before = list(query.keys)
    assert replays(query.run(ahead)) == 0
    assert query.keys == [*before, 8]


def replays(progress: Any) -> int:
    return int(progress.stateOperators[0].customMetrics[REPLAYED])
