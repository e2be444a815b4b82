"""From commits to multis: what is supposed first, and what is planned once the nodes were read."""

from __future__ import annotations

from tenure.backends.zookeeper.plan import (
    FOLDER,
    RECORD,
    Check,
    Create,
    Node,
    Remove,
    SetData,
    State,
    View,
    first_failing,
    make_plan,
    marker_of,
    paths_to_read,
    state_of,
)
from tenure.coordination.records import (
    Absent,
    Delete,
    Exact,
    Guard,
    Key,
    NoneUnder,
    Put,
    SessionId,
    Version,
    Write,
)

A, CHILD = Key("a"), Key("a/child")
MINE = SessionId("0x1f")


def version(changes: int, session: SessionId | None = None) -> Version:
    return State(7, changes, session).version()


def record(changes: int, session: SessionId | None = None) -> Node:
    return Node(State(7, changes, session), is_record=True)


FOLDER_NODE = Node(State(5, 3, None), is_record=False)


def test_a_version_names_its_transaction_count_and_session() -> None:
    for state in (State(0, 0, None), State(0xABC, 12, MINE)):
        assert state_of(state.version()) == state
    assert len({version(1), version(2), version(1, MINE), State(8, 1, None).version()}) == 4


def test_most_commits_are_planned_without_having_read_anything() -> None:
    guards: list[Guard] = [Exact(Key("epoch"), version(4)), Exact(Key("leader"), version(0, MINE)), Absent(Key("b"))]
    writes: list[Write] = [Put(CHILD, b"x", None), Put(A, b"y", version(2)), Delete(Key("c"), version(1))]
    plan = make_plan(guards, writes)
    assert plan.operations == (
        Check("epoch", 4),
        Check(marker_of(MINE), 0),
        Check("leader", 0),
        Create("b", FOLDER),
        Remove("b", 0),
        Remove("c", 1),
        SetData("a", RECORD + b"y", 2),
        Create("a/child", RECORD + b"x"),
    )
    assert plan.puts == {A: (3, None), CHILD: (0, None)}


def test_a_record_of_a_session_is_another_one_when_the_session_has_ended() -> None:
    bound = version(0, MINE)
    for writes in ([Delete(A, bound)], [Put(A, b"", bound, MINE)], [Put(A, b"", bound)]):
        assert make_plan([], writes).operations[0] == Check(marker_of(MINE), 0)


def test_binding_anew_makes_the_node_anew() -> None:
    assert make_plan([], [Put(A, b"", version(2), MINE)]).operations == (
        Remove("a", 2),
        Create("a", RECORD, ephemeral=True),
    )
    kept = make_plan([], [Put(A, b"", version(2, MINE), MINE)])
    assert kept.operations[1:] == (SetData("a", RECORD, 2),)
    assert kept.puts == {A: (3, MINE)}


def test_folders_that_are_missing_are_made_in_the_same_multi() -> None:
    view: View = {"a": None, "a/b": None, "a/b/c": None}
    assert make_plan([], [Put(Key("a/b/c"), b"", None)], view).operations == (
        Create("a", FOLDER),
        Create("a/b", FOLDER),
        Create("a/b/c", RECORD),
    )
    assert make_plan([Absent(Key("a/b/c"))], [], view).operations == (
        Create("a", FOLDER),
        Create("a/b", FOLDER),
        Create("a/b/c", FOLDER),
        Remove("a/b/c", 0),
        Remove("a/b", 0),
        Remove("a", 0),
    )


def test_a_folder_is_no_record_and_becomes_one() -> None:
    view: View = {"a": FOLDER_NODE, "a/child": record(0)}
    assert first_failing([Absent(A)], [Put(A, b"", None)], view) is None
    assert make_plan([Absent(A)], [Put(A, b"", None)], view).operations == (Check("a", 3), SetData("a", RECORD, 3))
    assert make_plan([], [Put(A, b"", None, MINE)], {"a": FOLDER_NODE}).operations == (
        Remove("a", 3),
        Create("a", RECORD, ephemeral=True),
    )
    exact = Exact(A, FOLDER_NODE.state.version())
    assert first_failing([exact], [], view) == exact


def test_what_lies_below_stays_unless_there_must_be_nothing() -> None:
    plain = Delete(A, version(2))
    view: View = {"a": record(2), "a/child": record(0)}
    assert make_plan([], [plain], view).operations == (SetData("a", FOLDER, 2),)
    assert first_failing([NoneUnder(A)], [plain], view) == NoneUnder(A)
    only_folders: View = {"a": record(2), "a/x": FOLDER_NODE, "a/x/y": FOLDER_NODE}
    assert first_failing([NoneUnder(A)], [plain], only_folders) is None
    assert make_plan([NoneUnder(A)], [plain], only_folders).operations == (
        Remove("a/x/y", 3),
        Remove("a/x", 3),
        Remove("a", 2),
    )


def test_what_is_deleted_in_the_same_commit_is_out_of_the_way() -> None:
    both = [Delete(A, version(2)), Delete(CHILD, version(0))]
    view: View = {"a": record(2), "a/child": record(0)}
    for known in (None, view):
        assert make_plan([], both, known).operations == (Remove("a/child", 0), Remove("a", 2))
    again = make_plan([], [Delete(A, version(2)), Put(CHILD, b"", None)], {"a": record(2), "a/child": None})
    assert again.operations == (Remove("a", 2), Create("a", FOLDER), Create("a/child", RECORD))


def test_the_first_guard_in_the_contracts_order_is_named() -> None:
    view: View = {"a": record(2), "a/child": record(0), "b": None}
    stale = Exact(A, version(1))
    guards: list[Guard] = [Absent(Key("b")), stale, NoneUnder(A)]
    assert first_failing(guards, [Delete(A, version(2))], view) == stale
    assert first_failing([], [Put(Key("b"), b"", None), Put(CHILD, b"", None)], view) == Absent(CHILD)


def test_a_view_has_the_nodes_above_and_all_below_what_is_deleted() -> None:
    paths, deep = paths_to_read([Exact(Key("x/y/z"), version(0))], [Delete(A, version(0)), Put(CHILD, b"", None)])
    assert paths == {"x", "x/y", "x/y/z", "a", "a/child"}
    assert deep == {"a"}
