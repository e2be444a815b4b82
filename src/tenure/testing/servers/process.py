"""A process of a server: started, stopped, killed, paused, and started again where it was; and several as a block."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final, Self

import pytest

from tenure.testing.waiting import NEVER_S, wait_until

_PORTS: Final = range(10_000, 32_000)
"""Below the ports that Linux gives to outgoing connections, which come and go by the hundred in a run of tests."""
_reserved: set[int] = set()
_lock = threading.Lock()  # guards _reserved


@cache
def _reservations() -> int:
    """The file whose byte N is locked by the process that has port N. It is open as long as this process lives."""
    return os.open(Path(tempfile.gettempdir()) / "tenure-test-ports", os.O_RDWR | os.O_CREAT, 0o666)


def free_ports(count: int) -> list[int]:
    """Ports of loopback at which no server listens, all different. No other process and no outgoing connection gets
    them while this process lives."""
    first = os.getpid() * 61 % len(_PORTS)
    with _lock:
        found = list(islice(filter(_reserve, (*_PORTS[first:], *_PORTS[:first])), count))
        _reserved.update(found)
    assert len(found) == count, "no port is free"
    return found


def _reserve(port: int) -> bool:
    """Whether the port is this process's from now on."""
    if port in _reserved:
        return False
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


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


@dataclass(frozen=True)
class TlsFiles:
    """A server's certificate, its key, and the certificate of who signed it."""

    certificate: Path
    key: Path
    authority: Path


class ServerProcess:
    """A server's process, in a group of its own. Its output goes to `log`."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._command = list(command)
        self.log: Final = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None  # None: not started

    @property
    def pid(self) -> int | None:
        """None: it does not run."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self) -> None:
        """Start it, also where it ran before."""
        assert self.pid is None, "it runs already"
        with self.log.open("ab") as output:
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
            self._process.wait(timeout=NEVER_S)
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
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it was never started"
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


class Servers(ABC):
    """Servers that belong together: started with the block, ended with it."""

    nodes: tuple[ServerProcess, ...] = ()
    """Their processes."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def answers(self, number: int) -> bool:
        """Whether a server takes part."""

    def start(self) -> None:
        """Start all that do not run, and wait until all take part."""
        for node in self.nodes:
            if node.pid is None:
                node.start()
        for number in range(len(self.nodes)):
            self.wait_for(number)

    def wait_for(self, number: int) -> None:
        """Wait until a server takes part."""
        try:
            wait_until(lambda: self.answers(number), what=f"{type(self).__name__}'s node {number}")
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.nodes[number].told()}") from late

    def close(self) -> None:
        """End all, and what they started."""
        for node in reversed(self.nodes):
            if node.pid is not None:
                node.kill()
