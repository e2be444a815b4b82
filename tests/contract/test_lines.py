"""Lines that break between a client and a real ensemble: replies that are lost, requests that arrive too late."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from tenure.clock import SystemClock
from tenure.coordination.records import Absent, Delete, Exact, Guard, Key, Put, Scope, Write
from tenure.coordination.settle import commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable, TenureError
from tests.contract.places import EtcdPlace, Place, PostgresPlaceOfTests, ZooKeeperPlace
from tests.kit.servers import EtcdCluster, PostgresServer, ZooKeeperEnsemble
from tests.kit.waiting import NEVER_S, Deadline, wait_until

SCOPE = Scope("lines")
A, LEADER = Key("a"), Key("leader")
NEEDLE = b"needle"


@pytest.fixture(params=["zookeeper", "etcd", "postgres"])
def place(
    request: pytest.FixtureRequest, zookeeper: ZooKeeperEnsemble, etcd: EtcdCluster, postgres: PostgresServer
) -> Iterator[Place]:
    made: Place = (
        PostgresPlaceOfTests(postgres)
        if request.param == "postgres"
        else ZooKeeperPlace(zookeeper)
        if request.param == "zookeeper"
        else EtcdPlace(etcd)
    )
    yield made
    made.close()


def put(store: CoordinationStore, key: Key = A, value: bytes = b"first") -> None:
    store.commit(SCOPE, guards=[], writes=[Put(key, value, None)])


def value(store: CoordinationStore, key: Key = A) -> bytes | None:
    record = store.read(SCOPE, key)
    return None if record is None else record.value


@pytest.mark.parametrize("kind", ["create", "replace", "delete"])
def test_a_lost_reply_is_an_unknown_outcome_and_is_settled(place: Place, kind: str) -> None:
    direct, store = place.direct(), place.through()
    put(direct)
    put(direct, Key("b"), NEEDLE)
    found, beside = direct.read(SCOPE, A), direct.read(SCOPE, Key("b"))
    assert found is not None
    assert beside is not None
    touched = Put(Key("b"), NEEDLE, beside.version)
    kinds: dict[str, list[Write]] = {
        "create": [Put(Key("c"), NEEDLE, None)],
        "replace": [Put(A, NEEDLE, found.version)],
        "delete": [Delete(A, found.version), touched],
    }
    writes = kinds[kind]
    store.list(SCOPE)  # the line is there
    place.proxy.drop_reply(place.is_commit, is_reply=place.is_reply)
    with pytest.raises(OutcomeUnknown):
        store.commit(SCOPE, guards=[], writes=writes)
    assert place.proxy.dropped.is_set(), "the fault did not happen"
    place.proxy.heal()
    before = direct.list(SCOPE).records
    with pytest.raises(GuardFailed):
        store.commit(SCOPE, guards=[], writes=writes)
    assert direct.list(SCOPE).records == before, "it was applied once"
    expected = {"create": (b"first", NEEDLE), "replace": (NEEDLE, None), "delete": (None, None)}[kind]
    assert (value(direct), value(direct, Key("c"))) == expected


@pytest.mark.parametrize("kind", ["create", "replace"])
def test_settling_finds_what_a_lost_reply_said(place: Place, kind: str) -> None:
    direct, store = place.direct(), place.through()
    put(direct)
    found = direct.read(SCOPE, A)
    assert found is not None
    write = Put(Key("c"), NEEDLE, None) if kind == "create" else Put(A, NEEDLE, found.version)
    store.list(SCOPE)
    place.proxy.drop_reply(place.is_commit, is_reply=place.is_reply)
    done = commit_settled(store, SCOPE, guards=[], writes=[write], go_on=lambda: True, clock=SystemClock())
    assert place.proxy.dropped.is_set(), "the fault did not happen"
    now = direct.read(SCOPE, write.key)
    assert now is not None
    assert (now.value, now.version) == (NEEDLE, done.versions[write.key])


def test_a_request_that_arrives_after_the_change_of_leader_is_refused(place: Place) -> None:
    """The leader's commit has left, and is held on its way until its session is over and another one leads."""
    direct, store = place.direct(), place.through()
    session = store.open_session(ttl=place.ttl)
    leader = store.commit(SCOPE, guards=[], writes=[Put(LEADER, b"me", None, session.id)]).versions[LEADER]
    place.proxy.hold_requests()
    ended: list[object] = []

    def late() -> None:
        try:
            ended.append(store.commit(SCOPE, guards=[Exact(LEADER, leader)], writes=[Put(A, NEEDLE, None)]))
        except TenureError as error:
            ended.append(error)

    thread = threading.Thread(target=late)
    thread.start()
    wait_until(lambda: direct.read(SCOPE, LEADER) is None, what="the end of the leader's session")
    successor = direct.open_session(ttl=place.ttl)
    direct.commit(SCOPE, guards=[Absent(LEADER)], writes=[Put(LEADER, b"me", None, successor.id)])
    place.proxy.heal()
    thread.join(timeout=NEVER_S)
    assert len(ended) == 1
    assert isinstance(ended[0], GuardFailed), f"it arrived, and the store refused it: {ended}"
    successor.renew()
    assert value(direct) is None

    def over() -> bool:
        try:
            session.renew()
        except SessionEnded:
            return True
        except StoreUnavailable:
            return False
        raise AssertionError("it came back")

    wait_until(over, what="the word that the session has ended")


