"""A request to a scope that nobody ever ran is refused, names the scopes that are there, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.errors import AccessDenied, UsageError
from tenure.operate.orders import Orders
from tenure.operate.scopes import known_records
from tests.kit.conformance.fixture import put_new
from tests.kit.faulty import FaultyStore, commits
from tests.kit.memory import MemoryStore

ROWS = Scope("rows")

ASKED: dict[str, Callable[[Orders], object]] = {
    "pause": Orders.pause,
    "resume": Orders.resume,
    "restart": lambda orders: orders.restart("anna"),
    "switchover": lambda orders: orders.switchover(to=None),
    "failover": lambda orders: orders.failover(to="anna"),
}


@pytest.mark.parametrize("word", ASKED)
def test_a_request_to_a_scope_that_is_not_there(word: str) -> None:
    store = FaultyStore(MemoryStore())
    for name in ("flights", "shop"):
        put_new(store, "epoch", scope=Scope(name))
    before = len([call for call in store.calls if commits(call)])
    with pytest.raises(UsageError) as refused:
        ASKED[word](Orders(store, ROWS, clock=SystemClock()))
    assert str(refused.value) == "scope 'rows' is not in this store (memory); known: ['flights', 'shop']"
    assert len([call for call in store.calls if commits(call)]) == before
    assert store.list(ROWS).records == ()


def test_a_store_without_scopes() -> None:
    with pytest.raises(
        UsageError,
        match=r"no other scope; check --store: .* not mounted looks like an empty store; only",
    ):
        known_records(MemoryStore(), ROWS)


def test_a_store_with_many_scopes() -> None:
    store = MemoryStore()
    for number in range(25):
        put_new(store, "epoch", scope=Scope(f"s{number:02}"))
    with pytest.raises(UsageError, match=r"'s18', 's19'\] and 5 more$"):
        known_records(store, ROWS)


def test_a_user_who_may_not_list_the_scopes() -> None:
    class Strict(FaultyStore):
        def scopes(self) -> Sequence[Scope]:
            raise AccessDenied("no right to do that")

    with pytest.raises(UsageError, match=r"is not in this store .*; check --scope; only the first member"):
        known_records(Strict(MemoryStore()), ROWS)


def test_a_scope_that_is_there() -> None:
    store = MemoryStore()
    put_new(store, "members/anna", scope=ROWS)
    assert [record.key for record in known_records(store, ROWS)] == ["members/anna"]
