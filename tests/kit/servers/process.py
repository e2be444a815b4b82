"""Servers as a block, on ports that no other process has."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final, Self

from tests.kit.process import GroupProcess
from tests.kit.waiting import wait_until

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


@dataclass(frozen=True)
class TlsFiles:
    """A server's certificate, its key, and the certificate of the authority that signed it."""

    certificate: Path
    key: Path
    authority: Path


class Servers(ABC):
    """Servers that belong together. They start and end with the block."""

    nodes: tuple[GroupProcess, ...] = ()

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
        """Start the servers that do not run, and wait until all take part."""
        for node in self.nodes:
            if not node.running:
                node.start()
        for number in range(len(self.nodes)):
            self.wait_for(number)

    def wait_for(self, number: int) -> None:
        """Wait until a server takes part. Raises TimeoutError with the server's output."""
        try:
            wait_until(lambda: self.answers(number), what=f"{type(self).__name__}'s node {number}")
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.nodes[number].output()[-2000:]}") from late

    def close(self) -> None:
        """Kill all servers and their children."""
        for node in reversed(self.nodes):
            if node.running:
                node.kill()


class ElectingServers(Servers):
    """Servers that elect a leader among themselves."""

    @abstractmethod
    def leads(self, number: int) -> bool:
        """Whether a server says that it leads."""

    def leader(self) -> int:
        """The number of the leader. Waits until exactly one server says that it leads."""

        def leading() -> list[int]:
            leaders = [number for number in range(len(self.nodes)) if self.leads(number)]
            return leaders if len(leaders) == 1 else []

        return wait_until(leading, what="one server to lead")[0]