def test_nothing_is_written_under_another_session_than_it_was_meant_for(place: Place) -> None:
    direct, store = place.direct(), place.through()
    session = store.open_session(ttl=place.ttl)
    store.commit(SCOPE, guards=[], writes=[Put(LEADER, b"me", None, session.id)])
    place.proxy.cut()
    wait_until(lambda: direct.read(SCOPE, LEADER) is None, what="the end of the session")
    place.proxy.heal()

    def over() -> bool:
        try:
            store.commit(SCOPE, guards=[], writes=[Put(A, b"late", None, session.id)])
        except SessionEnded:
            return True
        except (OutcomeUnknown, StoreUnavailable):
            return False
        raise AssertionError("it was written")

    wait_until(over, what="the word that the session has ended")
    assert value(direct) is None
    put(store)  # the store itself goes on
    assert value(direct) == b"first"


def test_a_session_that_ended_never_opens_a_line_again(zookeeper: ZooKeeperEnsemble) -> None:
    """kazoo would open a new session by itself, for as long as the process lives."""
    place = ZooKeeperPlace(zookeeper)
    with closing(place):
        direct, store = place.direct(), place.through()
        session = store.open_session(ttl=place.ttl)
        store.commit(SCOPE, guards=[], writes=[Put(LEADER, b"me", None, session.id)])
        assert place.proxy.lines == 2, "the session's and the store's own"
        place.proxy.cut()
        wait_until(lambda: direct.read(SCOPE, LEADER) is None, what="the end of the session")
        place.proxy.heal()

        def told() -> bool:
            try:
                session.renew()
            except SessionEnded:
                return True
            except StoreUnavailable:
                return False
            raise AssertionError("it came back")

        wait_until(told, what="the word that the session has ended")
        put(store)
        before = place.proxy.accepted
        deadline = Deadline(3 * place.ttl)
        while not deadline.over:  # nothing says that nothing will come
            assert place.proxy.accepted == before
            deadline.pause(timedelta(milliseconds=50))
        assert place.proxy.lines == 1


def test_a_store_that_is_cut_off_says_so_and_comes_back(place: Place) -> None:
    direct, store = place.direct(), place.through()
    put(store)
    place.proxy.cut()
    guards: list[Guard] = [Absent(Key("never"))]
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        store.commit(SCOPE, guards=guards, writes=[Put(Key("b"), b"", None)])
    with pytest.raises(StoreUnavailable):
        store.read(SCOPE, A)
    place.proxy.heal()

    def back() -> bytes | None:
        try:
            return value(store)
        except StoreUnavailable:
            return None

    assert wait_until(back) == b"first"
    assert value(direct, Key("b")) is None
