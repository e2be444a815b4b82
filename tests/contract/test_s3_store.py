"""What the contract's own cases do not show of the store in a bucket: lost answers, half-done ends, servers that ignore
conditions, and what it costs to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from tenure.backends.buckets import BucketStore, observer, session_object
from tenure.backends.buckets.bucket import Bucket, SeenJson
from tenure.backends.buckets.observer import name_of
from tenure.coordination.records import Key, Put, Scope, SessionId
from tenure.errors import AccessDenied, GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable, UsageError
from tests.kit.servers import SeaweedFs
from tests.kit.waiting import wait_until
from tests.s3 import CLAIM, DENY, HANG, LOSE, MISSING, PASS, SLOW_DOWN, Gate
from tests.support.store_fixtures import S3Rig

SCOPE = Scope("orders")
LEADER = Key("leader")
TTL = timedelta(seconds=30)


@pytest.fixture
def rig(gate: Gate, seaweedfs: SeaweedFs) -> Iterator[S3Rig]:
    """Its clients go through the gate."""
    made = S3Rig(seaweedfs, url=gate.url)
    made.place = replace(made.place, request_timeout=timedelta(seconds=2))
    yield made
    made.close()


def put(store: BucketStore, key: Key, value: bytes = b"x", *, session: SessionId | None = None) -> None:
    record = store.read(SCOPE, key)
    store.commit(SCOPE, guards=(), writes=(Put(key, value, None if record is None else record.version, session),))


def of(kind: str, method: str, what: str, *, but: int = 0, times: int | None = None) -> Callable[[str, str], str]:
    """A rule: this becomes of requests by the method to objects of the kind, after the first `but`."""
    seen = 0

    def rule(asked: str, path: str) -> str:
        nonlocal seen
        if asked != method or f"/{kind}/" not in path:
            return PASS
        seen += 1
        return what if but < seen and (times is None or seen <= but + times) else PASS

    return rule


@pytest.mark.parametrize(("but", "condition"), [(1, "If-None-Match"), (2, "If-Match")])
@pytest.mark.parametrize("first", ["commit", "session"])
def test_a_server_that_ignores_a_condition_is_refused_before_the_first_write(
    rig: S3Rig, gate: Gate, but: int, condition: str, first: str
) -> None:
    gate.rule = of("probes", "PUT", CLAIM, but=but)
    store = rig.open()
    write = partial(put, store, LEADER) if first == "commit" else partial(store.open_session, ttl=TTL)
    with pytest.raises(UsageError, match=f"ignores {condition} in a PUT, so two members could lead"):
        write()
    assert store.list(SCOPE).records == ()
    gate.rule = lambda method, path: PASS
    put(store, LEADER)  # the answer was not kept for ever


def test_a_commit_whose_answer_is_lost_is_settled_by_a_look(rig: S3Rig, gate: Gate) -> None:
    store = rig.open()
    put(store, LEADER, b"first")
    gate.rule = of("scopes", "PUT", LOSE, times=1)
    put(store, LEADER, b"second")
    assert gate.became(LOSE) == 1
    found = store.read(SCOPE, LEADER)
    assert found is not None
    assert found.value == b"second"


def test_a_commit_that_the_server_did_not_answer_and_a_look_does_not_show_is_unknown(rig: S3Rig, gate: Gate) -> None:
    store = rig.open()
    put(store, LEADER, b"first")
    gate.rule = of("scopes", "PUT", HANG, times=1)
    with pytest.raises(OutcomeUnknown, match="did not say whether it did commit to scope 'orders'"):
        put(store, LEADER, b"second")
    put(store, LEADER, b"third")  # from now on the second is refused by its condition


@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        (SLOW_DOWN, StoreUnavailable, "cannot commit to scope 'orders'"),
        (DENY, AccessDenied, "does not permit to commit to scope 'orders'"),
        (MISSING, StoreUnavailable, "cannot commit to scope 'orders'.*make the bucket"),
    ],
)
def test_a_commit_that_the_server_refuses_is_not_written(
    rig: S3Rig, gate: Gate, what: str, error: type[StoreUnavailable], says: str
) -> None:
    store = rig.open()
    put(store, LEADER, b"first")
    gate.rule = of("scopes", "PUT", what)
    with pytest.raises(error, match=says) as raised:
        put(store, LEADER, b"second")
    assert type(raised.value) is error
    gate.rule = lambda method, path: PASS
    found = rig.open().read(SCOPE, LEADER)
    assert found is not None
    assert found.value == b"first"


def test_a_session_outlives_a_renewal_whose_answer_was_lost(rig: S3Rig, gate: Gate) -> None:
    store = rig.open()
    session = store.open_session(ttl=TTL)
    gate.rule = of("sessions", "PUT", LOSE, times=1)
    with pytest.raises(OutcomeUnknown):
        session.renew()
    session.renew()
    put(store, LEADER, session=session.id)
    assert gate.became(LOSE) == 1


def test_the_end_that_an_observer_left_half_done_is_finished_by_the_next(rig: S3Rig) -> None:
    owner, bucket = rig.open(), Bucket(rig.place)
    session = owner.open_session(ttl=TTL)
    put(owner, LEADER, session=session.id)
    found = bucket.get(name_of(session.id), "look")
    assert found is not None
    bucket.put(name_of(session.id), session_object.ended(found.data), "end", replaces=found)
    assert rig.open().list(SCOPE).records == ()
    assert bucket.get(name_of(session.id), "look") is None
    with pytest.raises(SessionEnded):
        session.renew()


def test_a_session_whose_object_is_gone_has_ended(rig: S3Rig) -> None:
    owner, bucket = rig.open(), Bucket(rig.place)
    session = owner.open_session(ttl=TTL)
    put(owner, LEADER, session=session.id)
    bucket.delete(name_of(session.id), "remove by hand")
    assert rig.open().list(SCOPE).records == ()
    with pytest.raises(SessionEnded):
        session.renew()


def test_a_commit_that_was_evaluated_before_its_session_ended_is_refused(rig: S3Rig, gate: Gate) -> None:
    """The owner is paused on the way of its first write to a scope that does not exist; an observer ends it."""
    owner = rig.open()
    session = owner.open_session(ttl=TTL)
    on_its_way, go_on = threading.Event(), threading.Event()

    def rule(method: str, path: str) -> str:
        if method == "PUT" and "/scopes/" in path and not on_its_way.is_set():
            on_its_way.set()
            go_on.wait()
        return PASS

    gate.rule = rule
    outcome: list[Exception] = []

    def write() -> None:
        try:
            put(owner, LEADER, session=session.id)
        except Exception as error:  # noqa: BLE001 # shown by the assertion
            outcome.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    wait_until(on_its_way.is_set, what="the write on its way")
    BucketStore(rig.place).end_session(session.testament)
    go_on.set()
    thread.join()
    assert [type(error) for error in outcome] in ([SessionEnded], [OutcomeUnknown])
    assert rig.open().list(SCOPE).records == ()


def test_of_many_writers_each_commit_counts_once(rig: S3Rig) -> None:
    counter = Key("counter")

    def count() -> None:
        store, done = rig.open(), 0
        while done < 5:
            record = store.read(SCOPE, counter)
            value = 0 if record is None else int(record.value)
            version = None if record is None else record.version
            try:
                store.commit(SCOPE, guards=(), writes=(Put(counter, str(value + 1).encode(), version),))
            except GuardFailed:
                continue
            done += 1
        store.close()

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = rig.open().read(SCOPE, counter)
    assert found is not None
    assert found.value == b"15"


def test_who_waits_writes_nothing_and_asks_for_changes_only(rig: S3Rig, gate: Gate) -> None:
    store = rig.open()
    session = store.open_session(ttl=TTL)
    put(store, LEADER, session=session.id)
    after = store.list(SCOPE).revision
    gate.seen.clear()
    with store.watch(SCOPE, after=after) as changes:
        assert changes.wait(timeout=timedelta(seconds=3)) is None
    asked = [(method, path) for method, path, _ in gate.seen]
    assert {method for method, _ in asked} == {"GET"}
    assert 1 <= len(asked) <= 4


def test_a_session_without_a_renewal_for_days_is_pruned_by_the_next_member(
    rig: S3Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, bucket = rig.open(), Bucket(rig.place)
    abandoned = owner.open_session(ttl=timedelta(seconds=1))
    put(owner, LEADER, session=abandoned.id)
    monkeypatch.setattr(observer, "_ABANDONED", timedelta(seconds=-1))
    monkeypatch.setattr(observer, "_SILENT", -1)
    living = rig.open().open_session(ttl=TTL)
    assert bucket.get(name_of(abandoned.id), "look") is None
    assert bucket.get(name_of(living.id), "look") is None  # by these figures its own, too
    assert rig.open().list(SCOPE).records == ()


def test_an_object_that_is_edited_by_hand_is_named(rig: S3Rig) -> None:
    store, bucket = rig.open(), Bucket(rig.place)
    put(store, LEADER)
    found = bucket.get(f"scopes/{SCOPE}.json", "look")
    assert found is not None
    bucket.put(f"scopes/{SCOPE}.json", {**found.data, "leader": "{"}, "edit", replaces=SeenJson({}, found.tag))
    with pytest.raises(Exception, match=r"object .*/scopes/orders\.json does not decode: entry 'leader'"):
        rig.open().list(SCOPE)
