"""A query whose state is in changelogs only, and a standby that makes the snapshot that its leader has not made yet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory, latest_planned, read_offsets
from tenure.rundirs.seeding import seed_mirrored
from tenure.rundirs.state_copy import SeedPoint, copy_ahead
from tenure.spark.own_classes import use_own_classes
from tenure.spark.releases import before
from tenure.takeover.snapshots import Snapshots, due
from tests.kit.waiting import wait_until

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000",  # the leader makes none
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
REPLAYED = "rocksdbNumReplayChangelogFiles"
NONE = (0, None)
"""What `replays` returns where no changelog was replayed, or where that is not known."""


@contextmanager
def with_changelogs(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, whose queries make no snapshot of their state; afterwards its settings are as before."""
    use_own_classes(spark)
    was = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value_before in was.items():
        if value_before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value_before)


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


def takeovers_replay_nothing(query: Query, made: Snapshots, root: str) -> None:
    """What a snapshot of a standby has is replayed by no takeover. `root`: the folder of the run directories."""
    first, plain, ahead, third = (f"{root}/{name}" for name in ("first", "plain", "ahead", "third"))
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
    known = list(query.keys)
    replayed = {directory: replays(query.run(directory)) for directory in (plain, ahead)}
    assert replayed[plain] != 0
    assert replayed[ahead] in NONE
    assert query.keys == [*known, 7, 7], "either knows all keys"

    # The next standby finds the snapshot in the leader's run directory, and needs nothing below it.
    query.feed(2, 8)
    mirrored = mirror_of(ahead, third)
    assert all(path.endswith(".zip") for path in mirrored.tables)
    assert len(mirrored.tables) == 2
    seed_mirrored(mirrored, point_of(ahead))
    query.run(third)
    assert query.keys == [*known, 7, 7, 8]


def replays(progress: Any) -> int | None:
    """How many changelogs the first batch of a run has replayed; None: Spark counts them since 4.1."""
    counted = progress.stateOperators[0].customMetrics.get(REPLAYED)
    assert counted is not None or before("4.1")
    return None if counted is None else int(counted)
