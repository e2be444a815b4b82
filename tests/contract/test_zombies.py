"""The scene that this project comes from: a leader decides on a write, is stopped before it leaves, a successor takes
office, the leader is woken. Its write is refused, by the store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import commit_under
from tests.kit.process import is_stopped
from tests.kit.waiting import wait_until
from tests.stores import STORES, new_store

ZOMBIE = "tests.contract.zombie"
SCOPE = Scope("zombies")
TTL_S = 2


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_store(request, request.param, tmp_path)


@pytest.fixture
def zombie(url: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", ZOMBIE, url, SCOPE, str(TTL_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def hear(zombie: subprocess.Popen[str]) -> str:
    assert zombie.stdout is not None
    return zombie.stdout.readline().strip()


def rounds(url: str, zombie: subprocess.Popen[str], count: int) -> None:
    clock = SystemClock()
    assert hear(zombie) == "ready"
    with closing(open_store(url, clock=clock)) as store:
        for number in range(count):
            proposal = Key(f"proposals/{number}")
            assert zombie.stdin is not None
            zombie.stdin.write(f"{number}\n")
            zombie.stdin.flush()
            epoch = 2 * number + 1
            assert hear(zombie) == f"leads {epoch}"
            wait_until(lambda: is_stopped(zombie.pid), what="the leader's stop")
            with SessionKeeper(store, ttl=timedelta(seconds=10), clock=clock) as keeper:
                election = Election(store, SCOPE, member="successor", clock=clock)
                term = election.campaign(keeper, stop=threading.Event())
                assert term is not None
                assert term.epoch == epoch + 1
                os.kill(zombie.pid, signal.SIGCONT)
                assert hear(zombie) == "refused"
                assert store.read(SCOPE, proposal) is None
                commit_under(store, term, writes=[Put(proposal, b"mine", None)], clock=clock)  # it goes on
                election.resign(term)


def test_the_write_of_a_woken_leader_is_refused_by_the_store(url: str, zombie: subprocess.Popen[str]) -> None:
    rounds(url, zombie, 2)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_it_is_refused_a_hundred_times_of_a_hundred(url: str, zombie: subprocess.Popen[str]) -> None:
    rounds(url, zombie, 100)
