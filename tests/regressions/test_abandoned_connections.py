"""Found by a test of the ensembles: a connection was abandoned while kazoo opened a line, and kazoo kept that line.

`abandon` tells kazoo to stop, breaks the line, and waits for kazoo's thread. There was no line to break yet, and kazoo
looks for the word to stop only before it opens a line. So the thread went on, and `abandon` waited for it for good; a
store that abandoned a connection whose first look had failed answered nobody any more.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from tenure.backends.zookeeper import Ensemble
from tenure.backends.zookeeper.connection import Connection, _Handler, _Threads
from tests.kit.servers import ZooKeeperEnsemble
from tests.kit.waiting import NEVER_S


def test_a_connection_that_is_abandoned_while_it_opens_a_line_ends(
    zookeeper: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(Ensemble(hosts=zookeeper.hosts), ttl=timedelta(seconds=10), pings=True)
    connection.open()
    abandoning = threading.Thread(target=connection.abandon, daemon=True)
    looked_for_a_line = threading.Event()
    open_line, drop = _Threads.create_connection, _Handler.drop

    def drop_noted(handler: _Handler, *, silent: bool) -> None:
        drop(handler, silent=silent)
        if handler.client._stopped.is_set():
            looked_for_a_line.set()

    def open_late(threads: _Threads, *args: Any, **kwargs: Any) -> Any:
        if not looked_for_a_line.is_set():
            abandoning.start()
            assert looked_for_a_line.wait(NEVER_S)
        return open_line(threads, *args, **kwargs)

    monkeypatch.setattr(_Handler, "drop", drop_noted)
    monkeypatch.setattr(_Threads, "create_connection", open_late)
    connection.drop(silent=False)  # kazoo opens another line
    assert looked_for_a_line.wait(NEVER_S)
    abandoning.join(NEVER_S)
    assert not abandoning.is_alive(), "kazoo goes on with the new line"
