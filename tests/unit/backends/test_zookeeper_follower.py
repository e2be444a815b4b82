"""The follower of the ZooKeeper store, between a listing of one server and the line to another that is behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.backends.zookeeper import follower
from tenure.backends.zookeeper.connection import Connection
from tenure.backends.zookeeper.follower import ZooKeeperFollowed
from tenure.coordination.records import Key, Record, Scope, Version
from tests.kit.clock import ManualClock

SCOPE, A = Scope("rows"), Key("a")


class Ensemble:
    """Two servers of one scope with one record: the revision that each shows."""

    def __init__(self) -> None:
        self.ahead, self.behind = 1, 1
        self.listings = 0
        self._line = cast(Connection, SimpleNamespace(line=1))

    def standing(self) -> Connection:
        return self._line

    def of_requests(self) -> Connection:
        return self._line

    def listed(self, *args: Any) -> tuple[list[Record], int]:
        self.listings += 1
        return [self._record(self.ahead)], self.ahead

    def node(self, *args: Any) -> dict[Key, Record | None]:
        return {A: self._record(self.behind)}

    def watched(self, *args: Any) -> list[Any]:
        return [True]

    def revision(self, *args: Any) -> int:
        return self.behind

    def _record(self, revision: int) -> Record:
        return Record(A, str(revision).encode(), Version(str(revision)), None)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    made = Ensemble()
    monkeypatch.setattr(follower, "read_scope", made.listed)
    monkeypatch.setattr(follower, "ask", made.watched)
    monkeypatch.setattr(follower, "read_revision", made.revision)
    monkeypatch.setattr(ZooKeeperFollowed, "_nodes", made.node)
    return made


def test_what_is_older_than_the_picture_is_not_taken(servers: Ensemble) -> None:
    followed = ZooKeeperFollowed(SCOPE, servers, clock=ManualClock())
    assert followed.glance("").records[0].value == b"1"
    servers.ahead, servers.behind = 20, 10
    followed._look()
    followed.heard("/rows/a")  # of revision 10
    found = followed.glance("")
    assert (found.records[0].value, found.revision) == (b"20", 20)
    servers.ahead = servers.behind = 30
    before = servers.listings
    followed.heard("/rows/a")
    assert followed.glance("").records[0].value == b"30"
    assert servers.listings == before, "no listing where the line has caught up"


def test_a_look_asks_for_its_line_in_its_turn(servers: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred who wait for their turn would each try a line that was closed meanwhile, for five seconds."""
    followed = ZooKeeperFollowed(SCOPE, servers, clock=ManualClock())
    in_turn: list[bool] = []
    standing = servers.standing

    def asked() -> Connection:
        in_turn.append(followed._turn.locked())
        return standing()

    monkeypatch.setattr(servers, "standing", asked)
    assert followed.glance("").records
    assert in_turn == [True]


def test_a_scope_that_was_removed_is_seen(servers: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    followed = ZooKeeperFollowed(SCOPE, servers, clock=ManualClock())
    assert followed.glance("").records
    monkeypatch.setattr(follower, "read_revision", lambda *args: 0)
    monkeypatch.setattr(follower, "read_scope", lambda *args: ([], 0))
    followed.heard("/rows/a")
    assert followed.glance("").records == ()
