"""The leader dies at every step of a batch and of a takeover; the next one goes on, and the output is right (I9).

One chain: each member is elected, dies at its own step, and the one after it takes over what it left.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.cluster import Cluster
from tests.crash.truth import Verdict
from tests.draw import EACH_STEP, only_if_drawn
from tests.kit.members import MemberProcess
from tests.stores import OF_MEMBERS, new_store
from tests.support.launch import BATCH_STEPS, SEED_PARTS, TAKEOVER_STEPS

STREAM = "joined"

# After one part is before the next one, so each gap between two parts is one step.
STEPS = (
    *BATCH_STEPS,
    *(step for step in TAKEOVER_STEPS if not step.startswith("before") or step == f"before {SEED_PARTS[0]}"),
)
SHORT = (*(step for step in BATCH_STEPS if not step.startswith("before ")), "after grant", "after state")
"""What each run tries; the others differ in which part of a seed is there, or in what an attempt has staged."""
_WARM = 2  # members that start while another one leads: the start of a JVM is most of a step's time


@dataclass(frozen=True)
class Chain:
    """What happened: how each member ended, and the output."""

    exits: dict[str, int | None]
    verdict: Verdict
    events: int


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    yield from _chain(tmp_path_factory.mktemp("steps"), SHORT)


@pytest.fixture(scope="module", params=OF_MEMBERS)
def whole_chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("steps")
    yield from _chain(folder, STEPS, store=new_store(request, request.param, folder))


def _chain(folder: Path, steps: tuple[str, ...], *, store: str | None = None) -> Iterator[Chain]:
    with Cluster(folder, streams=(STREAM,), feed_every_s=0.5, store=store) as cluster:
        cluster.feeder.start()
        # The first one has nothing to take over; it makes the state that the others inherit.
        waiting = ["after commits", *steps]
        doomed: dict[str, MemberProcess] = {}
        while waiting or any(member.running for member in doomed.values()):
            while waiting and sum(member.running for member in doomed.values()) < _WARM:
                step = waiting.pop(0)
                name = f"m{len(doomed):02d}"
                doomed[name] = cluster.start(name, die_at=step, die_after_batches=0 if step in TAKEOVER_STEPS else 2)
            alive = [member for member in doomed.values() if member.running]
            _wait_for_a_death(cluster, alive)
        step_of = dict(zip(doomed, ["the first", *steps], strict=True))
        cluster.start("last")
        cluster.wait_for_batches(after_epoch=cluster.epoch(), count=1)
        cluster.settle()
        yield Chain(
            exits={step_of[name]: member.exit_code for name, member in doomed.items()},
            verdict=cluster.verdict(STREAM),
            events=cluster.feeder.events,
        )


def _wait_for_a_death(cluster: Cluster, alive: list[MemberProcess]) -> None:
    names = [member.name for member in alive]
    cluster.wait(lambda: not all(member.running for member in alive), what=f"the death of one of {names}")


@only_if_drawn(EACH_STEP)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", SHORT)
def test_the_member_died_at_the_step(chain: Chain, step: str) -> None:
    assert chain.exits[step] == -signal.SIGKILL


@only_if_drawn(EACH_STEP)
def test_the_output_is_right(chain: Chain) -> None:
    assert chain.events > 1000
    assert chain.verdict.right, chain.verdict


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_member_died_at_its_step_and_the_output_is_right(whole_chain: Chain) -> None:
    assert {step: whole_chain.exits[step] for step in STEPS} == dict.fromkeys(STEPS, -signal.SIGKILL)
    assert whole_chain.verdict.right, whole_chain.verdict
