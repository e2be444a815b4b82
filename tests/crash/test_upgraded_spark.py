"""A leader with an older release of Spark dies, and its standby has a newer one: the state goes on (I1-I3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenure.spark.releases import before
from tests.crash.cluster import Cluster
from tests.two_sparks import path_to_installed

STREAMS = ("passed", "windows", "joined", "unique", *(() if before("4.0") else ("counts",)))
"""Before 4.0 Spark has no operator with the state of `counts`."""


@pytest.mark.timeout(1800)
def test_a_successor_with_a_newer_spark_goes_on_with_the_state(tmp_path: Path) -> None:
    newer = {"PYTHONPATH": os.pathsep.join(path_to_installed())}
    with Cluster(tmp_path, streams=STREAMS, ttl="5s", feed_every_s=1) as cluster:
        older = cluster.start("anna")
        cluster.feeder.start()
        cluster.wait_for_batches(after_epoch=0, count=3)
        cluster.start("ben", variables=newer)
        cluster.pair()
        epoch = cluster.epoch()
        older.kill()
        cluster.wait_for_batches(after_epoch=epoch, count=3)
        cluster.settle()
        assert [str(cluster.verdict(name)) for name in STREAMS if not cluster.verdict(name).right] == []
