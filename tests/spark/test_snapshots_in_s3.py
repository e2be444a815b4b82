"""A state in S3 that is in changelogs only: the snapshot of a standby serves the takeover as on a disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.clock import SystemClock
from tenure.spark.hadoop import use_fitting_files
from tenure.spark.releases import before
from tenure.spark.replayed_states import ReplayedStates
from tenure.storage.reach import reach
from tenure.takeover import snapshots
from tenure.takeover.snapshots import Snapshots
from tests.draw import QUARTERS, only_if_drawn
from tests.jvm import SharedJvm, Start
from tests.kit.servers import BUCKET
from tests.s3 import reached
from tests.spark.changelogs import Query, takeovers_replay_nothing, with_changelogs
from tests.support.far_gate import FarGate, Order

pytestmark = [pytest.mark.spark, only_if_drawn(QUARTERS[3])]


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm, start_in_s3: Start) -> Iterator[SparkSession]:
    with jvm.lent(start_in_s3) as session, with_changelogs(session):
        yield session


@pytest.mark.skipif(before("4.0"), reason="before 4.0, no state file has an id: a standby makes no snapshot")
def test_a_takeover_replays_nothing_that_a_snapshot_has(
    spark: SparkSession, gate: FarGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setattr(snapshots, "LEAST_BYTES", 1)
    gate.obey(Order())
    with reached(gate.url, monkeypatch):
        root = f"s3a://{BUCKET}/{os.urandom(6).hex()}"
        use_fitting_files(spark, reach(root))
        made = Snapshots(ReplayedStates(spark), clock=SystemClock())
        takeovers_replay_nothing(Query(spark, tmp_path), made, root)
