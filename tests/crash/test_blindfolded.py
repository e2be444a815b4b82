"""A leader that never learns that it was replaced, with the fence and without: the fence alone is enough, and the
check can fail.

The sink is the common "idempotent" one: each batch overwrites the folder with its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.cluster import Cluster
from tests.crash.truth import Verdict
from tests.draw import QUARTERS, only_if_drawn
from tests.stores import long_on_servers, new_store

pytestmark = only_if_drawn(QUARTERS[1])


@dataclass(frozen=True)
class Story:
    """The output before the zombie was woken and after, its batches after it, and its refused writes."""

    before: Verdict
    after: Verdict
    zombie_batches: int
    refused: int


def _zombie_beside_its_successor(folder: Path, *, unfenced: bool, store: str | None = None) -> Story:
    with Cluster(folder, streams=("files",), ttl="2s", feed_every_s=0.2, store=store) as cluster:
        zombie = cluster.start("zombie", blindfold=True, unfenced=unfenced)
        zombie.wait_for("MemberReady")
        cluster.feeder.start()
        cluster.wait_for_batches(after_epoch=0, count=3)
        healthy = cluster.start("healthy")
        healthy.wait_for("MemberReady")

        cluster.pause_file.touch()
        cluster.wait(lambda: not cluster.pause_file.exists(), what="the pause")
        epoch = cluster.epoch()
        # More batches than the zombie can write again: it has one in its hand, and one with all the rest.
        cluster.wait_for_batches(after_epoch=epoch, count=6)
        cluster.settle()
        before = cluster.verdict("files")
        batches = len(zombie.events("BatchCommitted"))
        zombie.wake()
        cluster.wait(
            lambda: zombie.events("WriteRefused") or len(zombie.events("BatchCommitted")) > batches,
            what="the fate of the zombie's write",
        )
        if unfenced:
            # The batch that it had in its hand may be the same one again; the next has all the rest, once more.
            cluster.wait(lambda: len(zombie.events("BatchCommitted")) >= batches + 2, what="a second late batch")
        zombie.kill()  # nobody overwrites a folder while it is read
        return Story(
            before=before,
            after=cluster.verdict("files"),
            zombie_batches=len(zombie.events("BatchCommitted")) - batches,
            refused=len(zombie.events("WriteRefused")),
        )


@pytest.mark.parametrize("store", long_on_servers)
def test_with_the_fence_a_blindfolded_zombie_changes_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    story = _zombie_beside_its_successor(tmp_path, unfenced=False, store=new_store(request, store, tmp_path))
    assert story.before.right, story.before
    assert story.after.right, story.after
    assert story.zombie_batches == 0
    assert story.refused >= 1


@pytest.mark.long
def test_without_the_fence_the_check_reports_it(tmp_path: Path) -> None:
    story = _zombie_beside_its_successor(tmp_path, unfenced=True)
    assert story.before.right, story.before
    assert story.zombie_batches > 0
    assert story.after.lost or story.after.surplus
