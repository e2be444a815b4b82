"""Found by a loaded CI machine: a follower that leaves its line waits for the line's end, and took a word of something
else for it. It asked over the line that was just broken: a store that was there counted as away."""

from __future__ import annotations

import threading
from typing import Any

from tenure.backends.zookeeper import ZooKeeperStore
from tenure.backends.zookeeper.connection import Connection
from tenure.coordination.records import Key, Put, Scope
from tests.contract.places import ZooKeeperPlace
from tests.kit.servers import ZooKeeperEnsemble

SCOPE = Scope("left")


def test_other_news_is_not_the_end_of_the_line(zookeeper: ZooKeeperEnsemble, monkeypatch: Any) -> None:
    place = ZooKeeperPlace(zookeeper)
    try:
        store = place.direct()
        assert isinstance(store, ZooKeeperStore)
        store.commit(SCOPE, guards=[], writes=[Put(Key("a"), b"", None)])
        assert store.glance(SCOPE).records
        followed, drop = store._following.scope(SCOPE), Connection.drop

        def slow(connection: Connection, *, silent: bool) -> None:
            """A renewal compares the picture meanwhile, and wakes all who wait; kazoo notices the end only then."""
            followed.wake()
            threading.Timer(0.3, drop, args=(connection,), kwargs={"silent": silent}).start()

        monkeypatch.setattr(Connection, "drop", slow)
        assert followed._at is not None
        connection, line = followed._at
        followed._leave()
        assert connection.line > line
        assert store.glance(SCOPE).records
    finally:
        place.close()
