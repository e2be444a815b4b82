"""State and output in a real HDFS: each kind of death of the leader, and every row is once in the output (I1-I3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.cluster import Cluster
from tests.crash.deaths import each_kind_of_death
from tests.draw import ON_HDFS, only_if_drawn
from tests.kit.servers import Hdfs

STREAMS = ("passed", "windows")


@only_if_drawn(ON_HDFS)
@pytest.mark.timeout(1800)
def test_every_row_is_once_in_the_output_over_each_kind_of_death(hdfs: Hdfs, tmp_path: Path) -> None:
    with Cluster(tmp_path, streams=STREAMS, ttl="5s", feed_every_s=1, root=f"{hdfs.url}/tenure") as cluster:
        each_kind_of_death(cluster, cluster.start)
        cluster.settle()
        assert [str(cluster.verdict(name)) for name in STREAMS if not cluster.verdict(name).right] == []
