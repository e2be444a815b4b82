"""A session of the ZooKeeper store on a made-up connection: which line a failed renewal breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import KazooTimeoutError

from tenure.backends.zookeeper.connection import Connection
from tenure.backends.zookeeper.follower import ZooKeeperFollowing
from tenure.backends.zookeeper.session import ZooKeeperSession
from tenure.coordination.store import CoordinationStore
from tenure.errors import StoreUnavailable


class Line:
    """A connection on which each request fails. `breaks`: its line breaks meanwhile, and the next is open."""

    over = False
    session_id, password = 7, b"secret"

    def __init__(self, error: Exception, *, breaks: bool) -> None:
        self.line = 3
        self.dropped: list[bool] = []
        self._error, self._breaks = error, breaks

    def ask(self, request: Callable[[KazooClient], Sequence[Any]], *, timeout_s: float) -> list[Any]:
        self.line += self._breaks
        raise self._error

    def drop(self, *, silent: bool) -> None:
        self.dropped.append(silent)


@pytest.mark.parametrize(
    ("error", "breaks", "dropped"),
    [
        (KazooTimeoutError(), False, [True]),
        (KazooTimeoutError(), True, []),
        (ConnectionLoss(), False, [False]),
        (ConnectionLoss(), True, []),
        (StoreUnavailable("nothing was sent"), False, []),
    ],
)
def test_a_renewal_breaks_the_line_on_which_it_waited_and_no_other(
    error: Exception, breaks: bool, dropped: list[bool]
) -> None:
    """The next line was broken too, and with it the renewal that was tried again on it."""
    line = Line(error, breaks=breaks)
    session = ZooKeeperSession(
        cast(CoordinationStore, None),
        cast(Connection, line),
        timedelta(seconds=6),
        following=cast(ZooKeeperFollowing, SimpleNamespace(due=lambda: None)),
        renewed=lambda: None,
        forget=lambda session: None,
    )
    with pytest.raises(StoreUnavailable):
        session.renew()
    assert line.dropped == dropped
