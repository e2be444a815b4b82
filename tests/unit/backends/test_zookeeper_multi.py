"""From commits to multis: the operations depend on the commit alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.backends.zookeeper.multi import (
    MARKERS,
    Check,
    Create,
    NodeState,
    Remove,
    SetData,
    first_failing,
    key_of,
    marker_of,
    multi_of,
    node_name,
    state_of,
)
from tenure.coordination.records import Absent, Delete, Exact, Guard, Key, Put, SessionId, Version, Write

A, B, CHILD = Key("a"), Key("b"), Key("a/child")
MINE = SessionId("0x1f")
SEGMENT = st.from_regex(r"[A-Za-z0-9_=][A-Za-z0-9._=-]{0,9}", fullmatch=True)


def version(changes: int, session: SessionId | None = None) -> Version:
    return NodeState(7, changes, session).version()


def test_a_version_names_its_transaction_count_and_session() -> None:
    for state in (NodeState(0, 0, None), NodeState(0xABC, 12, MINE)):
        assert state_of(state.version()) == state
    assert len({version(1), version(2), version(1, MINE), NodeState(8, 1, None).version()}) == 4


@given(st.lists(SEGMENT, min_size=1, max_size=4))
def test_a_key_is_the_name_of_one_node(segments: list[str]) -> None:
    key = Key("/".join(segments))
    assert "/" not in node_name(key)
    assert key_of(node_name(key)) == key


def test_a_node_of_others_is_no_record() -> None:
    for name in (MARKERS, "two words", "~", "a::b", ":a", "ünique"):
        assert key_of(name) is None


def test_each_guard_and_each_write_is_an_operation() -> None:
    guards: list[Guard] = [Exact(Key("epoch"), version(4)), Exact(Key("leader"), version(0, MINE)), Absent(B)]
    writes: list[Write] = [Put(CHILD, b"x", None), Put(A, b"y", version(2)), Delete(Key("c/d"), version(1))]
    multi = multi_of(guards, writes)
    assert multi.operations == (
        Check("epoch", 4),
        Check(marker_of(MINE), 0),
        Check("leader", 0),
        Create("b", b""),
        Remove("b", 0),
        Create("a:child", b"x"),
        SetData("a", b"y", 2),
        Remove("c:d", 1),
    )
    assert multi.puts == {CHILD: (0, None), A: (3, None)}


def test_the_absence_of_a_record_that_the_commit_makes_costs_nothing() -> None:
    assert multi_of([Absent(A)], [Put(A, b"x", None, MINE)]).operations == (Create("a", b"x", ephemeral=True),)


def test_a_record_of_a_session_is_another_one_when_the_session_has_ended() -> None:
    bound = version(0, MINE)
    for writes in ([Delete(A, bound)], [Put(A, b"", bound, MINE)], [Put(A, b"", bound)]):
        assert multi_of([], writes).operations[0] == Check(marker_of(MINE), 0)


def test_binding_anew_makes_the_node_anew() -> None:
    assert multi_of([], [Put(A, b"", version(2), MINE)]).operations == (
        Remove("a", 2),
        Create("a", b"", ephemeral=True),
    )
    kept = multi_of([], [Put(A, b"", version(2, MINE), MINE)])
    assert kept.operations[1:] == (SetData("a", b"", 2),)
    assert kept.puts == {A: (3, MINE)}


def test_the_first_guard_in_the_contracts_order_is_named() -> None:
    found = {A: version(2), CHILD: version(0), B: None}
    stale = Exact(A, version(1))
    guards: list[Guard] = [Absent(B), stale, Absent(CHILD)]
    assert first_failing(guards, [Delete(A, version(2))], found) == stale
    assert first_failing([], [Put(B, b"", None), Put(CHILD, b"", None)], found) == Absent(CHILD)
    assert first_failing([Exact(B, version(0))], [], found) == Exact(B, version(0))
    assert first_failing([Absent(B)], [Delete(A, version(2))], found) is None
