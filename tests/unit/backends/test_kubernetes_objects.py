"""A scope in a ConfigMap and a session in a Lease: written and read again, byte for byte, or named as damaged."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.backends.kubernetes import leases
from tenure.backends.kubernetes.api import Object
from tenure.backends.kubernetes.followed import KubernetesFollowed
from tenure.backends.kubernetes.objects import object_name
from tenure.backends.shared.following import GRACE_S
from tenure.backends.shared.scope_objects import SeenScope
from tenure.backends.shared.scope_state import ABOUT, ScopeState, entry_name, key_of
from tenure.coordination.encoding import encode
from tenure.coordination.records import Delete, Key, Put, Record, Revision, Scope, SessionId, Version
from tenure.errors import CorruptRecord
from tests.kit.clock import ManualClock

SCOPE = Scope("shop")
NOW = datetime(2026, 11, 25, tzinfo=UTC)
segments = st.from_regex(r"[A-Za-z0-9_=][A-Za-z0-9._=-]{0,20}\Z", fullmatch=True)
keys = st.lists(segments, min_size=1, max_size=5).map("/".join).map(Key)
values = st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode), st.just(encode({"epoch": 3})))
ENTRY = re.compile(r"[-._a-zA-Z0-9]{1,253}\Z")
OBJECT = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")


@given(keys)
def test_an_entry_names_its_key(key: Key) -> None:
    name = entry_name(key)
    assert ENTRY.match(name)
    assert name != ABOUT
    assert key_of(name) == key


@given(keys, keys)
def test_two_keys_have_two_entries(one: Key, other: Key) -> None:
    assert (entry_name(one) == entry_name(other)) == (one == other)


@given(segments.map(Scope), segments.map(Scope))
def test_two_scopes_have_two_objects(one: Scope, other: Scope) -> None:
    assert OBJECT.match(object_name("store", one))
    assert (object_name("store", one) == object_name("store", other)) == (one == other)


@given(st.dictionaries(keys, st.tuples(values, st.sampled_from([None, "s1", "s2"])), max_size=8))
def test_a_scope_is_read_as_it_was_written(records: dict[Key, tuple[bytes, str | None]]) -> None:
    state = ScopeState(sessions=frozenset({SessionId("s1"), SessionId("s2")}))
    writes = [
        Put(key, value, None, None if session is None else SessionId(session))
        for key, (value, session) in records.items()
    ]
    state = state.applied(writes)
    assert ScopeState.of(state.entries(SCOPE), scope=SCOPE, where="it") == state


def test_a_long_key_is_read_as_it_was_written() -> None:
    state = ScopeState().applied([Put(Key("/".join(["x" * 100] * 4)), b"{}", None)])
    entries = state.entries(SCOPE)
    assert all(ENTRY.match(name) for name in entries)
    assert ScopeState.of(entries, scope=SCOPE, where="it") == state


def test_a_version_is_never_given_twice() -> None:
    state = ScopeState().applied([Put(Key("a"), b"", None)])
    first = state.records[Key("a")].version
    state = state.applied([Delete(Key("a"), first)]).applied([Put(Key("a"), b"", None)])
    again = ScopeState().applied([Put(Key("a"), b"", None)])  # the ConfigMap was made anew
    copy = ScopeState.of(state.entries(SCOPE), scope=SCOPE, where="it")  # and this copy will be restored
    states = [state, again, *(one.applied([Put(Key("a"), b"", None)]) for one in (state, copy))]
    assert len({first, *(one.records[Key("a")].version for one in states)}) == 5


def test_the_end_of_a_session_takes_its_records_and_no_others() -> None:
    state = ScopeState(sessions=frozenset({SessionId("s1"), SessionId("s2")}))
    state = state.applied([Put(Key("a"), b"", None, SessionId("s1")), Put(Key("b"), b"", None, SessionId("s2"))])
    ended = state.without(SessionId("s1"))
    assert list(ended.records) == ["b"]
    assert (list(ended.sessions), ended.revision) == (["s2"], state.revision + 1)


@pytest.mark.parametrize(
    ("entry", "text", "words"),
    [
        (ABOUT, None, "'_tenure'"),
        (ABOUT, "[]", "no JSON object"),
        (ABOUT, '{"v":2}', "format 2"),
        (ABOUT, '{"v":1,"scope":"other","origin":"a","revision":1,"sessions":[]}', "of scope 'other'"),
        (ABOUT, '{"v":1,"scope":"shop","origin":"a","revision":"1","sessions":[]}', "'revision' is not int"),
        ("a", "x", "entry 'a'"),
        ("a", '{"version":"1"}', "no value"),
        ("a", '{"version":1,"text":""}', "no version"),
        ("a", '{"version":"1","base64":"?"}', "entry 'a'"),
        ("a", '{"version":"1","text":"","session":"gone"}', "'gone'|session gone"),
        ("_x", '{"version":"1","text":""}', "no key"),
        ("_0abc", '{"version":"1","text":"","key":"a"}', "no key"),
    ],
)
def test_damage_is_named(entry: str, text: str | None, words: str) -> None:
    data: dict[str, str] = {**ScopeState().applied([Put(Key("a"), b"", None)]).entries(SCOPE)}
    if text is None:
        del data[entry]
    else:
        data[entry] = text
    with pytest.raises(CorruptRecord, match=words):
        ScopeState.of(data, scope=SCOPE, where="ConfigMap x/tenure.shop")


def lease() -> leases.Object:
    made = leases.new_lease("tenure", SessionId("s1"), ttl=timedelta(seconds=2.5), holder="", now=NOW)
    return {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}


def test_a_lease_has_the_facts_of_its_session() -> None:
    assert leases.session_of(lease(), "tenure") == "s1"
    assert leases.ttl_s(lease()) == 2.5
    assert lease()["spec"]["leaseDurationSeconds"] == 3
    assert lease()["spec"]["renewTime"] == "2026-11-25T00:00:00.000000Z"
    assert leases.scopes_of(leases.with_scope(leases.with_scope(lease(), SCOPE), Scope("b"))) == ["b", "shop"]


@pytest.mark.parametrize("store", ["other", "tenur", "tenure.s1"])
def test_a_lease_of_another_store_is_not_ours(store: str) -> None:
    assert leases.session_of(lease(), store) is None


SPARED = {
    "argocd.argoproj.io/sync-options": "Prune=false",
    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
}


@pytest.mark.parametrize("marks", [None, {"team": "x"}, {"app.kubernetes.io/instance": "tenure"}])
def test_an_object_has_a_label_of_our_own_beside_those_of_others(marks: dict[str, str] | None) -> None:
    made = leases.marked({"name": "tenure.shop", "labels": marks, "annotations": None}, "tenure")
    assert made == {"name": "tenure.shop", "labels": {**(marks or {}), "tenure.store": "tenure"}, "annotations": SPARED}
    assert leases.marked(made, "tenure") == made


def test_an_annotation_that_others_change_stays() -> None:
    changed = {"argocd.argoproj.io/sync-options": "Prune=confirm", "note": "y"}
    made = leases.marked({"annotations": changed}, "tenure")
    assert made["annotations"] == {**SPARED, **changed}


def test_an_ended_lease_has_no_holder() -> None:
    assert not leases.has_ended(leases.renewed(lease(), now=NOW))
    assert leases.has_ended(leases.ended(lease()))


@given(values)
def test_an_amended_value_is_read_as_it_was_written(value: bytes) -> None:
    record = Record(Key("members/anna"), b"old", Version("v"), SessionId("s1"))
    amended = leases.with_amended(lease(), SCOPE, record, value)
    assert leases.as_amended(amended, SCOPE, record).value == value
    anew = Record(record.key, b"new", Version("w"), record.session)
    assert leases.as_amended(amended, SCOPE, anew) == anew
    assert leases.as_amended(amended, Scope("other"), record) == record


@pytest.mark.parametrize("text", ["nonsense", "[]", '["no name"]', '{"shop": 3}', '{"shop": {"members/anna": ["v"]}}'])
def test_an_annotation_that_was_edited_amends_nothing(text: str) -> None:
    record = Record(Key("members/anna"), b"old", Version("v"), SessionId("s1"))
    bare = lease()
    edited = {**bare, "metadata": {**bare["metadata"], "annotations": {"tenure.amended": text, "tenure.scopes": text}}}
    assert leases.as_amended(edited, SCOPE, record) == record
    assert all(isinstance(scope, Scope) for scope in leases.scopes_of(edited))


def seen(revision: int) -> SeenScope[Object]:
    return SeenScope({"metadata": {"resourceVersion": str(revision)}}, ScopeState("o", revision))


NONE: SeenScope[Object] = SeenScope(None, ScopeState())


def test_knowledge_never_goes_back() -> None:
    news: list[ScopeState] = []
    followed = KubernetesFollowed(
        SCOPE, follow=nothing, ask=nothing, decode=nothing, news=news.append, clock=ManualClock()
    )

    def takes(state: SeenScope[Object], *, at: int) -> bool:
        before = len(news)
        followed.take(state, at=at)
        return len(news) > before

    assert takes(seen(5), at=5)
    assert not takes(seen(4), at=4)
    assert not takes(seen(5), at=5)
    assert takes(NONE, at=7)
    assert not takes(seen(7), at=7)
    assert not takes(seen(5), at=5)
    assert takes(seen(9), at=9)
    assert not takes(NONE, at=8)  # the read began before the ConfigMap was made anew
    assert followed.known == seen(9)


def test_knowledge_of_a_cluster_that_was_restored_is_what_its_next_list_says() -> None:
    """An answer older than what was known before the question agreed, and a dead leader stayed for ever."""
    line = Mock()
    followed = KubernetesFollowed(
        SCOPE, follow=lambda owner: line, ask=lambda: seen(4), decode=decoded, news=lambda _: None, clock=ManualClock()
    )
    followed.take(seen(9), at=9)
    followed.seen(Revision(9))
    followed.told(8, asked_at=7)  # of a renewal that left before
    assert followed.until_look_s() > GRACE_S
    followed.told(4, asked_at=9)
    assert followed.until_look_s() <= GRACE_S
    followed._leave()  # as its next reader does, once nothing was heard within the grace
    line.begin_anew.assert_called_once_with()
    followed.listed([seen(4).found or {}], at=5)
    assert (followed.known, followed.newest) == (seen(4), 4)
    assert followed.glance("").revision == 4, "what the client has seen before is no more"
    followed.changed("MODIFIED", seen(6).found or {})
    assert followed.reached() == 6


def nothing(*_: object) -> Any:
    raise AssertionError("nothing is asked")


def decoded(found: Object | None) -> SeenScope[Object]:
    return NONE if found is None else seen(int(found["metadata"]["resourceVersion"]))


def test_an_entry_is_readable() -> None:
    state = ScopeState().applied([Put(Key("epoch"), encode({"epoch": 3}), None)])
    assert json.loads(state.entries(SCOPE)["epoch"])["value"]["epoch"] == 3
