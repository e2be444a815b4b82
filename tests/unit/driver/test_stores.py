"""The store of a member's leaderships: no request before the election, a connection at once after it."""

from __future__ import annotations

import threading

import pytest

from tenure.coordination.records import Key, Record, Scope
from tenure.driver.stores import LeadersStore
from tenure.errors import StoreUnavailable
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S

SCOPE = Scope("rows")


class Seen(MemoryStore):
    """Notes its reads and its end."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.asked, self.closed = threading.Event(), False

    def read(self, scope: Scope, key: Key) -> Record | None:
        self.asked.set()
        return super().read(scope, key)

    def close(self) -> None:
        self.closed = True


def test_it_is_opened_by_each_election_and_closed_by_each_rest() -> None:
    server, made = MemoryServer(), list[Seen]()

    def make() -> Seen:
        made.append(Seen(server))
        return made[-1]

    store = LeadersStore(make, SCOPE)
    for turn in (1, 2):
        assert len(made) == turn
        assert not made[-1].asked.is_set()
        with pytest.raises(StoreUnavailable, match="makes no request"):
            store.list(SCOPE)
        store.elected()
        store.elected()  # the words of the agent and of the leadership
        assert made[-1].asked.wait(NEVER_S)  # connects before anything asks
        assert store.list(SCOPE).records == ()
        store.rest()
        assert [one.closed for one in made] == [True] * turn + [False]
    store.close()
    assert all(one.closed for one in made)
