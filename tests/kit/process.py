"""A process in a group of its own: started, paused, woken, ended, and started again.

Promise: a signal reaches the whole group; a paused group runs no further when `pause` returns. Not promised: that a
process which leaves its group ends with the group.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tenure.agent.processes import processes
from tests.kit.waiting import NEVER_S, wait_until


class GroupProcess:
    """Runs `command`, with `environment` beside that of the test. The output goes to `log`."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self.log: Final = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None  # None: not started

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code (negative: the signal); None: the process runs, or was not started."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        assert self._process is not None, "the process was never started"
        return self._process.pid

    def start(self) -> None:
        """Start the process, also after its end."""
        assert not self.running, "the process runs already"
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment,
            )

    def signal(self, number: int) -> None:
        """Send a signal to the group; nothing when the group is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def pause(self) -> None:
        """Stop the group, as a machine that is stopped, and wait until the kernel has stopped each thread: on another
        core, one may run on for a while."""
        self.signal(signal.SIGSTOP)
        if self._process is not None:
            group = self._process.pid
            wait_until(lambda: all(is_stopped(one.pid) for one in processes() if one.group == group))

    def wake(self) -> None:
        """Continue a stopped group."""
        self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask the group to end, and wait. Kill a group that does not end."""
        self.wake()
        self.signal(signal.SIGTERM)
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the group and wait; nothing when it was never started."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    def wait(self, *, timeout_s: float = NEVER_S) -> int:
        """Wait for the end of the process and return its exit code. Raises subprocess.TimeoutExpired."""
        assert self._process is not None, "the process was never started"
        return self._process.wait(timeout=timeout_s)

    def output(self) -> str:
        """The output of the process so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def is_stopped(pid: int) -> bool:
    """Whether each thread of a process is stopped by a signal, or in the kernel until it can be; or the process is
    gone."""
    for task in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            state = task.read_text(errors="replace").rpartition(")")[2].split()[0]
            if state not in "TtDZX":
                return False
    return True
