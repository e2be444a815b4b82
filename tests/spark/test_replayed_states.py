"""A state that is in changelogs only: a standby makes the snapshot that its leader has not made yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.clock import SystemClock
from tenure.rundirs.seeding import seed_mirrored
from tenure.rundirs.state_copy import copy_ahead
from tenure.spark.releases import before
from tenure.spark.replayed_states import ReplayedStates
from tenure.takeover import snapshots as snapshots_module
from tenure.takeover.snapshots import Snapshots
from tests.spark.changelogs import (
    NONE,
    Query,
    mirror_of,
    point_of,
    replays,
    takeovers_replay_nothing,
    with_changelogs,
    with_snapshots,
)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(before("4.0"), reason="before 4.0, no state file has an id: a standby makes no snapshot"),
]


@pytest.fixture(scope="module")
def changing(spark: SparkSession) -> Iterator[SparkSession]:
    with with_changelogs(spark) as session:
        yield session


@pytest.fixture
def made(changing: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Snapshots:
    monkeypatch.setattr(snapshots_module, "LEAST_BYTES", 1)
    return Snapshots(ReplayedStates(changing), clock=SystemClock())


def test_a_takeover_replays_nothing_that_a_snapshot_has(
    changing: SparkSession, made: Snapshots, tmp_path: Path
) -> None:
    takeovers_replay_nothing(Query(changing, tmp_path), made, str(tmp_path))


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
    known = list(query.keys)
    assert replays(query.run(ahead)) in NONE
    assert query.keys == [*known, 4]


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
    known = list(query.keys)
    assert replays(query.run(ahead)) in NONE
    assert query.keys == [*known, 8]
