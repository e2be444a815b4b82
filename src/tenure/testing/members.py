"""Real members for tests, demos and benches: processes that can be killed, paused and woken.

Promise: each member is a process group of its own (driver and JVM together), and leaving the `with` block ends
every one of them. What it did is read from its event log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tenure.testing.waiting import wait_until

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; nothing when it is gone."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def pause(self) -> None:
        """Stop the whole group, JVM included, and wait until the kernel says so."""
        self.signal(signal.SIGSTOP)
        assert self._process is not None
        state = Path(f"/proc/{self._process.pid}/stat")
        wait_until(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", timedelta(seconds=5))

    def wake(self) -> None:
        """Let a paused group go on."""
        self.signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask the member (not its JVM) to end."""
        assert self._process is not None
        self._process.terminate()

    def kill(self) -> None:
        """Kill the whole group, and reap it."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def wait(self, *, timeout_s: float) -> int:
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
        self, kind: str, *, timeout_s: float, such_that: Callable[[dict[str, Any]], bool] = lambda event: True
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


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events in a log, without a last line that was cut off."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1] if line]
