"""How stores follow a scope: an idle member sends renewals and nothing else, and a line that went deaf is found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from kazoo.client import KazooClient

from tenure.backends.etcd import EtcdStore, rpc
from tenure.backends.kubernetes import KubernetesStore
from tenure.backends.kubernetes import follower as kubernetes_follower
from tenure.backends.shared import following
from tenure.backends.zookeeper import ZooKeeperStore
from tenure.backends.zookeeper import store as zookeeper_store
from tenure.backends.zookeeper.follower import AddWatch
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.election import Election
from tenure.coordination.records import Delete, Key, Put, Revision, Scope, Version
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import Changes, CoordinationStore
from tenure.errors import StoreUnavailable
from tests.contract.places import EtcdPlace, KubernetesPlace, Place, ZooKeeperPlace
from tests.kit.servers import EtcdCluster, KubernetesServer, ZooKeeperEnsemble
from tests.kit.waiting import NEVER, NEVER_S, wait_until
from tests.support.api_gate import ApiGate
from tests.support.store_fixtures import KubernetesRig

SCOPE, CLOCK = Scope("followed"), SystemClock()
A, B = Key("a"), Key("b")
LONG = timedelta(hours=1)
RENEWALS = 6
"""How many renewals an idle member makes while its requests are counted."""


@pytest.fixture(params=["zookeeper", "etcd"])
def place(request: pytest.FixtureRequest, zookeeper: ZooKeeperEnsemble, etcd: EtcdCluster) -> Iterator[Place]:
    made = ZooKeeperPlace(zookeeper) if request.param == "zookeeper" else EtcdPlace(etcd)
    yield made
    made.close()


@pytest.fixture(params=["zookeeper", "etcd", "kubernetes"])
def line(
    request: pytest.FixtureRequest, zookeeper: ZooKeeperEnsemble, etcd: EtcdCluster, kubernetes: KubernetesServer
) -> Iterator[Place]:
    """A place on a server that sends changes."""
    made: Place = (
        KubernetesPlace(kubernetes)
        if request.param == "kubernetes"
        else ZooKeeperPlace(zookeeper)
        if request.param == "zookeeper"
        else EtcdPlace(etcd)
    )
    yield made
    made.close()


def put(store: CoordinationStore, key: Key, value: bytes = b"", replaces: Version | None = None) -> Version:
    return store.commit(SCOPE, guards=[], writes=[Put(key, value, replaces)]).versions[key]


def keys(store: CoordinationStore) -> list[str]:
    return [str(record.key) for record in store.glance(SCOPE).records]


# --- idle members -----------------------------------------------------------------------------------------------------


class Counted:
    """The requests of all clients, by name."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.renewals = 0

    def since(self, start: int) -> set[str]:
        return set(self.made[start:])


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Every request that goes to kazoo, or to a service of etcd."""
    found = Counted()
    call, init = KazooClient._call, rpc.Endpoint.__init__

    def counted_call(client: KazooClient, request: Any, answer: Any) -> Any:
        empty = type(request).__name__ == "Transaction" and not request.operations
        found.renewals += empty
        found.made.append("renewal" if empty else type(request).__name__)
        return call(client, request, answer)

    def counted_init(endpoint: Any, *args: Any) -> None:
        init(endpoint, *args)
        for service in ("kv", "lease", "watch", "auth"):
            setattr(endpoint, service, CountedStub(getattr(endpoint, service), found))

    monkeypatch.setattr(KazooClient, "_call", counted_call)
    monkeypatch.setattr(rpc.Endpoint, "__init__", counted_init)
    return found


class CountedStub:
    """A service of etcd whose calls are counted."""

    def __init__(self, stub: Any, found: Counted) -> None:
        self._stub = stub
        self._found = found

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._stub, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            # The read that confirms a renewal is a part of it.
            confirms = name == "Range" and (args[0].count_only or args[0].limit == 1)
            self._found.renewals += name == "LeaseKeepAlive"
            self._found.made.append("renewal" if name == "LeaseKeepAlive" else "confirmation" if confirms else name)
            return method(*args, **kwargs)

        return counted


class Idle:
    """A leader and a standby whose pipeline does nothing."""

    def __init__(self, open_: Callable[[], CoordinationStore]) -> None:
        self._stack = ExitStack()
        self._stop = threading.Event()
        self._stack.callback(self._stop.set)
        self.looks = {"anna": 0, "ben": 0}
        leading, keeper = self._member("anna", open_())
        term = leading.campaign(keeper, stop=self._stop)
        assert term is not None
        self._stack.enter_context(leading.attending(term, on_look=lambda records: self._look("anna")))
        standing, standby = self._member("ben", open_())
        thread = threading.Thread(
            target=standing.campaign,
            args=(standby,),
            kwargs={"stop": self._stop, "on_look": lambda records: self._look("ben")},
            daemon=True,
        )
        thread.start()
        self._stack.callback(thread.join, NEVER_S)
        self._stack.callback(self._stop.set)
        self.wait(3)

    def wait(self, looks: int) -> None:
        """Return when both members have looked so often again."""
        before = dict(self.looks)
        wait_until(lambda: all(self.looks[name] >= before[name] + looks for name in before), what="looks")

    def close(self) -> None:
        self._stack.close()

    def _look(self, name: str) -> None:
        self.looks[name] += 1

    def _member(self, name: str, store: CoordinationStore) -> tuple[Election, SessionKeeper]:
        keeper = self._stack.enter_context(SessionKeeper(store, ttl=timedelta(seconds=8), clock=CLOCK))
        election = Election(store, SCOPE, member=name, clock=CLOCK)
        election.join(keeper, host="here", pid=7, state=State.WARM)
        return election, keeper


def comparisons_since(began_s: float) -> int:
    """How often both members may have compared their pictures with the store."""
    return 2 * (1 + int((CLOCK.monotonic_s() - began_s) // following.CONFIRMED_S))


def test_idle_members_send_renewals_and_nothing_else(place: Place, counted: Counted) -> None:
    idle = Idle(place.direct)
    try:
        start, renewals, began_s = len(counted.made), counted.renewals, CLOCK.monotonic_s()
        wait_until(lambda: counted.renewals >= renewals + RENEWALS, what="renewals")
        idle.wait(1)
        made = counted.since(start)
        assert "renewal" in made
        assert made <= {"renewal", "confirmation", "Exists"}, "a renewal may compare the picture"
        assert counted.made[start:].count("Exists") <= 2 * comparisons_since(began_s), "of both nodes"
    finally:
        idle.close()


def test_idle_members_replace_their_leases_and_do_nothing_else(kube_rig: KubernetesRig, api_gate: ApiGate) -> None:
    idle = Idle(lambda: kube_rig.through(api_gate))
    try:
        before, began_s = api_gate.requests.copy(), CLOCK.monotonic_s()
        wait_until(lambda: (api_gate.requests - before)["PUT leases"] >= RENEWALS, what="renewals")
        idle.wait(1)
        made = api_gate.requests - before
        assert {name for name in made if not name.startswith("WATCH")} <= {"PUT leases", "GET configmaps"}
        assert made["GET configmaps"] <= comparisons_since(began_s)
    finally:
        idle.close()


# --- lines that break, and lines on which nothing comes ------------------------------------------------------------


def test_a_follower_outlives_its_line(line: Place) -> None:
    """Changes while there is no line are in the next picture, and what comes then is heard."""
    direct, store = line.direct(), line.through()
    version = put(direct, A)
    assert keys(store) == ["a"]
    with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes:
        for number in range(2):
            line.proxy.cut()
            swapped = direct.commit(SCOPE, guards=[], writes=[Delete(A, version), Put(B, b"", None)])
            line.proxy.heal()
            wait_until(partial(hears, changes, swapped.revision), what="the word of a change")
            assert keys(store) == ["b"]
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(changes.wait, timeout=NEVER)
                removed = direct.commit(SCOPE, guards=[], writes=[Delete(B, swapped.versions[B])])
                assert waiting.result(NEVER_S) == removed.revision, number
            version = put(direct, A)
            wait_until(lambda: keys(store) == ["a"], what="the last change")


def hears(changes: Changes, revision: Revision) -> bool:
    """Whether the next change is this one, or a later one. A line that broke may say so."""
    try:
        return (changes.wait(timeout=timedelta(seconds=1)) or 0) >= revision
    except StoreUnavailable:
        return False


def deafen(store: CoordinationStore) -> None:
    """Nothing comes any more on the line that the store follows by; on its next line, it does."""
    if isinstance(store, EtcdStore):
        watch: Any = store._following.scope(SCOPE)._watch
        watch._note = lambda response: None
        return
    if isinstance(store, KubernetesStore):
        follower: Any = store._following.scope(SCOPE)._follower
        deaf, take = follower._line, follower._take
        follower._take = lambda event: None if follower._line is deaf else take(event)
        return
    assert isinstance(store, ZooKeeperStore)
    handler: Any = store.standing()._handler
    line, read = handler._socket, handler._read_watch_event

    def read_unless_deaf(*args: Any) -> None:
        if handler._socket is not line:
            read(*args)

    handler._read_watch_event = read_unless_deaf


@pytest.mark.parametrize("by", ["renewal", "look"])
def test_a_deaf_follower_is_found(line: Place, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """By the renewal of a session, or by a rare look of a client that has no session."""
    monkeypatch.setattr(following, "CONFIRMED_S", 0.0 if by == "renewal" else 1e6)
    monkeypatch.setattr(following, "LOOK_S", 1e6 if by == "renewal" else 0.5)
    monkeypatch.setattr(following, "GRACE_S", 0.3)
    direct, store = line.direct(), line.direct()
    put(direct, A)
    session = store.open_session(ttl=timedelta(seconds=60))
    with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes, ThreadPoolExecutor(1) as pool:
        deafen(store)
        put(direct, B)
        waiting = pool.submit(changes.wait, timeout=NEVER)

        def woken() -> bool:
            if by == "renewal":
                with suppress(StoreUnavailable):  # a line that is left breaks under a renewal; the keeper tries again
                    session.renew()
            return waiting.done()

        wait_until(woken, what="the change that the follower did not hear", every=timedelta(milliseconds=100))
        assert waiting.result() is not None
        assert keys(store) == ["a", "b"]
        monkeypatch.setattr(following, "CONFIRMED_S", 1e6)
        monkeypatch.setattr(following, "LOOK_S", 1e6)
        waiting = pool.submit(changes.wait, timeout=NEVER)
        put(direct, Key("c"))
        assert waiting.result(NEVER_S) is not None, "the next line is not deaf"
    session.close()


def test_a_line_whose_end_does_not_arrive_is_left(
    kube_rig: KubernetesRig, api_gate: ApiGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends each watch after a while. A proxy that keeps everything back keeps that end back, too."""
    monkeypatch.setattr(kubernetes_follower, "WATCH_S", 2)
    monkeypatch.setattr(kubernetes_follower, "_LATE_S", 0.5)
    monkeypatch.setattr(following, "CONFIRMED_S", 1e6)
    monkeypatch.setattr(following, "LOOK_S", 1e6)
    direct, store = kube_rig.store(), kube_rig.through(api_gate)
    put(direct, A)
    with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes:
        api_gate.swallow()
        changed = direct.commit(SCOPE, guards=[], writes=[Put(B, b"", None)])
        wait_until(partial(hears, changes, changed.revision), what="the word of another line")
        assert keys(store) == ["a", "b"]


