"""The examination of a ZooKeeper ensemble: its servers, its clock, and the nodes of a scope without records.

Promise: only the word `srvr` is sent outside of a session; ZooKeeper permits it unless an administrator forbids it.
A ttl that the ensemble clips is refused by `open_session`, as for a member. Not promised: the state of servers that are
reached over TLS.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from tenure.backends.shared.answering import about_servers
from tenure.backends.zookeeper.connection import Connection, Ensemble
from tenure.backends.zookeeper.multi import MARKERS
from tenure.backends.zookeeper.reading import ask
from tenure.coordination.examination import Grade, Remark
from tenure.coordination.records import Scope

_ANSWERS_S: Final = 2.0
_MOST: Final = 4096
"""Bytes of an answer that are read."""
_MODE: Final = re.compile(r"^Mode: (\w+)", flags=re.MULTILINE)


class ZooKeeperExamination:
    """Of one ensemble. `connection`: the client's own, for requests."""

    local_folder = None
    has_scratch = True

    def __init__(self, ensemble: Ensemble, connection: Callable[[], Connection]) -> None:
        self._ensemble = ensemble
        self._connection = connection

    def examine(self, scope: Scope | None) -> Sequence[Remark]:
        if self._ensemble.tls:
            return (Remark(Grade.NOTE, "the single servers were not asked: they are reached over TLS"),)
        hosts = self._ensemble.hosts.split(",")
        return (about_servers("ZooKeeper", {host: cluster_of(host, mode_of(host)) for host in hosts}),)

    def server_time(self, scope: Scope) -> datetime | None:
        """A commit sets the scope's node, so its time is that of the commit."""
        (found,) = ask(self._connection(), lambda client: [client.exists_async(f"/{scope}")], "read a node")
        return None if found is None else datetime.fromtimestamp(found.mtime / 1000, UTC)

    def forget(self, scope: Scope) -> None:
        """The nodes of the scope stay where another client has put something below them."""
        connection = self._connection()
        for path in (f"/{scope}/{MARKERS}", f"/{scope}"):
            connection.ask(lambda client, path=path: [client.delete_async(path)])  # type: ignore[misc] # mypy#12557


def mode_of(host: str) -> str | None:
    """`leader`, `follower`, `standalone`, or another word; empty: the server answers, and does not say; None: no
    answer."""
    name, _, port = host.rpartition(":")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), timeout=_ANSWERS_S) as line:
            line.sendall(b"srvr")
            text = b""
            while len(text) < _MOST and (part := line.recv(_MOST)):
                text += part
    except OSError:
        return None
    if not text or b"not currently serving" in text:
        return None
    found = _MODE.search(text.decode(errors="replace"))
    return "" if found is None else found[1]


def cluster_of(host: str, mode: str | None) -> str | None:
    """A server by itself is an ensemble of its own. None: no answer."""
    return None if mode is None else host if mode == "standalone" else "ensemble"
