"""A ZooKeeper store leaves no connection behind."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.zookeeper import Ensemble, ZooKeeperStore
from tenure.backends.zookeeper import store as zookeeper_store
from tenure.coordination.records import Key, Scope
from tenure.errors import StoreUnavailable


def test_a_connection_that_cannot_look_for_the_chroot_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Opened:
        over = False

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        def open(self) -> None:
            calls.append("open")

        def abandon(self) -> None:
            calls.append("abandon")

    def unanswered(*args: Any) -> list[Any]:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(zookeeper_store, "Connection", Opened)
    monkeypatch.setattr(zookeeper_store, "ask", unanswered)
    store = ZooKeeperStore(Ensemble(hosts="127.0.0.1:1"))
    for tries in (1, 2):
        with pytest.raises(StoreUnavailable):
            store.read(Scope("sales"), Key("a"))
        assert calls == ["open", "abandon"] * tries
