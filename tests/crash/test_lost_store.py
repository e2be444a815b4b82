"""The store of a running pipeline is lost in mid-stream. Members refuse the storage with an empty store, until an
operator lets the scope go on from its run directories; then every row is once in the output (I1-I3, I10)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.crash.cluster import SCOPE, Cluster
from tests.draw import LOST_STORE, only_if_drawn
from tests.kit.members import MAIN
from tests.stores import ONE_SERVER, new_store

STREAMS = ("passed", "windows", "counts")
MISMATCH = 11


@only_if_drawn(LOST_STORE)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ONE_SERVER)
def test_a_scope_whose_store_was_lost_goes_on(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    with Cluster(tmp_path, streams=STREAMS, store=new_store(request, kind, tmp_path)) as cluster:
        cluster.start("anna")
        cluster.feeder.start()
        cluster.wait_for_batches(after_epoch=0, count=3)
        cluster.start("ben")
        cluster.pair()
        epoch = cluster.epoch()
        for member in cluster.members:
            member.kill()

        (tmp_path / "new").mkdir()
        cluster.store_url = new_store(request, kind, tmp_path / "new")
        refused = cluster.start("carl")
        cluster.wait(lambda: not refused.running, what="the refusal")
        assert refused.exit_code == MISMATCH, refused.output()

        words = ["--scope", SCOPE, "--store", cluster.store_url, "--storage", cluster.storage]
        adopted = subprocess.run(
            [*MAIN, "adopt", "--lost-store", "--apply", *words], capture_output=True, text=True, check=False
        )
        assert adopted.returncode == 0, adopted.stderr

        for name in ("dora", "emil"):
            cluster.start(name)
        cluster.wait_for_batches(after_epoch=epoch, count=3)
        leader, _ = cluster.pair()
        newer = cluster.epoch()
        assert newer > epoch
        leader.kill()
        cluster.wait_for_batches(after_epoch=newer, count=2)
        cluster.settle()
        assert [str(cluster.verdict(name)) for name in STREAMS if not cluster.verdict(name).right] == []
