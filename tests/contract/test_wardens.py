"""On each store: the session of a killed agent ends after its driver, without its ttl; a stopped agent's lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenure.agent.processes import process
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.store import CoordinationStore
from tests.kit.members import MemberProcess, pause_process, wardens_of
from tests.kit.waiting import wait_until
from tests.regressions import sparkless
from tests.stores import new_store
from tests.support.holder_with_warden import SCOPE

TTL_S = 100
"""The most that the tests' ZooKeeper permits is 120."""


class Agent:
    """The process, and what its warden says."""

    def __init__(self, url: str, log: Path) -> None:
        self.log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.holder_with_warden", url, str(TTL_S)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.pid = self._process.pid
        self.driver = self.hear()

    def hear(self) -> int:
        """The id of the driver, once a session is held."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.log.read_text()
        return int(line)

    def say(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def said(self) -> str:
        """The line of the warden; empty: there is none yet. The client of a store logs there, too."""
        return "".join(line for line in self.log.read_text().splitlines(keepends=True) if line.startswith("tenure: "))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(params=["sqlite", "zookeeper", "etcd", "kubernetes", "postgres", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_store(request, request.param, tmp_path)


@pytest.fixture
def agent(url: str, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(url, tmp_path / "agent.log")
    yield made
    made.kill()


def keys(store: CoordinationStore) -> list[str]:
    return [str(record.key) for record in store.list(SCOPE).records]


def has_ended(pid: int) -> bool:
    found = process(pid)
    return found is None or found.state == "Z"


def test_the_session_of_a_killed_agent_ends_at_once_and_of_a_stopped_agent_not(url: str, agent: Agent) -> None:
    with closing(open_store(url, clock=SystemClock())) as store:
        assert keys(store) == ["first"]
        agent.say()
        agent.hear()
        assert keys(store) == ["second"]  # the agent has another session
        (warden,) = wardens_of(agent.pid)
        pause_process(agent.pid)
        assert not has_ended(warden)
        assert keys(store) == ["second"]
        assert not has_ended(agent.driver)
        agent.kill()
        said = wait_until(agent.said, what="the word of the warden")
        assert "was ended, after the driver's processes" in said
        assert keys(store) == []
        assert has_ended(agent.driver)
        wait_until(lambda: has_ended(warden), what="the end of the warden")


def test_a_member_has_a_warden_that_knows_its_driver_and_goes_with_it(tmp_path: Path) -> None:
    flags = ["--store", f"sqlite://{tmp_path}/store.db", "--storage", f"file://{tmp_path}/storage"]
    arguments = ["run", "rows.py", *flags, "--scope", "rows", "--standby", "cold", "--ttl", f"{TTL_S}s"]
    with MemberProcess("anna", folder=tmp_path, arguments=arguments, command=sparkless.COMMAND) as member:
        member.wait_for("TermWon")
        (warden,) = wardens_of(member.pid)
        member.terminate()
        assert member.wait() == 0
        assert has_ended(warden)
        assert "session" not in member.output()
        member.start()
        wait_until(lambda: len(member.events("TermWon")) > 1, what="the second term")
        (warden,), driver = wardens_of(member.pid), member.driver()
        assert driver is not None
        os.kill(member.pid, signal.SIGKILL)
        member.wait()
        wait_until(lambda: "was ended, after the driver's processes" in member.output(), what="the word of the warden")
        assert has_ended(driver)
        wait_until(lambda: has_ended(warden), what="the end of the warden")
