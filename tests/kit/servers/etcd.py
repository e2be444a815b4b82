"""A real cluster of etcd on loopback, from the `etcd` that is installed.

Promise: etcd 3.5.0 to 3.5.2 is refused: a crash under load can make its members differ (etcd-io/etcd#13766).
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kit.process import GroupProcess
from tests.kit.servers.process import ElectingServers, TlsFiles, free_ports
from tests.kit.servers.programs import need, program
from tests.kit.waiting import NEVER_S

_UNSOUND: Final = ("3.5.0", "3.5.1", "3.5.2")


class EtcdCluster(ElectingServers):
    """The members of one cluster; data and logs go below `folder`."""

    def __init__(
        self, folder: Path, *, nodes: int = 3, flags: tuple[str, ...] = (), tls: TlsFiles | None = None
    ) -> None:
        """`flags`: more flags for every member. `tls`: the certificate for clients; None: no TLS."""
        self._folder = folder
        self._tls = tls
        ports = free_ports(2 * nodes)
        self.ports: Final = tuple(ports[:nodes])
        """Of the members, for clients."""
        peers = ports[nodes:]
        members = ",".join(f"n{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
        self.nodes = tuple(self._node(number, peers[number], members, flags) for number in range(nodes))

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`host:port` each."""
        return tuple(f"127.0.0.1:{port}" for port in self.ports)

    def leads(self, number: int) -> bool:
        status = self.ask(number, "maintenance/status", {})
        return bool(status["leader"] == status["header"]["member_id"])

    def compact(self) -> None:
        """Remove every revision but the newest."""
        revision = self.ask(0, "maintenance/status", {})["header"]["revision"]
        self.ask(0, "kv/compaction", {"revision": revision, "physical": True})

    def ask(
        self, number: int, what: str, body: Mapping[str, Any], *, token: str = "", timeout_s: float = NEVER_S
    ) -> Mapping[str, Any]:
        """A member's answer over HTTP. `token`: of the user that asks; empty: no user. Raises OSError."""
        request = urllib.request.Request(
            f"{self._url(number)}/v3/{what}",
            data=json.dumps(body).encode(),
            headers={"Authorization": token} if token else {},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=timeout_s, context=self._context()) as answer:
            return dict(json.load(answer))

    def metrics(self, number: int) -> str:
        """A member's own figures, as Prometheus reads them."""
        with urllib.request.urlopen(f"{self._url(number)}/metrics", timeout=NEVER_S, context=self._context()) as answer:
            return bytes(answer.read()).decode()

    def answers(self, number: int) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url(number)}/health", timeout=2, context=self._context()) as answer:
                return bool(json.load(answer)["health"] == "true")
        except OSError:
            return False

    def _url(self, number: int) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.ports[number]}"

    def _context(self) -> ssl.SSLContext | None:
        return None if self._tls is None else ssl.create_default_context(cafile=self._tls.authority)

    def _node(self, number: int, peer: int, members: str, flags: tuple[str, ...]) -> GroupProcess:
        folder = self._folder / f"etcd{number}"
        folder.mkdir(parents=True)
        client = self._url(number)
        files = () if self._tls is None else ("--cert-file", self._tls.certificate, "--key-file", self._tls.key)
        command = [
            _etcd(),
            *("--name", f"n{number}", "--data-dir", str(folder / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-cluster", members, "--initial-cluster-state", "new"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
            "--auto-compaction-retention=1h",
            *map(str, files),
            *flags,
        ]
        return GroupProcess(command, log=folder / "log")


def _etcd() -> str:
    """The `etcd` to run. Raises NotInstalled."""
    path = program("etcd", "etcd", fix="install Debian's etcd-server")
    printed = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"etcd Version: (\S+)", printed)
    assert version is not None, printed
    sound = f"a sound etcd ({version[1]} can differ after a crash)"
    need(version[1] not in _UNSOUND, sound, fix="install 3.4 or 3.5.3")
    return path
