"""One leader killed, the next one paused past its ttl and woken: every kind of query against its truth (I1-I3, I5).

The original run directories are moved away by each takeover's successor having only its own seed: see
`test_the_first_run_directory_is_not_needed`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.cluster import SCOPE, Cluster
from tests.crash.truth import Verdict
from tests.draw import QUARTERS, only_if_drawn
from tests.stores import long_on_servers, new_store

KINDS = (("passed", "windows", "joined"), ("unique", "counts"))
"""The queries of each scenario: few enough for two cores, since Spark gives the Python process of a stateful function
ten seconds to start, and a query whose process is late fails. A cold standby of three leaves more of the cores, too."""


@dataclass(frozen=True)
class Story:
    """What happened in the scenario."""

    verdicts: dict[str, Verdict]
    refused: int
    batches_after_wake: int
    first_directories_gone: bool
    events: int


@pytest.fixture(scope="module", params=long_on_servers)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(
    scope="module",
    params=[pytest.param(kinds, marks=only_if_drawn(*QUARTERS[i::2])) for i, kinds in enumerate(KINDS)],
    ids="-".join,
)
def story(request: pytest.FixtureRequest, store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    kinds: tuple[str, ...] = request.param
    folder = tmp_path_factory.mktemp("kinds")
    with Cluster(folder, streams=kinds, store=new_store(request, store, folder)) as cluster:
        for name in ("anna", "ben"):
            cluster.start(name)
        cluster.start("carl", flags=("--standby", "cold"))
        cluster.wait(lambda: all(member.events("MemberReady") for member in cluster.members), what="three members")
        cluster.feeder.start()
        cluster.wait_for_batches(after_epoch=0, count=3)

        killed = cluster.leader()
        assert killed is not None
        first = cluster.epoch()
        killed.kill()
        cluster.wait_for_batches(after_epoch=first, count=3)
        gone = _move_away(cluster.folder / "storage" / SCOPE / "runs", epoch=first)

        cluster.pause_file.touch()
        cluster.wait(lambda: not cluster.pause_file.exists(), what="the leader's pause")
        paused = cluster.leader()
        assert paused is not None
        second = cluster.epoch()
        cluster.wait_for_batches(after_epoch=second, count=2)
        paused.wake()
        cluster.wait(lambda: paused.events("WriteRefused"), what="the refusal of the woken leader")
        third = cluster.epoch()
        before = sum(len(cluster.batches(stream, epoch=third)) for stream in kinds)
        cluster.wait(
            lambda: sum(len(cluster.batches(stream, epoch=third)) for stream in kinds) > before + 5,
            what="batches of the successor after the wake",
        )
        cluster.settle()
        yield Story(
            verdicts={kind: cluster.verdict(kind) for kind in kinds},
            refused=len(paused.events("WriteRefused", by="store")),
            batches_after_wake=sum(len(cluster.batches(kind, after_epoch=third)) for kind in kinds),
            first_directories_gone=gone,
            events=cluster.feeder.events,
        )


def _move_away(runs: Path, *, epoch: int) -> bool:
    """Remove the run directories of an epoch, with the leader that sweeps them: later ones must not need them. Whether
    they are gone."""
    for path in [path for query in runs.iterdir() for path in query.glob(f"e{epoch:08d}-*")]:
        shutil.rmtree(path, ignore_errors=True)
    return not [path for query in runs.iterdir() for path in query.glob(f"e{epoch:08d}-*")]


def test_every_row_once_over_a_kill_and_a_pause(story: Story) -> None:
    assert story.events > 500
    assert [str(verdict) for verdict in story.verdicts.values() if not verdict.right] == []


def test_the_woken_leader_is_refused_by_the_store(story: Story) -> None:
    assert story.refused >= 1


def test_the_woken_leader_does_not_unseat_its_successor(story: Story) -> None:
    assert story.batches_after_wake == 0, "a term began after the successor's"


def test_the_first_run_directory_is_not_needed(story: Story) -> None:
    assert story.first_directories_gone
