"""One client for all threads of a page: opened at the first use, and again after a failure."""

from __future__ import annotations

import pytest

from tenure.coordination.records import Key, Scope
from tenure.errors import AccessDenied, StoreUnavailable, TenureError
from tenure.ui.store_client import StoreClient
from tests.kit.memory import MemoryServer, MemoryStore


class Opened(MemoryStore):
    """A store that notes its end."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class Opener:
    """Opens stores, or refuses."""

    def __init__(self) -> None:
        self.made: list[Opened] = []
        self.refuses = False

    def __call__(self) -> Opened:
        if self.refuses:
            raise StoreUnavailable("no such store")
        self.made.append(Opened(MemoryServer()))
        return self.made[-1]


def test_all_users_share_one_client() -> None:
    opener = Opener()
    client = StoreClient(opener)
    assert opener.made == []
    with client.use() as one, client.use() as other:
        assert one is other
        one.read(Scope("rows"), Key("epoch"))
    with client.use() as again:
        assert again is one
    assert (len(opener.made), opener.made[0].closed) == (1, 0)


@pytest.mark.parametrize(("error", "opened"), [(StoreUnavailable("away"), 2), (AccessDenied("no right"), 1)])
def test_after_a_failure_the_next_use_opens_another(error: TenureError, opened: int) -> None:
    opener = Opener()
    client = StoreClient(opener)

    def fail() -> None:
        with client.use():
            raise error

    with pytest.raises(type(error)):
        fail()
    with client.use():
        assert len(opener.made) == opened


def test_a_client_is_closed_by_its_last_user() -> None:
    opener = Opener()
    client = StoreClient(opener)

    def fail() -> None:
        with client.use():
            raise StoreUnavailable("away")

    with client.use():
        with pytest.raises(StoreUnavailable):
            fail()
        assert opener.made[0].closed == 0, "this block uses it still"
        with client.use():
            assert len(opener.made) == 2
    assert [one.closed for one in opener.made] == [1, 0]
    client.close()
    client.close()
    assert [one.closed for one in opener.made] == [1, 1]


def test_a_store_that_is_not_there_is_looked_for_again() -> None:
    opener = Opener()
    opener.refuses = True
    client = StoreClient(opener)
    for _ in range(2):
        with pytest.raises(StoreUnavailable), client.use():
            raise AssertionError
    opener.refuses = False
    with client.use():
        assert len(opener.made) == 1
