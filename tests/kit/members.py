"""Real members for tests, demos and benches: processes that can be killed, paused and woken.

Promise: a member is an agent in a process group of its own, and a driver (with its JVM) in another group. A pause or a
kill reaches both, as on a machine. At the end of the `with` block all processes of the member have ended.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from tenure.agent.processes import processes
from tenure.agent.warden import NAME
from tests.kit.process import GroupProcess, is_stopped
from tests.kit.waiting import NEVER_S, wait_until

MAIN = (sys.executable, "-c", "from tenure.cli.main import main; main()")
"""The command line as a command, for the interpreter that runs the test."""


class MemberProcess(GroupProcess):
    """One `tenure run` with the member name `name`; its files are below `folder`. The process is the agent."""

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
        files = ("--event-log", str(self.event_log), "--spark-log", str(folder / f"{name}.spark.log"))
        super().__init__(
            [*command, *arguments, "--member", name, *files], log=folder / f"{name}.out", environment=environment
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def driver(self) -> int | None:
        """The id of the driver's process, and of its group; None: there is no driver."""
        return next(iter(drivers_of(self.pid)), None)

    def pause(self) -> None:
        """Stop agent, driver and JVM, and wait until the kernel has stopped them."""
        pause_process(self.pid)
        groups = [*drivers_of(self.pid), *wardens_of(self.pid)]
        for group in groups:
            os.killpg(group, signal.SIGSTOP)
        wait_until(lambda: all(is_stopped(group) for group in groups))

    def wake(self) -> None:
        """Continue a paused member, the driver first: a late write of the driver may be under way."""
        for group in (*drivers_of(self.pid), *wardens_of(self.pid)):
            os.killpg(group, signal.SIGCONT)
        super().wake()

    def terminate(self) -> None:
        """Ask the agent to end."""
        assert self._process is not None, "the process was never started"
        self._process.terminate()

    def kill(self) -> None:
        """Kill agent, driver and JVM, as a machine that loses its power, and reap the agent."""
        if self.running:
            kill_host(self.pid)
            self.wait()

    def events(self, kind: str | None = None, **fields: object) -> list[dict[str, Any]]:
        """The events so far, of one kind, with these fields."""
        return [
            event
            for event in read_events(self.event_log)
            if (kind is None or event["event"] == kind) and all(event.get(k) == v for k, v in fields.items())
        ]

    def wait_for(
        self, kind: str, *, timeout_s: float = NEVER_S, such_that: Callable[[dict[str, Any]], bool] = lambda event: True
    ) -> dict[str, Any]:
        """Wait for the first such event. Raises TimeoutError and ChildProcessError with the member's output."""

        def matching() -> list[dict[str, Any]]:
            events = [event for event in self.events(kind) if such_that(event)]
            if not events and not self.running:
                raise ChildProcessError(f"member {self.name} ended with {self.exit_code}:\n{self.output()}")
            return events

        try:
            return wait_until(matching, timedelta(seconds=timeout_s))[0]
        except TimeoutError as late:
            raise TimeoutError(f"no {kind} of member {self.name} in {timeout_s} s:\n{self.output()}") from late


def drivers_of(agent: int) -> list[int]:
    """The drivers of an agent: its children that lead a process group of their own, but its warden."""
    return [pid for pid in _leaders_below(agent) if not _is_warden(pid)]


def wardens_of(agent: int) -> list[int]:
    """The warden of an agent, if it has one."""
    return [pid for pid in _leaders_below(agent) if _is_warden(pid)]


def _leaders_below(agent: int) -> list[int]:
    return [one.pid for one in processes() if one.parent == agent and one.group == one.pid and one.state != "Z"]


def _is_warden(pid: int) -> bool:
    try:
        return NAME.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended


def pause_process(pid: int) -> None:
    """Stop one process, and wait until the kernel has stopped it."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid))


def pause_between_writes(group: GroupProcess, *, store: str) -> None:
    """Stop a member, or another group, while it is in no transaction of the store, a URL.

    A writer of SQLite holds a lock of the file: were it stopped meanwhile, all others would wait in vain.
    """
    _, is_sqlite, path = store.partition("sqlite://")

    def paused() -> bool:
        group.pause()
        if not is_sqlite or _is_writable(path):
            return True
        group.wake()
        return False

    wait_until(paused, what=f"a moment without a transaction in {store}")


def _is_writable(path: str) -> bool:
    """Whether nobody writes to this SQLite store. `path`: as in its URL."""
    with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=0)) as database:  # makes no file
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return False
        database.rollback()
        return True


def kill_host(agent: int) -> None:
    """Kill an agent, its warden and its drivers. The agent is stopped first, so that it neither starts a driver nor
    reports."""
    os.kill(agent, signal.SIGSTOP)
    for group in (*wardens_of(agent), *drivers_of(agent)):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a log. A last line that is not complete is left out."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1] if line]
