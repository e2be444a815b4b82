"""Agent or driver, killed or paused alone, at the steps of a takeover; switchovers under load; two members without
their store. After each of them somebody leads, and in the end the output is right and nothing is left.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tenure.checkpoints.store import KEPT
from tests.crash.cluster import SCOPE, Cluster
from tests.crash.truth import Verdict
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import pause_between_writes
from tests.stores import OF_MEMBERS, long_on_servers, new_store
from tests.support.launch import TAKEOVER_STEPS

STREAM = "joined"
BLOWS = [(part, number) for part in ("driver", "agent") for number in ("KILL", "STOP")]
CASES = [("after grant", "agent", "STOP"), ("after state", "driver", "KILL")]
LONG_CASES = [(step, part, number) for step in TAKEOVER_STEPS for part, number in BLOWS]


@dataclass
class Story:
    """The cases that went through, the output, and what the members told."""

    done: list[tuple[str, str, str]] = field(default_factory=list)
    verdict: Verdict | None = None  # None: not settled


def _strike(cluster: Cluster, step: str, part: str, number: str) -> None:
    """Let the standby take over, strike a part of it at the step, and wait until somebody goes on. A leader that hands
    over ends its batch; one whose driver dies in a batch leaves it to be retaken."""
    leader, standby = cluster.pair()
    struck = cluster.epoch() + 1
    order = cluster.order(standby, step=step, part=part, signal=number)
    if "retaking" in step:
        cluster.order(leader, step="after plan", part="driver", signal="KILL")
    else:
        cluster.switchover(to=standby.name)
    cluster.wait(lambda: not order.exists(), what=f"{part} {number} {step}")
    cluster.wait_for_batches(after_epoch=struck, count=1)
    if (part, number) == ("agent", "STOP"):
        os.kill(standby.pid, signal.SIGCONT)
    elif part == "agent":
        standby.kill()
        cluster.start(f"m{len(cluster.members):02d}")


def _run(folder: Path, cases: list[tuple[str, str, str]], *, store: str | None = None) -> Story:
    story = Story()
    with Cluster(folder, streams=(STREAM,), ttl="2s", feed_every_s=0.5, store=store) as cluster:
        cluster.feeder.start()
        cluster.start("m00")
        cluster.start("m01")
        cluster.wait_for_batches(after_epoch=0, count=2)
        for case in cases:
            _strike(cluster, *case)
            story.done.append(case)
        cluster.settle()
        story.verdict = cluster.verdict(STREAM)
    return story


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return _run(tmp_path_factory.mktemp("parts"), CASES)


@pytest.mark.timeout(900)
def test_somebody_goes_on_after_each_blow(story: Story) -> None:
    assert story.done == CASES


def test_the_output_is_right(story: Story) -> None:
    assert story.verdict is not None
    assert story.verdict.right, story.verdict


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store", OF_MEMBERS)
def test_every_step_of_a_takeover_and_every_blow(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    story = _run(tmp_path, LONG_CASES, store=new_store(request, store, tmp_path))
    assert story.done == LONG_CASES
    assert story.verdict is not None
    assert story.verdict.right, story.verdict


# --- switchovers ------------------------------------------------------------------------------------------------


def _count(cluster: Cluster) -> dict[str, int]:
    """Processes, threads and descriptors of all members: of agents and drivers, whose JVM grows and shrinks."""
    agents = [psutil.Process(member.pid) for member in cluster.members]
    drivers = [psutil.Process(driver) for member in cluster.members if (driver := member.driver()) is not None]
    return {
        "agents' children": sum(len(agent.children()) for agent in agents),
        "agents' threads": sum(agent.num_threads() for agent in agents),
        "agents' descriptors": sum(agent.num_fds() for agent in agents),
        "drivers' children": sum(len(driver.children()) for driver in drivers),
        "drivers' threads": sum(driver.num_threads() for driver in drivers),
        "drivers' descriptors": sum(driver.num_fds() for driver in drivers),
    }


def _least(cluster: Cluster) -> dict[str, int]:
    """The least that was counted in the time of two batches: what is open for a moment is no leak."""
    seen: list[dict[str, int]] = []
    batches = len(cluster.batches("windows"))

    def counted() -> bool:
        seen.append(_count(cluster))
        return len(cluster.batches("windows")) >= batches + 2

    cluster.wait(counted, what="two batches")
    return {what: min(one[what] for one in seen) for what in seen[0]}


def _switch(folder: Path, times: int, *, store: str | None = None) -> None:
    with Cluster(folder, streams=("windows",), ttl="5s", feed_every_s=0.3, store=store) as cluster:
        cluster.feeder.start()
        cluster.start("anna")
        cluster.start("ben")
        cluster.wait_for_batches(after_epoch=0, count=2)
        counts: list[dict[str, int]] = []
        for number in range(times):
            leader, standby = cluster.pair()
            assert cluster.epoch() == number + 1
            cluster.switchover(to=standby.name)
            cluster.wait_for_batches(after_epoch=number + 1, count=1)
            assert cluster.leader() is standby
            if number >= 3:
                cluster.wait_until_ready(leader.name)
                counts.append(_least(cluster))
        cluster.settle()
        assert cluster.verdict("windows").right, cluster.verdict("windows")
        assert cluster.epoch() == times + 1
        ran = [event["batch"] for event in cluster.batches("windows")]
        assert sorted(ran) == list(range(len(ran))), "a batch that was finished is not run again"
        seeded = [event for member in cluster.members for event in member.events("RunDirectorySeeded")]
        assert any(event["mirrored"] for event in seeded), "at least one standby had the time"
        assert not [event for member in cluster.members for event in member.events("MirrorFailed")]
        runs = cluster.folder / "storage" / SCOPE / "runs" / "windows"

        def ran_in() -> list[str]:
            return sorted(one.name[:9] for one in runs.iterdir() if one.name < f"e{times + 2:08d}")

        cluster.wait(lambda: len(ran_in()) <= KEPT + 1, what="the old run directories to go")
        assert len(ran_in()) == len(set(ran_in())), f"one run directory a term: {ran_in()}"
        names = [one.name for one in runs.iterdir()]
        assert len(names) <= len(ran_in()) + 1, f"one mirror for the next term: {names}"
        assert not list((cluster.folder / "storage" / SCOPE / "rehearsals").glob("*/*"))
        first, last = counts[0], counts[-1]
        grown = {what: (first[what], last[what]) for what in first if last[what] > first[what]}
        # delta-rs reads a log of many commits with as many threads, which end when they had nothing to do for 10 s.
        cluster.wait(
            lambda: "drivers' threads" not in grown or _count(cluster)["drivers' threads"] <= first["drivers' threads"],
            what=f"the end of the threads of {counts}",
        )
        assert grown.keys() <= {"drivers' threads"}, counts


@only_if_drawn(QUARTERS[3])
@pytest.mark.parametrize("store", long_on_servers)
def test_switchovers_under_load_lose_nothing(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    _switch(tmp_path, 6, store=new_store(request, store, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_fifty_switchovers_under_load_leave_nothing(tmp_path: Path) -> None:
    _switch(tmp_path, 50)


# --- a standby that cannot take what it is given -----------------------------------------------------------------


@only_if_drawn(QUARTERS[1])
@pytest.mark.long
def test_a_standby_that_is_paused_while_it_is_elected_holds_up_nobody_for_longer_than_its_ttl(tmp_path: Path) -> None:
    with Cluster(tmp_path, streams=("windows",), ttl="2s") as cluster:
        cluster.feeder.start()
        cluster.start("anna")
        cluster.start("ben")
        cluster.wait_for_batches(after_epoch=0, count=2)
        leader, standby = cluster.pair()
        pause_between_writes(standby, store=cluster.store_url)
        cluster.switchover(to=standby.name)
        cluster.wait(lambda: leader.events("TermEnded"), what="the leader to hand over")
        cluster.wait_for_batches(after_epoch=1, count=2)
        assert cluster.leader() is leader, "once the session of the elected one had ended"
        assert cluster.epoch() == 2
        driver = standby.driver()
        standby.wake()
        cluster.wait_until_ready(standby.name)
        assert standby.driver() == driver, "it stands by again, with the same driver"
        assert not standby.events("TermWon")
        cluster.switchover(to=standby.name)
        cluster.wait_for_batches(after_epoch=2, count=1)
        cluster.settle()
        assert cluster.verdict("windows").right, cluster.verdict("windows")
        assert cluster.epoch() == 3


# --- the store goes ---------------------------------------------------------------------------------------------


@contextmanager
def _away(request: pytest.FixtureRequest, kind: str, folder: Path) -> Iterator[None]:
    """The store serves nobody inside the block."""
    if kind != "sqlite":
        servers = request.getfixturevalue(kind)
        servers.close()
        try:
            yield
        finally:
            servers.start()  # other tests share them
        return
    store, away = folder / "store.db", folder / "away"
    away.mkdir()
    for file in folder.glob("store.db*"):
        file.rename(away / file.name)
    store.mkdir()  # whoever opens it finds what is no database
    yield
    store.rmdir()
    for file in away.iterdir():
        file.rename(folder / file.name)


@pytest.mark.parametrize("store", long_on_servers)
def test_two_members_that_lose_the_store_come_back(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    url = new_store(request, store, tmp_path)
    with Cluster(tmp_path, streams=("passed",), ttl="2s", store=url) as cluster:
        cluster.feeder.start()
        cluster.start("anna")
        cluster.start("ben")
        cluster.wait_for_batches(after_epoch=0, count=2)
        cluster.pair()
        epoch = cluster.epoch()
        drivers = {member.name: member.driver() for member in cluster.members}
        with _away(request, store, tmp_path):
            cluster.wait(
                lambda: all(member.events("StoreAway") for member in cluster.members),
                what="both to miss it",
            )
        cluster.wait_for_batches(after_epoch=epoch, count=2)
        assert {member.name: member.driver() for member in cluster.members} == drivers, "nobody was replaced"
        cluster.settle()
        assert cluster.verdict("passed").right, cluster.verdict("passed")
