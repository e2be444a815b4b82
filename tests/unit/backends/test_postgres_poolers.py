"""A pooler is known by the processes that answer: of a connection, and of another connection beside it."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.postgres import client, place_of
from tenure.backends.postgres.client import PostgresClient
from tenure.backends.postgres.errors import NoReply
from tenure.clock import SystemClock
from tenure.coordination.store_url import split_url


class Answering:
    """A connection whose process has these numbers, one after the other."""

    def __init__(self, *pids: int, ends: str = "") -> None:
        self.server: dict[str, Any] = {}
        self._pids = list(pids)
        self._ends = ends
        self.closed = False

    def rows(self, request: str, *, within_s: float) -> list[Any]:
        if self._ends:
            raise NoReply(self._ends)
        answer = [(b"%d" % self._pids.pop(0),)]
        return [[], answer] if request.startswith("begin") else [answer]

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("connection", "beside", "is_shared"),
    [
        (Answering(7, 7), Answering(8), False),
        (Answering(7, 8), Answering(7), True),
        (Answering(7, 9), Answering(8), True),
        (Answering(7, 7), Answering(7), True),
        (Answering(7, 7), Answering(ends="transaction blocks not allowed in statement pooling mode"), True),
    ],
)
def test_a_pooler_of_transactions_is_known(
    monkeypatch: pytest.MonkeyPatch, connection: Any, beside: Any, is_shared: bool
) -> None:
    monkeypatch.setattr(client, "connect", lambda server, *, connect_s, clock: beside)
    place = place_of(split_url("postgresql://ann@h1/db"))
    asked = PostgresClient(place, existing=True, clock=SystemClock())
    assert asked._is_shared(connection) is is_shared
    assert beside.closed
