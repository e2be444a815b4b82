"""A leader that is paused between deciding and sending, again and again: it wakes too late, and disturbs nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.cluster import Cluster
from tests.stores import long_on_servers, new_store

STREAM = "windows"


def _pause_and_wake(folder: Path, times: int, *, store: str | None = None) -> None:
    with Cluster(folder, streams=(STREAM,), ttl="2s", feed_every_s=0.3, store=store) as cluster:
        cluster.feeder.start()
        cluster.start("anna")
        cluster.start("ben")
        cluster.wait_for_batches(after_epoch=0, count=2)
        for number in range(1, times + 1):
            paused, successor = cluster.pair()
            refused, epoch = len(paused.events("WriteRefused")), cluster.epoch()
            cluster.pause_file.touch()
            cluster.wait(lambda: not cluster.pause_file.exists(), what="the pause")
            cluster.wait_for_batches(after_epoch=epoch, count=2)
            starts = len(successor.events("QueryStarted"))
            before = len(paused.events("BatchCommitted"))  # also of a batch that was on its way to the pause
            paused.wake()
            cluster.wait(
                lambda: len(paused.events("WriteRefused")) > refused,  # noqa: B023 - called in this very round
                what=f"the refusal of pause {number}",
            )
            batches = len(cluster.batches(STREAM, epoch=epoch + 1))
            cluster.wait(
                lambda: len(cluster.batches(STREAM, epoch=epoch + 1)) >= batches + 2,  # noqa: B023 - as above
                what="more batches of the successor",
            )
            assert len(paused.events("BatchCommitted")) == before, "a late write"
            assert len(successor.events("QueryStarted")) == starts, "the successor was started again"
            assert cluster.epoch() == epoch + 1
        cluster.settle()
        assert cluster.verdict(STREAM).right, cluster.verdict(STREAM)


@pytest.mark.parametrize("store", long_on_servers)
def test_a_leader_that_wakes_too_late_disturbs_nobody(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    _pause_and_wake(tmp_path, 2, store=new_store(request, store, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_fifty_times_of_fifty(tmp_path: Path) -> None:
    _pause_and_wake(tmp_path, 50)
