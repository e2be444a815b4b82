"""A real ensemble of ZooKeeper on loopback, from the jars that PySpark brings.

Promise: `start` returns when every server answers; one that is stopped, killed or paused can be started or woken again
with its data and on its port. Not promised: any speed; the servers share the machine with the test.
"""

from __future__ import annotations

import shutil
import socket
import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tenure.backends.zookeeper.connection import Connection, Ensemble
from tenure.testing.servers.process import ServerProcess, Servers, TlsFiles, free_ports, need
from tenure.testing.waiting import wait_until

TICK: Final = timedelta(milliseconds=250)
"""ZooKeeper ends a session up to one tick after its time."""

_FLAGS: Final = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


class ZooKeeperEnsemble(Servers):
    """Servers of one ensemble, `node` 0, 1, 2; data and logs go below `folder`."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 3,
        settings: tuple[str, ...] = (),
        flags: tuple[str, ...] = (),
        tls: TlsFiles | None = None,
    ) -> None:
        """`settings`: further lines for every server's file. `flags`: further flags for every JVM. `tls`: for what
        clients connect to at `tls_ports`; None: without."""
        self._folder = folder
        self._flags = flags
        ports = free_ports(4 * nodes)
        self.ports: Final = tuple(ports[:nodes])
        """Where clients connect to."""
        self.tls_ports: Final = tuple(ports[3 * nodes :])
        """Where clients connect to over TLS."""
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
        line = Connection(Ensemble(hosts=self.hosts), ttl=timedelta(seconds=10), pings=True)
        line.open()
        line.client.create(path)
        line.close()

    def remove(self, path: str) -> None:
        """Remove a node with all below it."""
        line = Connection(Ensemble(hosts=self.hosts), ttl=timedelta(seconds=10), pings=True)
        line.open()
        line.client.delete(path, recursive=True)
        line.close()

    def answers(self, number: int) -> bool:
        return self.mode(number) != ""

    def leader(self) -> int:
        """The number of the server that leads, once one says so."""

        def leading() -> list[int]:
            found = [number for number in range(len(self.nodes)) if self.mode(number) in ("leader", "standalone")]
            return found if len(found) == 1 else []

        return wait_until(leading, what="one server to lead")[0]

    def mode(self, number: int) -> str:
        """`leader`, `follower`, `standalone`; empty: it does not take part."""
        for line in self.command(number, "srvr").splitlines():
            name, _, value = line.partition(": ")
            if name == "Mode":
                return value.strip()
        return ""

    def command(self, number: int, word: str) -> str:
        """A server's answer to one of its four-letter words; empty: it does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.ports[number]), timeout=2) as line:
                line.sendall(word.encode())
                parts = iter(lambda: line.recv(65536), b"")
                return b"".join(parts).decode(errors="replace")
        except OSError:
            return ""

    def _node(self, number: int, lines: tuple[str, ...]) -> ServerProcess:
        folder = self._folder / f"zookeeper{number}"
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(str(number + 1))
        tick_ms = TICK // timedelta(milliseconds=1)
        content = [
            f"tickTime={tick_ms}",
            "initLimit=40",
            "syncLimit=12",
            f"dataDir={folder}/data",
            f"clientPort={self.ports[number]}",
            "clientPortAddress=127.0.0.1",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
            f"minSessionTimeout={2 * tick_ms}",
            "maxSessionTimeout=120000",
            *lines,
            *self._tls_settings(number, folder),
        ]
        (folder / "zoo.cfg").write_text("\n".join(content) + "\n")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [java(), *_FLAGS, *self._flags, "-cp", spark_jars(), main, str(folder / "zoo.cfg")]
        return ServerProcess(command, log=folder / "log")

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


def java() -> str:
    """The one of the PATH. Raises NotInstalled."""
    found = shutil.which("java")
    need(found is not None, "Java", fix="install openjdk-17-jre-headless")
    assert found is not None
    return found


def spark_jars() -> str:
    """A class path: all jars of PySpark. Raises NotInstalled."""
    spark = find_spec("pyspark")
    need(spark is not None, "PySpark, which brings ZooKeeper's jars", fix=f"{sys.executable} -m pip install pyspark")
    assert spark is not None
    assert spark.origin is not None
    return str(Path(spark.origin).parent / "jars" / "*")
