"""The shell at the agent's pipe: what it starts, when, and that it shows no secret."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from tenure.agent.processes import processes
from tenure.agent.warden import Charge, Warden
from tenure.clock import SystemClock
from tenure.coordination.session import SessionKeeper
from tests.kit.members import wardens_of
from tests.kit.memory import MemoryStore
from tests.kit.waiting import wait_until

SECRET = "s\\e'c \"re$t"
STORE = f"etcd://anna:{SECRET}@host/p"

NOTE = """
import json, os, sys
charge = sys.stdin.read()
said = {"charge": charge, "arguments": sys.argv, "environment": dict(os.environ)}
with open(sys.argv[1] + ".new", "w") as file:
    json.dump(said, file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""
"""Stands for `tenure.warden`."""

AGENT = """
import os, subprocess, sys
from contextlib import ExitStack
from datetime import timedelta
from tenure.agent.warden import Warden
from tests.kit.memory import MemoryStore
from tenure.clock import SystemClock
from tenure.coordination.session import SessionKeeper
store, clock = MemoryStore(clock=SystemClock()), SystemClock()
warden = Warden((sys.executable, "-c", sys.argv[1], sys.argv[2]), store=sys.argv[3]).start()
keepers = [SessionKeeper(store, ttl=timedelta(seconds=60), clock=clock).__enter__() for _ in range(2)]
driver = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
old = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
with ExitStack() as stack:
    for line in sys.stdin:
        match line.split():
            case ["hold", number]:
                stack.enter_context(warden.ending(keepers[int(number)]))
            case ["drop"]:
                stack.close()
            case ["drivers"]:
                warden.driver_started(old.pid)
                warden.driver_started(driver.pid)
                warden.driver_ended(old.pid)
            case ["close"]:
                warden.close()
            case ["half"]:
                os.write(warden._pipe, b"{half a line")
            case ["end"]:
                break
        print(driver.pid, keepers[1].session_id, flush=True)
"""


class Agent:
    """A process that holds a session under a warden."""

    def __init__(self, note: Path) -> None:
        self.note = note
        self._process = subprocess.Popen(
            [sys.executable, "-c", AGENT, NOTE, str(note), STORE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "line": "set", "charge": "set", "TENURE_STORE_PASSWORD": SECRET, "TENURE_STORE": STORE},
        )
        self.pid = self._process.pid

    def tell(self, *lines: str) -> list[str]:
        """The answer to the last line: the driver's id, and the id of the second session."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        for line in lines:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        return answer.split()

    def warden(self) -> int:
        (found,) = wait_until(lambda: wardens_of(self.pid))
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def said(self) -> dict[str, object]:
        """What the program of the warden got."""
        wait_until(self.note.exists, what="the program of the warden")
        found: dict[str, object] = json.loads(self.note.read_text())
        return found

    def close(self) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path / "note")
    yield made
    made.close()


def is_gone(pid: int) -> bool:
    return not any(one.pid == pid and one.state != "Z" for one in processes())


def ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal."""
    fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(fields["SigIgn"], 16) >> (number - 1) & 1)


def test_the_program_gets_the_last_charge_when_the_agent_was_killed(agent: Agent) -> None:
    driver, session = agent.tell("hold 0", "drivers", "hold 1", "half")
    agent.kill()
    line = str(agent.said()["charge"])
    charge = Charge.from_json(line)
    assert line.endswith("\n")
    assert (charge.store, charge.session, charge.testament, charge.ttl_s) == (STORE, session, session, 60.0)
    assert [mark.pid for mark in charge.drivers] == [int(driver)]


def test_no_secret_is_in_an_argument_or_the_environment(agent: Agent) -> None:
    agent.tell("hold 0")
    shell = Path(f"/proc/{agent.warden()}")
    seen = [(shell / name).read_text() for name in ("cmdline", "environ")]
    agent.kill()
    said = agent.said()
    seen += [str(said["arguments"]), str(said["environment"])]
    assert not [text for text in seen if "re$t" in text or "testament" in text]
    assert "re$t" in str(said["charge"])


def test_no_program_starts_while_the_agent_is_stopped_or_for_the_signals_of_its_group(agent: Agent) -> None:
    agent.tell("hold 0")
    warden = agent.warden()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        wait_until(partial(ignores, warden, number), what="the first line of the shell's program")
        os.killpg(warden, number)
    os.kill(agent.pid, signal.SIGSTOP)
    os.kill(agent.pid, signal.SIGCONT)
    agent.tell("drivers")
    assert not is_gone(warden)
    assert not agent.note.exists()
    agent.kill()
    assert agent.said()["charge"]


@pytest.mark.parametrize("lines", [(), ("hold 0", "drop"), ("hold 0", "drop", "half")])
def test_no_program_starts_for_an_agent_without_a_session(agent: Agent, lines: tuple[str, ...]) -> None:
    agent.tell("drivers", *lines)
    warden = agent.warden()
    agent.kill()
    wait_until(lambda: is_gone(warden), what="the end of the warden")
    assert not agent.note.exists()


def test_no_program_starts_after_the_close(agent: Agent) -> None:
    agent.tell("hold 0")
    warden = agent.warden()
    agent.tell("close", "drivers")
    assert is_gone(warden)
    agent.kill()
    assert not agent.note.exists()


def test_a_warden_that_does_not_read_is_killed(tmp_path: Path) -> None:
    """Its last charge may be of a driver before the present driver."""
    clock = SystemClock()
    warden = Warden(("cat",), store="sqlite:///" + "x" * 3000).start()
    (shell,) = wardens_of(os.getpid())
    os.kill(shell, signal.SIGSTOP)
    try:
        with SessionKeeper(MemoryStore(clock=clock), ttl=timedelta(seconds=60), clock=clock) as keeper:
            for _ in range(30):
                with warden.ending(keeper):
                    pass
            wait_until(lambda: is_gone(shell), what="the end of the warden")
            with warden.ending(keeper):  # the agent goes on without it
                pass
    finally:
        warden.close()
