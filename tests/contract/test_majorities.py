"""What a single server has may be old: it answers no read before it has heard from a majority.

The server is a real one, reached directly, and the others are stopped (SIGSTOP): their lines stand, they say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import StoreUnavailable
from tests.contract.places import clients_of_one_server
from tests.kit.servers import EtcdCluster, ZooKeeperEnsemble
from tests.kit.waiting import wait_until

SCOPE, A = Scope("majorities"), Key("a")

Servers = ZooKeeperEnsemble | EtcdCluster


@pytest.fixture(params=["zookeeper", "etcd"])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    shared: Servers = request.getfixturevalue(request.param)
    yield shared
    for node in shared.nodes:
        node.wake()
    shared.start()


def value(store: CoordinationStore) -> bytes | None:
    record = store.read(SCOPE, A)
    return None if record is None else record.value


def listed(store: CoordinationStore) -> bytes | None:
    return next((record.value for record in store.list(SCOPE).records), None)


def answers_nothing_alone(servers: Servers, ask: Callable[[CoordinationStore], bytes | None]) -> None:
    follower = (servers.leader() + 1) % len(servers.nodes)
    others = [node for number, node in enumerate(servers.nodes) if number != follower]
    with closing(clients_of_one_server(servers)(servers.ports[follower])) as store:
        store.commit(SCOPE, guards=[], writes=[Put(A, b"perhaps old", None)])
        assert ask(store) == b"perhaps old"
        for node in others:
            node.pause()
        with pytest.raises(StoreUnavailable):
            ask(store)
        for node in others:
            node.wake()

        def again() -> bytes | None:
            try:
                return ask(store)
            except StoreUnavailable:
                return None

        assert wait_until(again) == b"perhaps old"


def test_a_server_without_the_others_answers_no_read(servers: Servers) -> None:
    answers_nothing_alone(servers, value)


def test_a_server_without_the_others_answers_no_listing(servers: Servers) -> None:
    answers_nothing_alone(servers, listed)
