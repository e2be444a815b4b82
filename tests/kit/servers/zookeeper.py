"""A real ensemble of ZooKeeper on loopback, from PySpark's jars."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from tenure.backends.zookeeper.connection import Connection, Ensemble
from tests.kit.process import GroupProcess
from tests.kit.servers.process import ElectingServers, TlsFiles, free_ports
from tests.kit.servers.programs import jvm
from tests.kit.waiting import NEVER_S

_TICK_MS: Final = 250
"""ZooKeeper ends a session up to one tick after its time."""


class ZooKeeperEnsemble(ElectingServers):
    """The servers of one ensemble; data and logs go below `folder`."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        settings: tuple[str, ...] = (),
        flags: tuple[str, ...] = (),
        tls: TlsFiles | None = None,
    ) -> None:
        """`settings`: more lines for every server's file. `flags`: more flags for every JVM. `tls`: the certificate at
        `tls_ports`; None: no TLS."""
        self._folder = folder
        self._flags = flags
        ports = free_ports(4 * nodes)
        self.ports: Final = tuple(ports[:nodes])
        """Of the servers, for clients without TLS."""
        self.tls_ports: Final = tuple(ports[3 * nodes :])
        self._tls = tls
        peers = [
            f"server.{number + 1}=127.0.0.1:{ports[nodes + number]}:{ports[2 * nodes + number]}"
            for number in range(nodes)
        ]
        lines = (*settings, *(peers if nodes > 1 else ()))
        self.nodes = tuple(self._node(number, lines) for number in range(nodes))

    @property
    def hosts(self) -> str:
        """For a store's URL."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def create(self, path: str) -> None:
        """Make a node, for a store's chroot."""
        with self._client() as client:
            client.create(path)

    def remove(self, path: str) -> None:
        """Remove a node with all nodes below it."""
        with self._client() as client:
            client.delete(path, recursive=True)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        with closing(Connection(Ensemble(hosts=self.hosts), ttl=timedelta(seconds=10), pings=True)) as connection:
            connection.open()
            yield connection.client

    def answers(self, number: int) -> bool:
        return self._mode(number) != ""

    def leads(self, number: int) -> bool:
        return self._mode(number) in ("leader", "standalone")

    def ask(self, number: int, word: str, *, timeout_s: float = NEVER_S) -> str:
        """A server's answer to a word of four letters. Raises OSError."""
        with socket.create_connection(("127.0.0.1", self.ports[number]), timeout=timeout_s) as line:
            line.sendall(word.encode())
            return b"".join(iter(lambda: line.recv(65536), b"")).decode()

    def _mode(self, number: int) -> str:
        """`leader`, `follower`, `standalone`; empty: the server does not take part."""
        try:
            answer = self.ask(number, "srvr", timeout_s=2)
        except OSError:
            return ""
        mode = re.search(r"^Mode: (\w+)", answer, re.MULTILINE)
        return "" if mode is None else mode[1]

    def _node(self, number: int, lines: tuple[str, ...]) -> GroupProcess:
        folder = self._folder / f"zookeeper{number}"
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(str(number + 1))
        content = [
            f"tickTime={_TICK_MS}",
            "initLimit=40",
            "syncLimit=12",
            f"dataDir={folder}/data",
            f"clientPort={self.ports[number]}",
            "clientPortAddress=127.0.0.1",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
            f"minSessionTimeout={2 * _TICK_MS}",
            "maxSessionTimeout=120000",
            *lines,
            *self._tls_settings(number, folder),
        ]
        (folder / "zoo.cfg").write_text("\n".join(content) + "\n")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return GroupProcess(jvm(main, str(folder / "zoo.cfg"), flags=self._flags), log=folder / "log")

    def _tls_settings(self, number: int, folder: Path) -> tuple[str, ...]:
        if self._tls is None:
            return ()
        both = folder / "server.pem"
        both.write_bytes(self._tls.key.read_bytes() + self._tls.certificate.read_bytes())
        return (
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"secureClientPort={self.tls_ports[number]}",
            f"ssl.keyStore.location={both}",
            "ssl.keyStore.type=PEM",
            f"ssl.trustStore.location={self._tls.authority}",
            "ssl.trustStore.type=PEM",
        )
