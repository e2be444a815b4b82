"""One process of a server: started, stopped, killed, paused, and started again where it was."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

STOPS_WITHIN_S = 20.0


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens at, all different."""
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(int(one.getsockname()[1]))
        return found


class NotInstalled(Exception):
    """A server, or what it runs on, is not installed."""


@contextmanager
def installed() -> Iterator[None]:
    """Skip the test where a server is not installed; fail it in CI, which has to have it."""
    try:
        yield
    except NotInstalled as missing:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(missing))


def need(found: bool, what: str, *, fix: str) -> None:
    """Raises NotInstalled unless it was found."""
    if not found:
        raise NotInstalled(f"{what} is not installed; {fix}")


class ServerProcess:
    """A server's process, in a group of its own. Its output goes to `log`."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None  # None: not started

    @property
    def pid(self) -> int | None:
        """None: it does not run."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self) -> None:
        """Start it, also where it ran before."""
        assert self.pid is None, "it runs already"
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment,
            )

    def stop(self) -> None:
        """Ask it to end, and wait; kill it when it does not."""
        if self._process is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, and all that it started."""
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def pause(self) -> None:
        """Let it do nothing, as a machine that is stopped."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def told(self) -> str:
        """What it printed last."""
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it was never started"
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
