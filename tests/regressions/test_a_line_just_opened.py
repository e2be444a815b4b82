"""Found among twenty contenders: kazoo says that a line is open before its own `_connect` has returned, and what was
agreed on as the session's ttl was noted after that."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from kazoo.protocol.connection import ConnectionHandler

from tenure.backends.zookeeper.connection import Connection, Ensemble
from tests.kit.servers import ZooKeeperEnsemble
from tests.kit.waiting import NEVER_S


def test_the_ttl_is_known_as_soon_as_the_line_is_open(
    zookeeper: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, connect = threading.Event(), ConnectionHandler._connect

    def slow(self: Any, *args: Any) -> Any:
        agreed = connect(self, *args)
        gate.wait(timeout=NEVER_S)
        return agreed

    monkeypatch.setattr(ConnectionHandler, "_connect", slow)
    line = Connection(Ensemble(hosts=zookeeper.hosts), ttl=timedelta(seconds=10), pings=True)
    try:
        line.open()
        assert line.ttl == timedelta(seconds=10)
    finally:
        gate.set()
        line.close()
