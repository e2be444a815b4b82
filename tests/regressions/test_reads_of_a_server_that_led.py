"""Found by mutants of the reads: ZooKeeper's `sync` is answered by the server that leads, alone.

A server that leads is stopped, the others elect another one, a record is changed, the first one wakes up. A read that
waited in its socket was answered at once, sync and all, with the record as it was: before it noticed that it leads no
more. A read now asks a majority to agree on something first. So it is with renewals, on etcd, too: a keep-alive is
answered by the server that leads, alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import timedelta

import pytest

from tenure.backends.etcd import session as etcd_session
from tenure.backends.zookeeper import store as zookeeper_store
from tenure.coordination.records import Key, Put, Scope, SessionId
from tenure.coordination.store import CoordinationStore
from tenure.errors import OutcomeUnknown, StoreUnavailable
from tests.contract.places import clients_of_one_server
from tests.kit.servers import EtcdCluster, ZooKeeperEnsemble
from tests.kit.waiting import NEVER_S, wait_until
from tests.support.proxy import TcpProxy

SCOPE, A = Scope("led"), Key("a")
OLD, NEW = b"old", b"new"
_PING = 11
"""ZooKeeper's number of it, in the third word of a request."""

Servers = ZooKeeperEnsemble | EtcdCluster


@pytest.fixture(params=["zookeeper", "etcd"])
def servers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    monkeypatch.setattr(zookeeper_store, "_OWN_TTL", timedelta(seconds=60))  # its line outlives the election
    monkeypatch.setattr(
        etcd_session, "_ASKED", 1
    )  # a second request of a renewal reaches a server that follows by then
    shared: Servers = request.getfixturevalue(request.param)
    yield shared
    for node in shared.nodes:
        node.wake()
    shared.start()


def read(store: CoordinationStore) -> bytes | None:
    record = store.read(SCOPE, A)
    return None if record is None else record.value


def listed(store: CoordinationStore) -> bytes | None:
    return next((record.value for record in store.list(SCOPE).records), None)


def told_by_a_server_that_led(
    servers: Servers,
    prepare: Callable[[CoordinationStore], Callable[[], object]],
    *,
    elected: Callable[[], object] = lambda: None,
) -> object:
    """What is answered to a request that reaches the server while it is stopped; the error, if it is not.

    `prepare` gets a client of that server, while it leads, and returns the request. `elected` is called when another
    server leads, before the request is sent."""
    led = servers.leader()
    client = clients_of_one_server(servers)
    with ExitStack() as stack:
        proxy = stack.enter_context(TcpProxy(("127.0.0.1", servers.ports[led])))
        there = stack.enter_context(closing(client(proxy.port)))
        elsewhere = stack.enter_context(closing(client(servers.ports[(led + 1) % len(servers.nodes)])))
        version = elsewhere.commit(SCOPE, guards=[], writes=[Put(A, OLD, None)]).versions[A]
        ask = prepare(there)
        servers.nodes[led].pause()

        def changed() -> bool:
            try:
                if read(elsewhere) == OLD:
                    elsewhere.commit(SCOPE, guards=[], writes=[Put(A, NEW, version)])
            except (StoreUnavailable, OutcomeUnknown):
                return False
            return True

        wait_until(changed, what="a change under another leader")
        elected()
        sent = threading.Event()

        def note(request: bytes) -> bool:
            if int.from_bytes(request[8:12], "big") != _PING:
                sent.set()
            return False

        proxy.drop_reply(note)  # only to see the request go by
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(ask)
            assert sent.wait(NEVER_S), "the request was not sent"
            servers.nodes[led].wake()
            return answer.exception() or answer.result()


@pytest.mark.parametrize("ask", [read, listed])
def test_a_server_that_led_answers_no_read_with_what_was(
    servers: Servers, ask: Callable[[CoordinationStore], bytes | None]
) -> None:
    def prepare(store: CoordinationStore) -> Callable[[], object]:
        assert ask(store) == OLD
        return lambda: ask(store)

    told = told_by_a_server_that_led(servers, prepare)
    assert told == NEW or isinstance(told, StoreUnavailable), f"it said {told!r}"


def test_a_server_that_led_renews_no_session(servers: Servers) -> None:
    """It knows nothing of sessions any more. The holder would believe in one for longer than the others keep it.

    A server of etcd that notices first that it leads no more asks the one that leads. Then the session is renewed."""
    opened: list[SessionId] = []

    def prepare(store: CoordinationStore) -> Callable[[], object]:
        session = store.open_session(ttl=timedelta(seconds=40))
        opened.append(session.id)
        session.renew()  # its line is open
        return session.renew

    def elected() -> None:
        """The server that leads by now gives each lease its whole ttl. Let some of it pass."""
        if isinstance(servers, EtcdCluster):
            wait_until(lambda: 0 < left_at(servers, others, opened[0]) < 35, what="some time of the lease to pass")

    led = servers.leader()
    others = [number for number in range(len(servers.nodes)) if number != led]
    told = told_by_a_server_that_led(servers, prepare, elected=elected)
    if told is None and isinstance(servers, EtcdCluster):
        left_s = wait_until(lambda: left_at(servers, others, opened[0]), what="a word about the lease")
        assert left_s >= 35, "it was renewed nowhere"
    else:
        assert isinstance(told, StoreUnavailable)


def left_at(servers: EtcdCluster, numbers: Sequence[int], session: SessionId) -> int:
    """The seconds that the lease lives. A server that follows asks the leader. 0: no server answered."""
    for number in numbers:
        with suppress(OSError):  # it looks for its leader
            return int(servers.ask(number, "lease/timetolive", {"ID": int(session, 16)}, timeout_s=2)["TTL"])
    return 0