def test_a_client_that_only_follows_keeps_the_line_of_its_session(
    zookeeper: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second connection to ZooKeeper is a thread and pings, all the time."""
    monkeypatch.setattr(zookeeper_store, "IDLE_S", 0.0)
    with closing(ZooKeeperPlace(zookeeper)) as place:
        direct, store = place.direct(), place.through()
        put(direct, A)
        session = store.open_session(ttl=timedelta(seconds=60))
        with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes, ThreadPoolExecutor(1) as pool:
            session.renew()
            wait_until(lambda: place.proxy.lines == 1, what="the end of the connection of requests")
            waiting = pool.submit(changes.wait, timeout=NEVER)
            put(direct, B)
            assert waiting.result(NEVER_S) is not None
            assert keys(store) == ["a", "b"]
            assert place.proxy.lines == 1, "what has changed is read over that line, too"
            assert store.read(SCOPE, A) is not None
            session.close()
            put(direct, Key("c"))
            wait_until(lambda: keys(store) == ["a", "b", "c"], what="the picture without a session")


def test_a_follower_that_hears_stays_on_its_line(line: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons while the scope changes give no line up."""
    monkeypatch.setattr(following, "CONFIRMED_S", 0.0)
    direct, store = line.direct(), line.direct()
    session = store.open_session(ttl=timedelta(seconds=60))
    version = put(direct, A)
    assert keys(store) == ["a"]
    left: list[object] = []
    followed: Any = store._following.scope(SCOPE)  # type: ignore[attr-defined] # of all three stores
    monkeypatch.setattr(followed, "_leave", lambda: left.append(1))
    for number in range(30):
        version = put(direct, A, str(number).encode(), version)
        session.renew()
        store.glance(SCOPE)
    session.renew()
    wait_until(lambda: store.glance(SCOPE).records[0].value == b"29", what="the last change")
    assert not left
    session.close()


def test_a_scope_is_watched_once_for_all_who_wait(place: Place, counted: Counted) -> None:
    direct, store = place.direct(), place.direct()
    put(direct, A)
    with ExitStack() as stack:
        first = store.glance(SCOPE).revision
        watches = [stack.enter_context(store.watch(SCOPE, after=first)) for _ in range(5)]
        assert [one.wait(timeout=timedelta(0)) for one in watches] == [None] * 5
        put(direct, B)
        assert None not in [one.wait(timeout=NEVER) for one in watches]
    assert counted.made.count("Watch") + counted.made.count(AddWatch.__name__) == 1
