"""State, staged files and Delta tables in S3, written by the executors of a standalone cluster, which have no variables
of AWS: the leader's host dies with its executors, and every row is once in the output (I1-I3)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.crash.cluster import Cluster
from tests.draw import EXECUTORS_ON_S3, only_if_drawn
from tests.kit.servers import BUCKET, SeaweedFs, SparkStandalone, installed
from tests.kit.servers.connectors import ivy_folder
from tests.s3 import reached

STREAMS = ("passed", "windows")


@only_if_drawn(EXECUTORS_ON_S3)
@pytest.mark.timeout(1800)
def test_executors_write_to_s3_and_the_leader_dies_with_them(
    seaweedfs: SeaweedFs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed():
        conf = {"spark.jars.ivy": str(ivy_folder()), "spark.pyspark.python": sys.executable, "spark.cores.max": "2"}
    with SparkStandalone(tmp_path, workers=2) as spark, reached(seaweedfs.url, monkeypatch):
        flags = ["--master", spark.url, "--connector", "s3", "--submit", "--executor-memory 512m"]
        flags += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        root = f"s3://{BUCKET}/{os.urandom(6).hex()}"
        with Cluster(tmp_path, streams=STREAMS, ttl="5s", feed_every_s=1, root=root) as cluster:
            cluster.feeder.start()
            for name in ("anna", "ben"):
                cluster.start(name, flags=flags)
            leader, _ = cluster.pair()
            cluster.wait_for_batches(after_epoch=0, count=3)
            written = [app for app, name in spark.applications().items() if name.endswith(f"-{leader.name}")]
            assert written, "the leader runs on the cluster"
            assert spark.executors(written[0]), "the leader's executors"
            epoch = cluster.epoch()
            leader.kill()
            cluster.wait_for_batches(after_epoch=epoch, count=3)
            cluster.settle()
            assert [str(cluster.verdict(name)) for name in STREAMS if not cluster.verdict(name).right] == []
