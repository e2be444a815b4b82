"""What dead and paused leaders left is swept while batches flow, and nothing that anybody needs goes with it (I8)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tenure.cleanup.plan import BLOBS, REHEARSALS, RUNS, STAGED
from tenure.rundirs.run_directory import read_query_id
from tenure.sinks.staging.stage import StagingPath
from tests.crash.cluster import SCOPE, Cluster
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import MemberProcess
from tests.stores import long_on_servers, new_store

pytestmark = only_if_drawn(QUARTERS[2])


STREAM = "joined"
STEPS = tuple(f"{when} {row}" for row in (STAGED, RUNS, REHEARSALS, BLOBS) for when in ("before", "after"))
UID = "0123456789ab"


def storage(cluster: Cluster) -> Path:
    return cluster.folder / "storage" / SCOPE


def table(cluster: Cluster) -> Path:
    return cluster.folder / "output" / STREAM


def named(cluster: Cluster) -> set[str]:
    """The files that the table names."""
    return set(DeltaTable(str(table(cluster))).file_uris())


def staged(cluster: Cluster, *, before_epoch: int) -> list[str]:
    """The attempts of earlier epochs that the table does not name."""
    kept = {path.attempt for path in map(StagingPath.parse, _below(cluster, named(cluster))) if path is not None}
    folders = [str(path.relative_to(table(cluster))) for path in table(cluster).glob("tenure-*/*/*/e*/b*/*")]
    found = [path for path in map(StagingPath.parse, folders) if path is not None]
    return [str(path) for path in found if path.epoch < before_epoch and path.attempt not in kept]


def _below(cluster: Cluster, uris: set[str]) -> list[str]:
    return [uri[uri.index("tenure-") :] for uri in uris]


def orphans(cluster: Cluster, *, dead: str) -> list[str]:
    """All that a dead member left."""
    root = storage(cluster)
    epoch = cluster.epoch()
    runs = [path for path in root.glob("runs/*/*") if path.name[10:].startswith(f"{dead}-")]
    blobs = [path for path in root.glob("blobs/*") if path.name < f"e{epoch:08d}"]
    found = [*runs, *blobs, *root.glob(f"rehearsals/{dead}/*")]
    return [*(str(path.relative_to(root)) for path in found), *staged(cluster, before_epoch=epoch)]


def check(cluster: Cluster) -> None:
    """The output is right, and every file that the table names is there."""
    cluster.settle()
    assert cluster.verdict(STREAM).right, cluster.verdict(STREAM)
    assert all(Path(uri.removeprefix("file://")).exists() for uri in named(cluster))


def pair(cluster: Cluster) -> tuple[MemberProcess, MemberProcess]:
    """A leader that has led for a while, and its standby."""
    cluster.feeder.start()
    cluster.start("anna")
    cluster.start("ben")
    cluster.wait_for_batches(after_epoch=0, count=3)
    return cluster.pair()


def at(cluster: Cluster, member: MemberProcess, *, step: str, name: str, part: str = "host") -> None:
    """Strike a member at a step of its next batch, and wait until that has happened."""
    order = cluster.order(member, step=step, part=part, signal=name)
    cluster.wait(lambda: not order.exists(), what=f"{step} of {member.name}")


@pytest.mark.parametrize("store", long_on_servers)
def test_what_a_dead_leader_left_goes_while_batches_flow(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    """It dies with a batch that is staged and planned, and not in the table."""
    with Cluster(tmp_path, streams=(STREAM,), store=new_store(request, store, tmp_path)) as cluster:
        dead, successor = pair(cluster)
        at(cluster, dead, step="before sink commit", name="KILL")
        cluster.wait(lambda: cluster.epoch() == 2, what="a takeover")
        cluster.wait(lambda: not orphans(cluster, dead=dead.name), what="the orphans to go")
        batches = len(cluster.batches(STREAM, epoch=2))
        cluster.wait(lambda: len(cluster.batches(STREAM, epoch=2)) > batches + 1, what="more batches")
        swept = successor.events("Swept")
        assert sum(event["removed"] for event in swept) > 0
        assert all(event["left"] == 0 for event in swept), swept
        check(cluster)
        assert orphans(cluster, dead=dead.name) == []


@pytest.mark.parametrize("store", long_on_servers)
def test_a_leader_that_wakes_after_its_staged_batch_was_swept_changes_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    """It was paused between staging and its commit to the table; the successor has committed the batch."""
    with Cluster(tmp_path, streams=(STREAM,), ttl="2s", store=new_store(request, store, tmp_path)) as cluster:
        paused, successor = pair(cluster)
        at(cluster, paused, step="before sink commit", name="STOP")
        cluster.wait(lambda: cluster.epoch() == 2, what="a takeover")
        cluster.wait(lambda: not staged(cluster, before_epoch=2), what="the staged batch to go")
        starts = len(successor.events("QueryStarted"))
        paused.wake()
        cluster.wait(lambda: paused.events("WriteRefused"), what="the refusal")
        batches = len(cluster.batches(STREAM, epoch=2))
        cluster.wait(lambda: len(cluster.batches(STREAM, epoch=2)) > batches + 5, what="more batches")
        cluster.wait(
            lambda: not list(storage(cluster).glob("runs/*/e00000001-*")),
            what="its run directory to go",
        )
        assert len(successor.events("QueryStarted")) == starts, "the successor was started again"
        check(cluster)
        assert staged(cluster, before_epoch=2) == []


@pytest.mark.long
def test_a_leader_that_wakes_before_its_successor_s_commit_may_still_commit(tmp_path: Path) -> None:
    """Both stand before the commit of the same batch. What the first one staged must be there when it wakes up: until
    the table has the batch, nothing of it is swept."""
    with Cluster(tmp_path, streams=(STREAM,), ttl="2s") as cluster:
        paused, successor = pair(cluster)
        held = cluster.order(successor, step="before sink commit", part="driver", signal="STOP")
        at(cluster, paused, step="before sink commit", name="STOP")
        cluster.wait(lambda: not held.exists(), what="the successor to stand before its commit")
        (mine,) = staged(cluster, before_epoch=2)
        driver, other = paused.driver(), successor.driver()
        assert driver is not None
        assert other is not None
        before = named(cluster)
        os.killpg(driver, signal.SIGCONT)
        cluster.wait(lambda: named(cluster) != before, what="the late commit")
        assert any(mine in uri for uri in named(cluster) - before)
        os.killpg(other, signal.SIGCONT)
        paused.wake()
        cluster.wait_for_batches(after_epoch=1, count=8)
        check(cluster)


def _chain(folder: Path, steps: tuple[str, ...], *, store: str | None = None) -> None:
    with Cluster(folder, streams=(STREAM,), ttl="2s", feed_every_s=0.3, store=store) as cluster:
        cluster.feeder.start()
        cluster.start("first")
        cluster.wait_for_batches(after_epoch=0, count=2)
        cluster.members[0].kill()
        for number, step in enumerate(steps):
            _leave(cluster)
            member = cluster.start(f"m{number}", die_at=step)
            assert member.wait() == -signal.SIGKILL, member.output()
        _leave(cluster)
        cluster.start("last")
        epoch = cluster.epoch()
        cluster.wait_for_batches(after_epoch=epoch, count=7)
        dead = [member.name for member in cluster.members[:-1]]
        cluster.wait(
            lambda: not any(orphans(cluster, dead=name) for name in ["dead", *dead]),
            what="the orphans to go",
        )
        check(cluster)


def _leave(cluster: Cluster) -> None:
    """Something of each kind, that a leader which died before left."""
    (run, *_) = sorted(storage(cluster).glob(f"runs/{STREAM}/e*"), reverse=True)
    lost = StagingPath(SCOPE, STREAM, read_query_id(str(run)), 1, 10**6, os.urandom(16).hex())
    for path in (
        table(cluster) / str(lost) / "part-0.parquet",
        storage(cluster) / f"runs/{STREAM}/e00000001-dead-{UID}/offsets/0",
        storage(cluster) / f"rehearsals/dead/{STREAM}-{UID}/offsets/0",
        storage(cluster) / f"blobs/e00000001/checkpoints/{STREAM}/000000000009-lost",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", long_on_servers)
def test_the_next_leader_goes_on_whatever_step_a_sweep_was_killed_at(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    _chain(tmp_path, STEPS, store=new_store(request, store, tmp_path))
