"""A plain job over a topic is killed in mid-stream and adopted; two members go on, and the leader is killed; then the
queries are exported, and the plain job goes on. Every record counts once (I1-I3).

Meanwhile an exporter holds its lock while the leader is killed and its successor sweeps; and another exporter is killed
in the middle.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RunName
from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.records import Scope
from tenure.moves.plain_checkpoint import read_plain
from tests.crash.cluster import SCOPE, Cluster, Topic
from tests.draw import QUARTERS, only_if_drawn
from tests.kafka.exporters import export
from tests.kafka.moves import lead_no_more, plain_job, tenure, versions
from tests.kit.servers import KafkaServer, installed
from tests.kit.servers.connectors import ivy_folder
from tests.kit.waiting import NEVER_S

pytestmark = only_if_drawn(QUARTERS[1])


STREAMS = ("passed", "windows", "unique")


def locks(cluster: Cluster) -> int:
    """How many locks there are on checkpoints."""
    with cluster.opened() as store:
        return sum(record.session is not None for record in store.list(Scope(SCOPE), CHECKPOINTS).records)


def export_while_the_leader_is_killed(cluster: Cluster, directory: Path) -> tuple[Checkpoint, int]:
    """Export a query with state. Return its checkpoint, and the epoch of the leader that was killed."""
    leader, standby = cluster.pair()
    epoch = cluster.epoch()
    locked, swept = threading.Event(), threading.Event()

    def in_the_middle() -> None:
        locked.set()
        assert swept.wait(NEVER_S)

    with ThreadPoolExecutor() as pool:
        where = (cluster.store_url, cluster.storage, "windows", f"file://{directory}")
        exported = pool.submit(export, *where, in_the_middle=in_the_middle)
        assert locked.wait(NEVER_S)
        leader.kill()
        cluster.wait_for_batches(after_epoch=epoch, count=3)
        cluster.wait(lambda: standby.events("Swept", epoch=cluster.epoch()), what="the successor's sweep")
        swept.set()
        return exported.result(timeout=NEVER_S), epoch


@pytest.mark.timeout(1800)
def test_a_job_that_is_adopted_and_exported_counts_each_record_once(kafka: KafkaServer, tmp_path: Path) -> None:
    with installed():
        kafka.make_topic("moved", partitions=2)
        flags = ("--connector", "kafka", "--conf", f"spark.jars.ivy={ivy_folder()}")
    topic = Topic(
        kafka,
        "moved",
        2,
        (*flags, "--param", "topic=moved", "--param", f"brokers={kafka.address}"),
        {"TENURE_DRIVER_SILENCE": "60s"},
    )
    with Cluster(tmp_path, streams=STREAMS, ttl="5s", feed_every_s=0.7, topic=topic) as cluster:
        storage = ("--storage", cluster.storage)
        cluster.feeder.start()
        with plain_job(cluster, topic, ivy=ivy_folder(), checkpoints=tmp_path / "before") as wait_for:
            wait_for(4)
        for stream in STREAMS:
            tenure(cluster, "adopt", str(tmp_path / "before" / stream), "--query", stream, "--apply", *storage)

        cluster.start("anna")
        cluster.start("ben")
        cluster.wait_for_batches(after_epoch=0, count=3)
        exported, epoch = export_while_the_leader_is_killed(cluster, tmp_path / "meanwhile")
        run = RunName.parse(exported.run_directory)
        assert run is not None
        assert run.epoch == epoch
        assert read_plain(f"file://{tmp_path}/meanwhile").batch == exported.batch

        words = (cluster.store_url, cluster.storage, "windows", f"file://{tmp_path}/killed")
        killed = subprocess.run([sys.executable, "-m", "tests.kafka.exporters", *words], check=False)
        assert killed.returncode == -signal.SIGKILL
        cluster.wait(lambda: not locks(cluster), what="the end of the lock")
        lead_no_more(cluster)
        for stream in STREAMS:
            tenure(cluster, "export", str(tmp_path / "after" / stream), "--query", stream, *storage)
        for member in cluster.members:
            member.kill()

        before = versions(cluster)
        with plain_job(cluster, topic, ivy=ivy_folder(), checkpoints=tmp_path / "after") as wait_for:
            wait_for(before + 3)
            cluster.settle()
        assert [str(cluster.verdict(name)) for name in STREAMS if not cluster.verdict(name).right] == []
