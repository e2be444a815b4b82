"""Real members for tests, demos and benches: processes that can be killed, paused and woken.

Promise: a member is an agent in a process group of its own, and a driver (with its JVM) in another one. What is done
to a member is done to both, as to a machine; leaving the `with` block ends every process of it. What it did is read
from its event log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from tenure.agent.processes import process, processes
from tenure.testing.waiting import NEVER_S, wait_until

MAIN = (sys.executable, "-c", "from tenure.cli.main import main; main()")
"""The command line as a command, for the interpreter that runs the test."""


class MemberProcess:
    """One `tenure run`. `name` is its member name; its files are below `folder`."""

    def __init__(
        self,
        name: str,
        *,
        folder: Path,
        arguments: Sequence[str],
        command: Sequence[str] = MAIN,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.event_log = folder / f"{name}.events.jsonl"
        self.output = folder / f"{name}.out"
        self._command = [
            *command,
            *arguments,
            "--member",
            name,
            "--event-log",
            str(self.event_log),
            "--spark-log",
            str(folder / f"{name}.spark.log"),
        ]
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None  # None: not started

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the process group."""
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(self._environment or {})},
            )

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative: the signal), None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def agent(self) -> int:
        """The process id of the agent."""
        assert self._process is not None
        return self._process.pid

    def driver(self) -> int | None:
        """The process id of its driver, which is that of the driver's group; None: there is none."""
        return next(iter(drivers_of(self.agent)), None)

    def signal(self, number: int) -> None:
        """Send a signal to the agent's group, as a terminal does; nothing when it is gone."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def pause(self) -> None:
        """Stop agent, driver and JVM, and wait until the kernel says so."""
        pause_process(self.agent)
        drivers = drivers_of(self.agent)
        for driver in drivers:
            os.killpg(driver, signal.SIGSTOP)
        wait_until(lambda: all(is_stopped(driver) for driver in drivers))

    def wake(self) -> None:
        """Let a paused member go on, the driver first: it has a late write to send."""
        for driver in drivers_of(self.agent):
            os.killpg(driver, signal.SIGCONT)
        self.signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask the agent to end."""
        assert self._process is not None
        self._process.terminate()

    def kill(self) -> None:
        """Kill agent, driver and JVM as a machine that loses its power, and reap the agent."""
        if self._process is None:
            return
        if self.running:
            kill_host(self._process.pid)
        self._process.wait()

    def wait(self, *, timeout_s: float = NEVER_S) -> int:
        """Wait for its end and return the exit code. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        return self._process.wait(timeout=timeout_s)

    def events(self, kind: str | None = None, **fields: object) -> list[dict[str, Any]]:
        """Its events so far, of one kind, with these fields. A line that is being written is not there yet."""
        return [
            event
            for event in read_events(self.event_log)
            if (kind is None or event["event"] == kind) and all(event.get(k) == v for k, v in fields.items())
        ]

    def wait_for(
        self, kind: str, *, timeout_s: float = NEVER_S, such_that: Callable[[dict[str, Any]], bool] = lambda event: True
    ) -> dict[str, Any]:
        """Wait for the first event of a kind. Raises TimeoutError with what the member printed."""
        found: list[dict[str, Any]] = []

        def seen() -> bool:
            found.extend(event for event in self.events(kind) if such_that(event))
            if not found and not self.running:
                raise ChildProcessError(f"member {self.name} ended with {self.exit_code}:\n{self.told()}")
            return bool(found)

        try:
            wait_until(seen, timedelta(seconds=timeout_s))
        except TimeoutError as late:
            raise TimeoutError(f"no {kind} of member {self.name} in {timeout_s} s:\n{self.told()}") from late
        return found[0]

    def told(self) -> str:
        """What it printed."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""


def drivers_of(agent: int) -> list[int]:
    """The drivers of an agent: its children that lead a process group of their own."""
    return [one.pid for one in processes() if one.parent == agent and one.group == one.pid and one.state != "Z"]


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped by a signal, or gone."""
    found = process(pid)
    return found is None or found.state in "Tt"


def pause_process(pid: int) -> None:
    """Stop one process, and wait until the kernel says so."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid))


def kill_host(agent: int) -> None:
    """Kill an agent and its drivers. The agent is stopped first, so that it starts and tells nobody."""
    os.kill(agent, signal.SIGSTOP)
    for driver in drivers_of(agent):
        with suppress(ProcessLookupError):
            os.killpg(driver, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events in a log, without a last line that was cut off."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1] if line]
