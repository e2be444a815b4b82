"""A real cluster of etcd on loopback, from the `etcd` that is installed.

Promise: `start` returns when every member answers; one that is stopped, killed or paused can be started or woken again
with its data and on its port. etcd 3.5.0 to 3.5.2 is refused: a crash under load could make its members differ
(etcd-io/etcd#13766).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tenure.testing.servers.process import ServerProcess, Servers, TlsFiles, free_ports, need
from tenure.testing.waiting import NEVER_S, wait_until

_UNSOUND: Final = ("3.5.0", "3.5.1", "3.5.2")


class EtcdCluster(Servers):
    """Members of one cluster, `node` 0, 1, 2; data and logs go below `folder`."""

    def __init__(
        self, folder: Path, *, nodes: int = 3, flags: tuple[str, ...] = (), tls: TlsFiles | None = None
    ) -> None:
        """`flags`: further flags for every member. `tls`: for what clients connect to; None: without."""
        self._folder = folder
        self._tls = tls
        ports = free_ports(2 * nodes)
        self.ports: Final = tuple(ports[:nodes])
        """Where clients connect to."""
        peers = ports[nodes:]
        members = ",".join(f"n{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
        self.nodes = tuple(self._node(number, peers[number], members, flags) for number in range(nodes))

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`host:port` each."""
        return tuple(f"127.0.0.1:{port}" for port in self.ports)

    def leader(self) -> int:
        """The number of the member that leads, once one says so."""

        def leading() -> list[int]:
            status = [self.ask(number, "maintenance/status", {}) for number in range(len(self.nodes))]
            found = [number for number, one in enumerate(status) if one["leader"] == one["header"]["member_id"]]
            return found if len(found) == 1 else []

        return wait_until(leading, what="one member to lead")[0]

    def compact(self) -> None:
        """Forget every revision but the newest."""
        revision = self.ask(0, "maintenance/status", {})["header"]["revision"]
        self.ask(0, "kv/compaction", {"revision": revision, "physical": True})

    def ask(self, number: int, what: str, body: Mapping[str, Any], *, token: str = "") -> Mapping[str, Any]:
        """A member's answer over HTTP; `token`: who asks, empty: nobody. Raises OSError."""
        request = urllib.request.Request(
            f"{self._url(number)}/v3/{what}",
            data=json.dumps(body).encode(),
            headers={"Authorization": token} if token else {},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=NEVER_S, context=self._context()) as answer:
            found: Mapping[str, Any] = json.load(answer)
        return found

    def answers(self, number: int) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url(number)}/health", timeout=2, context=self._context()) as answer:
                return bool(json.load(answer)["health"] == "true")
        except (OSError, urllib.error.URLError):
            return False

    def _url(self, number: int) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.ports[number]}"

    def _context(self) -> ssl.SSLContext | None:
        return None if self._tls is None else ssl.create_default_context(cafile=self._tls.authority)

    def _node(self, number: int, peer: int, members: str, flags: tuple[str, ...]) -> ServerProcess:
        folder = self._folder / f"etcd{number}"
        folder.mkdir(parents=True)
        client = self._url(number)
        files = () if self._tls is None else ("--cert-file", self._tls.certificate, "--key-file", self._tls.key)
        command = [
            _etcd(),
            *("--name", f"n{number}", "--data-dir", str(folder / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *(
                "--listen-peer-urls",
                f"http://127.0.0.1:{peer}",
                "--initial-advertise-peer-urls",
                f"http://127.0.0.1:{peer}",
            ),
            *("--initial-cluster", members, "--initial-cluster-state", "new"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
            *map(str, files),
            *flags,
        ]
        return ServerProcess(command, log=folder / "log")


def _etcd() -> str:
    """The `etcd` to run: `TENURE_TEST_ETCD`, or the one of the PATH."""
    found = os.environ.get("TENURE_TEST_ETCD") or shutil.which("etcd")
    need(found is not None, "etcd", fix="install Debian's etcd-server, or set TENURE_TEST_ETCD")
    assert found is not None
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"etcd Version: (\S+)", told)
    assert version is not None, told
    need(
        version[1] not in _UNSOUND, f"a sound etcd ({version[1]} can differ after a crash)", fix="install 3.4 or 3.5.3"
    )
    return found
