"""A scope that the etcd store follows: what its stream and its listings make of it, in every order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.backends.etcd import Cluster, EtcdStore
from tenure.backends.etcd.follower import EtcdFollowed, EtcdFollowing
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Endpoint, Rpc
from tenure.backends.shared.following import GRACE_S, FollowedChanges
from tenure.coordination.records import Key, Record, Revision, Scope, Version
from tenure.errors import StoreUnavailable
from tests.kit.clock import ManualClock

SCOPE, NOW = Scope("rows"), timedelta(0)
BELOW = b"/p/rows/"


class Watched(EtcdFollowed):
    """A scope whose stream is always open."""

    def __init__(self) -> None:
        def decode(scope: Scope, kv: Any) -> Record:
            key = Key(bytes(kv.key).removeprefix(BELOW).decode())
            return Record(key, bytes(kv.value), Version(str(kv.mod_revision)), None)

        following = SimpleNamespace(clock=ManualClock(), decode=decode)
        super().__init__(cast("EtcdFollowing", following), SCOPE, BELOW)
        self._compared(agrees=True)

    def _catch_up(self) -> None: ...

    def waits(self, *, after: int) -> Callable[[], Revision | None]:
        changes = FollowedChanges(self, after=Revision(after), clock=self._clock)
        return lambda: changes.wait(timeout=NOW)


def listing(at: int, **keys: int) -> Any:
    """etcd's answer at a revision: each key with the revision of its last change."""
    kvs = [pb.KeyValue(key=BELOW + key.encode(), mod_revision=revision) for key, revision in keys.items()]
    return pb.RangeResponse(header=pb.ResponseHeader(revision=at), kvs=kvs, count=len(kvs))


def event(key: str, revision: int, *, kind: Any = None) -> Any:
    kv = pb.KeyValue(key=BELOW + key.encode(), mod_revision=revision)
    return pb.WatchResponse(events=[pb.Event(type=pb.Event.PUT if kind is None else kind, kv=kv)])


@pytest.mark.parametrize(
    ("listed", "heard", "tells"),
    [
        (listing(9, a=3, b=8), event("b", 8), 8),
        (listing(9, a=7), event("a", 7), 7),
        (listing(9), event("a", 8, kind=pb.Event.DELETE), 9),  # at 9 it is gone; a listing does not say since when
    ],
    ids=["put", "replaced", "deleted"],
)
def test_a_change_that_a_listing_shows_before_the_stream_wakes_its_readers(listed: Any, heard: Any, tells: int) -> None:
    """Another thread of the client lists the scope. The event came later, was nothing new then, and woke nobody."""
    followed = Watched()
    followed.take(listing(5, a=3), changed=3)
    wait = followed.waits(after=5)
    assert wait() is None
    followed.take(listed, changed=None)
    followed.heard(heard)
    assert wait() == tells
    assert wait() is None


def test_a_listing_without_news_wakes_nobody() -> None:
    followed = Watched()
    followed.take(listing(5, a=3), changed=3)
    wait = followed.waits(after=5)
    followed.take(listing(9, a=3), changed=None)
    assert wait() is None
    followed.heard(event("b", 10))
    assert wait() == 10


def test_a_watch_after_a_revision_before_the_first_picture_counts_the_scope_as_changed() -> None:
    """A record was deleted between: neither the picture nor a later event shows that."""
    followed = Watched()
    followed.take(listing(9, a=3), changed=3)
    followed.begin_after(Revision(5))
    assert followed.waits(after=5)() == 9
    followed.begin_after(Revision(9))
    assert followed.waits(after=9)() is None


def test_an_answer_that_is_older_than_the_picture_raises_no_doubt() -> None:
    followed = Watched()
    followed.take(listing(5, a=3), changed=3)
    followed.heard(event("b", 8))
    followed.told(listing(7, a=3), known=5)  # of a renewal that left before
    assert followed.until_look_s() > GRACE_S
    followed.told(listing(9, a=3, c=9), known=8)
    assert followed.until_look_s() <= GRACE_S


def test_an_answer_that_is_older_than_what_was_known_before_the_question_is_of_a_backup() -> None:
    """etcd is silent on a watch that begins after its newest revision, and the picture had a dead leader for ever."""
    followed = Watched()
    followed.take(listing(1000, leader=990), changed=990)
    followed.seen(Revision(1000))
    wait = followed.waits(after=1000)
    followed.told(listing(505, kept=9), known=1000)
    assert followed.revision == 0, "the next reader begins with a listing"
    followed.take(listing(505, kept=9), changed=9)
    assert [record.key for record in followed.glance("").records] == ["kept"]
    assert wait() == 505
    followed.heard(event("b", 506))
    assert wait() == 506
    assert followed.glance("").revision == 506


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.read(SCOPE, Key("a")),
        lambda store: store.list(SCOPE),
        lambda store: store.scopes(),
        lambda store: store.glance(SCOPE),
        lambda store: store.commit(SCOPE, guards=(), writes=()),
        lambda store: store.open_session(ttl=timedelta(seconds=60)),
        lambda store: store.end_session("7f"),
    ],
    ids=["read", "list", "scopes", "glance", "commit", "open_session", "end_session"],
)
def test_a_store_that_another_thread_closes_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[EtcdStore], object]
) -> None:
    """gRPC raises ValueError on a channel that is closed, which ended the thread that was about to ask."""
    store = EtcdStore(Cluster(endpoints=("127.0.0.1:1",)))
    find = Rpc.endpoint

    def closes(rpc: Rpc) -> Endpoint:
        found = find(rpc)
        store.close()
        return found

    monkeypatch.setattr(Endpoint, "ready", lambda endpoint, *, timeout_s: True)
    monkeypatch.setattr(Rpc, "endpoint", closes)
    with pytest.raises(StoreUnavailable, match="the store is closed"):
        call(store)


def test_a_watch_that_is_begun_while_the_store_closes_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    store = EtcdStore(Cluster(endpoints=("127.0.0.1:1",)))
    monkeypatch.setattr(Endpoint, "ready", lambda endpoint, *, timeout_s: True)
    followed = store._following.scope(SCOPE)
    followed.take(listing(5), changed=5)
    metadata = Rpc.metadata

    def closes(rpc: Rpc, endpoint: Endpoint) -> Any:
        found = metadata(rpc, endpoint)
        with suppress(StoreUnavailable):
            store._rpc.close()
        return found

    monkeypatch.setattr(Rpc, "metadata", closes)
    with pytest.raises(StoreUnavailable, match="the store is closed"):
        store.glance(SCOPE)
