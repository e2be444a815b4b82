"""A plain job of Spark 3.5 that writes with delta-spark is adopted, fails over, and goes to Spark 4.1 by a rolling
restart. Then its queries are exported, and plain Spark 4.1 goes on. Every record counts once (I1-I3)."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.crash.cluster import Cluster, Topic
from tests.kafka.moves import BY_SPARK, Release, lead_no_more, plain_job, tenure, versions
from tests.kit.members import MemberProcess
from tests.kit.servers import KafkaServer, installed

OLD, NEW = Release("3.5"), Release("4.1")
STREAMS = ("passed", "windows", "unique")

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not (OLD.is_there and NEW.is_there),
        reason="sh scripts/setup.sh spark 3.5; sh scripts/setup.sh connectors 3.5; the same with 4.1",
    ),
]


PROVIDER = "spark.sql.streaming.stateStore.providerClass=org.apache.spark.sql.execution.streaming.state"


def job(
    cluster: Cluster, topic: Topic, release: Release, checkpoints: Path, *settings: str
) -> AbstractContextManager[Callable[[int], None]]:
    there = {"ivy": release.ivy, "checkpoints": checkpoints}
    return plain_job(cluster, topic, *BY_SPARK, *settings, **there, variables=release.variables)


def start(cluster: Cluster, name: str, release: Release) -> MemberProcess:
    flags = ("--connector", "kafka", "--conf", f"spark.jars.ivy={release.ivy}")
    return cluster.start(name, flags=flags, variables=release.variables)


@pytest.mark.parametrize("store", ["RocksDB", "HDFSBacked"])
def test_each_record_counts_once_from_plain_spark_3_to_plain_spark_4(
    kafka: KafkaServer, tmp_path: Path, store: str
) -> None:
    with installed():
        kafka.make_topic(f"releases-{store}", partitions=2)
    params = ("--param", f"topic=releases-{store}", "--param", f"brokers={kafka.address}")
    topic = Topic(kafka, f"releases-{store}", 2, params, {"TENURE_DRIVER_SILENCE": "60s"})
    with Cluster(tmp_path, streams=STREAMS, ttl="5s", feed_every_s=0.7, topic=topic) as cluster:
        storage = ("--storage", cluster.storage)
        cluster.feeder.start()
        with job(cluster, topic, OLD, tmp_path / "before", f"{PROVIDER}.{store}StateStoreProvider") as wait_for:
            wait_for(4)
        for stream in STREAMS:
            before = str(tmp_path / "before" / stream)
            tenure(cluster, "adopt", before, "--query", stream, "--apply", *storage, variables=OLD.variables)

        anna = start(cluster, "anna", OLD)
        cluster.wait_for_batches(after_epoch=0, count=3)
        ben = start(cluster, "ben", OLD)
        cluster.pair()
        epoch = cluster.epoch()
        anna.kill()
        cluster.wait_for_batches(after_epoch=epoch, count=3)

        carl = start(cluster, "carl", NEW)
        cluster.pair()
        epoch = cluster.epoch()
        ben.signal(signal.SIGTERM)
        cluster.wait_for_batches(after_epoch=epoch, count=3)
        start(cluster, "dora", NEW)
        cluster.pair()
        epoch = cluster.epoch()
        carl.kill()
        cluster.wait_for_batches(after_epoch=epoch, count=3)

        lead_no_more(cluster)
        for stream in STREAMS:
            after = str(tmp_path / "after" / stream)
            tenure(cluster, "export", after, "--query", stream, *storage, variables=NEW.variables)
        for member in cluster.members:
            member.kill()

        commits = versions(cluster)
        with job(cluster, topic, NEW, tmp_path / "after") as wait_for:
            wait_for(commits + 3)
            cluster.settle()
        assert [str(cluster.verdict(name)) for name in STREAMS if not cluster.verdict(name).right] == []
