"""A leader that never learns that it was replaced, with the fence and without: the fence alone is enough, and the
check can fail.

The sink is the common "idempotent" one: each batch overwrites the folder with its number.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.cluster import Cluster
from tests.crash.truth import Verdict


def _zombie_beside_its_successor(folder: Path, *, unfenced: bool) -> tuple[Verdict, int, int]:
    """Returns the verdict, the zombie's batches after it was woken, and its refused writes."""
    with Cluster(folder, streams=("files",), ttl="2s", feed_every_s=0.2) as cluster:
        zombie = cluster.start("zombie", blindfold=True, unfenced=unfenced)
        zombie.wait_for("MemberReady", timeout_s=90)
        cluster.feeder.start()
        cluster.wait_for_batches(after_epoch=0, count=3, seconds=60)
        healthy = cluster.start("healthy")
        healthy.wait_for("MemberReady", timeout_s=90)

        cluster.pause_file.touch()
        cluster.wait(lambda: not cluster.pause_file.exists(), seconds=30, what="the pause")
        epoch = cluster.epoch()
        cluster.wait_for_batches(after_epoch=epoch, count=3, seconds=60)
        before = len(zombie.events("BatchCommitted"))
        zombie.wake()
        if unfenced:
            cluster.wait(
                lambda: len(zombie.events("BatchCommitted")) > before + 2, seconds=60, what="batches of the zombie"
            )
        else:
            cluster.wait(lambda: zombie.events("WriteRefused"), seconds=60, what="the refusal of the zombie")
        cluster.settle(seconds=5 if unfenced else 60)
        return (
            cluster.verdict("files"),
            len(zombie.events("BatchCommitted")) - before,
            len(zombie.events("WriteRefused")),
        )


@pytest.mark.timeout(300)
def test_with_the_fence_a_blindfolded_zombie_changes_nothing(tmp_path: Path) -> None:
    verdict, zombie_batches, refused = _zombie_beside_its_successor(tmp_path, unfenced=False)
    assert verdict.right, verdict
    assert zombie_batches == 0
    assert refused >= 1


@pytest.mark.timeout(300)
def test_without_the_fence_the_check_reports_it(tmp_path: Path) -> None:
    verdict, zombie_batches, _ = _zombie_beside_its_successor(tmp_path, unfenced=True)
    assert zombie_batches > 0
    assert verdict.lost or verdict.surplus
