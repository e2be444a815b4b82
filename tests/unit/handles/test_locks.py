"""Locks: a reader's claim on a handle (FLINK-6612, 10011, 10184, 10255, 10328)."""

from __future__ import annotations

import pytest

from tenure.coordination.records import Put
from tenure.errors import (
    CorruptBlob,
    HandleLocked,
    HandleNotFound,
    OutcomeUnknown,
    SessionEnded,
    StoreUnavailable,
)
from tests.faults.lab import AREA, SCOPE, Lab, Member, big
from tests.kit.faulty import Call, Proceed, commits

ONE, TWO = big("one"), big("two")


def commits_of(member: Member) -> int:
    return sum(commits(call) for call in member.store.calls)


def test_a_second_locker_keeps_a_handle_and_the_last_release_lets_it_go(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    first = leader.handles.lock("x", session=leader.keeper.session_id)
    second = reader.handles.lock("x", session=reader.keeper.session_id)
    leader.handles.release(first)
    with pytest.raises(HandleLocked, match="things/x"):
        leader.handles.remove(term, "x")
    assert reader.handles.get("x") == ONE
    reader.handles.release(second)
    reader.handles.release(second)  # releasing twice is fine
    leader.handles.remove(term, "x")
    assert lab.audit() == set()
    assert lab.pointers() == {}


def test_one_session_may_hold_several_locks(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    locks = [leader.handles.lock("x", session=leader.keeper.session_id) for _ in range(3)]
    for lock in locks:
        with pytest.raises(HandleLocked):
            leader.handles.remove(term, "x")
        leader.handles.release(lock)
    leader.handles.remove(term, "x")


def test_the_lock_of_a_crashed_reader_goes_with_its_session_and_only_then(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    reader.handles.lock("x", session=reader.keeper.session_id)
    del reader.handles
    with pytest.raises(HandleLocked):
        leader.handles.remove(term, "x")
    reader.dies()
    leader.handles.remove(term, "x")
    assert lab.audit() == set()


def test_the_locks_of_an_old_leader_go_with_its_session(lab: Lab) -> None:
    """FLINK-10011: leadership lost by a glitch; the old leader's locks must not outlive its session."""
    old = lab.member("old")
    old.handles.add(old.lead(), "x", ONE)
    old.handles.lock("x", session=old.keeper.session_id)
    old.dies()
    new = lab.member("new")
    new.handles.remove(new.lead(), "x")
    assert lab.pointers() == {}


def test_a_lock_needs_a_living_session(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    leader.handles.add(leader.lead(), "x", ONE)
    reader.dies()
    with pytest.raises(SessionEnded):
        reader.handles.lock("x", session=reader.keeper.session_id)


def test_a_failed_read_leaves_no_lock(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    assert handle.blob is not None
    lab.files.delete(handle.blob.address)
    with pytest.raises(CorruptBlob), reader.handles.locked("x", session=reader.keeper.session_id):
        pass
    assert [record.key for record in lab.truth.list(SCOPE, handle.key).records] == []
    with pytest.raises(HandleNotFound), reader.handles.locked("nothing", session=reader.keeper.session_id):
        pass


def test_locked_releases_when_the_block_raises(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)

    def user_code() -> None:
        with leader.handles.locked("x", session=leader.keeper.session_id) as (handle, payload):
            assert (handle.name, payload) == ("x", ONE)
            with pytest.raises(HandleLocked):
                leader.handles.remove(term, "x")
            raise KeyError("user code")

    with pytest.raises(KeyError):
        user_code()
    leader.handles.remove(term, "x")


def test_a_lock_never_makes_its_parent(lab: Lab) -> None:
    """S8: the handle goes between the reader's look and its lock."""
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)

    def remove_first(call: object, proceed: object) -> object:
        leader.handles.remove(term, "x")
        assert callable(proceed)
        return proceed()

    script = reader.store.script(remove_first, when=commits)
    with pytest.raises(HandleNotFound):
        reader.handles.lock("x", session=reader.keeper.session_id)
    assert script.fired == 1
    assert [record.key for record in lab.truth.list(SCOPE, AREA).records] == []


def test_a_lock_that_comes_just_before_the_removal_keeps_the_handle(lab: Lab) -> None:
    """The other order of the same race: nobody had a lock when the removal was decided on."""
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)

    def lock_first(call: object, proceed: object) -> object:
        reader.handles.lock("x", session=reader.keeper.session_id)
        assert callable(proceed)
        return proceed()

    script = leader.store.script(lock_first, when=commits)
    with pytest.raises(HandleLocked):
        leader.handles.remove(term, "x")
    assert script.fired == 1
    assert lab.pointers() == {"x": handle}
    assert reader.handles.get("x") == ONE
    assert lab.audit() == set()


def test_a_lock_follows_a_replacement(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)

    def replace_first(call: object, proceed: object) -> object:
        leader.handles.replace(term, handle, TWO)
        assert callable(proceed)
        return proceed()

    reader.store.script(replace_first, when=commits)
    with reader.handles.locked("x", session=reader.keeper.session_id) as (_, payload):
        assert payload == TWO


def test_a_replace_keeps_the_old_blob_while_it_is_locked(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    old = leader.handles.add(term, "x", ONE)
    lock = reader.handles.lock("x", session=reader.keeper.session_id)
    leader.handles.replace(term, old, TWO)
    assert reader.handles.payload(lock.handle) == ONE
    assert leader.handles.get("x") == TWO
    assert old.blob is not None
    assert leader.blobs.deleted == []
    reader.handles.release(lock)
    assert lab.audit() == {old.blob.address}, "left to the sweep"


def test_a_lock_on_the_new_blob_does_not_keep_the_old_one(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    first = leader.handles.add(term, "x", ONE)
    second = leader.handles.replace(term, first, TWO)
    leader.handles.lock("x", session=leader.keeper.session_id)
    leader.handles.replace(term, second, b"inline")
    assert second.blob is not None
    assert set(lab.files.list()) == {second.blob.address}


def test_add_and_remove_in_one_commit_respects_locks(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    old = leader.handles.add(term, "x", ONE)
    lock = reader.handles.lock("x", session=reader.keeper.session_id)
    with pytest.raises(HandleLocked) as held:
        leader.handles.add(term, "y", TWO, remove=[old])
    assert held.value.key == old.key
    assert set(lab.pointers()) == {"x"}
    assert lab.audit() == set()
    reader.handles.release(lock)
    before = commits_of(leader)
    leader.handles.add(term, "y", TWO, remove=[old])
    assert commits_of(leader) == before + 1
    assert set(lab.pointers()) == {"y"}
    assert lab.audit() == set()


def operations_of(member: Member) -> list[str]:
    calls = [call.operation for call in member.store.calls]
    return [operation for operation in calls if operation not in ("open_session", "watch")]


def test_no_locks_are_listed_while_the_anchor_is_the_leaders_own(lab: Lab) -> None:
    """A batch costs one commit: a handle comes, the oldest goes."""
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.list()
    oldest = leader.handles.add(term, "0", ONE)
    leader.handles.remove(term, "none")
    before = len(operations_of(leader))
    for number in range(1, 6):
        oldest = leader.handles.add(term, str(number), ONE, remove=[oldest])
    found = operations_of(leader)[before:]
    assert found.count("commit") == 5
    assert found.count("list") <= 1, "the locks are listed once"
    assert found[-3:] == ["commit"] * 3


def test_a_listing_of_the_handles_is_a_listing_of_the_locks(lab: Lab) -> None:
    """So a takeover, which lists the checkpoints, pays nothing for the first removal."""
    leader = lab.member("a")
    term = leader.lead()
    oldest = leader.handles.add(term, "0", ONE)
    leader.handles.list(term)
    before = len(operations_of(leader))
    leader.handles.add(term, "1", ONE, remove=[oldest])
    assert operations_of(leader)[before:] == ["commit"]


def test_a_lock_costs_the_leader_one_look_and_blocks_no_other_handle(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handles = [leader.handles.add(term, str(number), ONE) for number in range(3)]
    leader.handles.list(term)
    lock = reader.handles.lock("0", session=reader.keeper.session_id)
    before = len(operations_of(leader))
    leader.handles.remove_all(term, [handles[1]])
    assert operations_of(leader)[before:] == ["commit", "read", "list", "commit"]
    before = len(operations_of(leader))
    leader.handles.remove_all(term, [handles[2]])
    assert operations_of(leader)[before:] == ["commit"]
    with pytest.raises(HandleLocked):
        leader.handles.remove_all(term, [handles[0]])
    reader.handles.release(lock)
    leader.handles.remove_all(term, [handles[0]])
    assert lab.audit() == set()


def test_a_lock_that_went_with_its_session_delays_a_removal_by_one_look(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    leader.handles.list(term)
    reader.handles.lock("x", session=reader.keeper.session_id)
    reader.dies()
    before = len(operations_of(leader))
    leader.handles.remove_all(term, [handle])
    assert operations_of(leader)[before:] == ["commit", "read", "list", "commit"]
    assert lab.audit() == set()


def test_a_lock_whose_reply_was_lost_before_the_anchor_moved_is_one_lock(lab: Lab) -> None:
    """Sent again, it is refused by the anchor, or by a handle that was replaced meanwhile. It stands all the same."""
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle, other = leader.handles.add(term, "x", ONE), leader.handles.add(term, "y", ONE)

    def fault(call: Call, proceed: Proceed) -> object:
        proceed()
        leader.handles.replace(term, handle, TWO)
        leader.handles.remove_all(term, [other])
        raise OutcomeUnknown("the reply was lost")

    reader.store.script(fault, when=commits)
    lock = reader.handles.lock("x", session=reader.keeper.session_id)
    assert [record.key for record in lab.truth.list(SCOPE, handle.key).records] == [lock.key]
    assert reader.handles.payload(lock.handle) == ONE
    reader.handles.release(lock)
    leader.handles.remove(term, "x")


def test_an_area_that_always_changes_is_a_clear_error(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)

    def move(call: Call, proceed: Proceed) -> object:
        anchor = lab.truth.read(SCOPE, AREA)
        assert anchor is not None
        lab.truth.commit(SCOPE, guards=[], writes=[Put(AREA, b"moved", anchor.version)])
        leader.keeper.renew()
        reader.keeper.renew()
        return proceed()

    for member in (leader, reader):
        member.store.script(move, when=commits, times=None)
    with pytest.raises(StoreUnavailable, match="'things' are locked or removed faster"):
        reader.handles.lock("x", session=reader.keeper.session_id)
    with pytest.raises(StoreUnavailable, match="'things' are locked or removed faster"):
        leader.handles.remove_all(term, [handle])
    assert set(lab.pointers()) == {"x"}
    assert [record.key for record in lab.truth.list(SCOPE, handle.key).records] == []
