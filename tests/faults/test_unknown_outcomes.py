"""Replies lost, requests lost, requests that come late: one definite answer, one effect.

After FLINK-22494, 24543, 26068 and 28265: a write that was applied, and that its sender took for a failure.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.coordination.records import Absent, Put
from tenure.coordination.term import EPOCH, LEADER, commit_under
from tenure.errors import (
    HandleExists,
    HandleLocked,
    HandleNotFound,
    OutcomeUnknown,
    SessionEnded,
    TenureError,
    TermLost,
)
from tests.faults.lab import AREA, SCOPE, Lab, big, in_turn, reply_lost, unavailable
from tests.kit.faulty import Call, FaultyStore, Proceed, commits, operation, writes_under

ONE, TWO = big("one"), big("two")


def lose_reply(store: FaultyStore, times: int) -> None:
    store.lose_reply(times=times)


def lose_request(store: FaultyStore, times: int) -> None:
    store.lose_request(times=times)


losses = pytest.mark.parametrize("lose", [lose_reply, lose_request], ids=["reply lost", "request lost"])


@losses
@pytest.mark.parametrize("times", [1, 2, 5])
def test_an_add_is_applied_once(lose: Callable[[FaultyStore, int], None], times: int, lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    lose(leader.store, times)
    handle = leader.handles.add(term, "x", ONE)
    assert lab.pointers() == {"x": handle}
    assert leader.handles.get("x") == ONE
    assert lab.audit() == set()
    assert not term.lost


@losses
def test_a_replace_is_applied_once(lose: Callable[[FaultyStore, int], None], lab: Lab) -> None:
    """FLINK-26068: the retry's refusal must not discard the new blob that the pointer names."""
    leader = lab.member("a")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    lose(leader.store, 2)
    replaced = leader.handles.replace(term, handle, TWO)
    assert lab.pointers() == {"x": replaced}
    assert leader.handles.get("x") == TWO
    assert lab.audit() == set()


@losses
def test_a_remove_is_applied_once(lose: Callable[[FaultyStore, int], None], lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    lose(leader.store, 2)
    leader.handles.remove(term, "x")
    assert lab.pointers() == {}
    assert lab.audit() == set()


@losses
def test_a_grant_is_applied_once(lose: Callable[[FaultyStore, int], None], lab: Lab) -> None:
    member = lab.member("a")
    lose(member.store, 3)
    term = member.lead()
    assert term.epoch == 1
    member.handles.add(term, "x", ONE)
    assert lab.audit() == set()


def test_a_late_grant_is_refused_once_a_later_term_began(lab: Lab) -> None:
    member = lab.member("a")
    _, late = member.store.be_late()
    term = member.lead()
    member.election.resign(term)
    assert all(isinstance(answer, TenureError) for answer in late.deliver())
    assert lab.truth.read(SCOPE, LEADER) is None
    again = member.lead()
    assert again.epoch == 2


def test_a_late_grant_of_an_ended_session_is_refused(lab: Lab) -> None:
    member = lab.member("a")
    _, late = member.store.be_late(times=None)
    with pytest.raises((OutcomeUnknown, SessionEnded)):
        member.lead()
    member.dies()
    assert all(isinstance(answer, TenureError) for answer in late.deliver())
    assert lab.truth.read(SCOPE, LEADER) is None
    assert lab.truth.read(SCOPE, EPOCH) is None


def test_a_late_add_finds_its_own_retry_and_is_refused(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    _, late = leader.store.be_late(times=3)
    handle = leader.handles.add(term, "x", ONE)
    assert len(late.requests) == 3
    assert all(isinstance(answer, TenureError) for answer in late.deliver())
    assert lab.pointers() == {"x": handle}
    assert lab.audit() == set()


def test_an_add_that_meets_another_handle_of_that_name_is_refused_although_its_reply_was_lost(lab: Lab) -> None:
    """Not mistaken for its own retry: the content proves who wrote it (against FLINK-24543's answer)."""
    leader = lab.member("a")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    for lose in (lose_reply, lose_request):
        lose(leader.store, 1)
        with pytest.raises(HandleExists):
            leader.handles.add(term, "x", TWO)
        lose(leader.store, 1)
        with pytest.raises(HandleExists):
            leader.handles.add(term, "x", ONE)  # the same bytes are still another write
    assert lab.pointers() == {"x": handle}
    assert leader.handles.get("x") == ONE


@losses
def test_a_payload_within_the_record_is_told_from_the_same_one_of_another_write(
    lose: Callable[[FaultyStore, int], None], lab: Lab
) -> None:
    """There is no blob whose address differs: the record's own unique id is all that does."""
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", b"small")
    lose(leader.store, 1)
    with pytest.raises(HandleExists):
        leader.handles.add(term, "x", b"small")


def test_a_replace_of_what_is_gone_is_refused_although_its_reply_was_lost(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    leader.handles.remove(term, "x")
    leader.store.lose_reply()
    with pytest.raises(HandleNotFound):
        leader.handles.replace(term, handle, TWO)
    assert lab.pointers() == {}
    lab.audit()


def test_a_store_that_comes_back_before_the_deadline_is_waited_for(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    script = leader.store.be_unavailable(when=commits, times=5)
    leader.handles.add(term, "x", ONE)
    assert script.fired == 5
    assert lab.audit() == set()


def test_a_store_away_until_the_deadline_ends_the_term_definitely(lab: Lab) -> None:
    """StoreUnavailable alone says that nothing was sent: the answer is definite and the new blob goes."""
    leader = lab.member("a")
    term = leader.lead()
    leader.store.be_unavailable(when=commits, times=None)
    with pytest.raises(TermLost) as lost:
        leader.handles.add(term, "x", ONE)
    assert not lost.value.write_is_unknown
    assert term.lost
    assert lab.pointers() == {}
    assert lab.audit() == set()


def test_unavailable_after_unknown_stays_unknown(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    in_turn(leader.store, reply_lost, unavailable)
    with pytest.raises(TermLost) as lost:
        leader.handles.add(term, "x", ONE)
    assert lost.value.write_is_unknown
    assert set(lab.pointers()) == {"x"}
    assert lab.audit() == set()


def test_reads_that_fail_while_settling_are_repeated(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.store.lose_reply()
    script = leader.store.be_unavailable(when=operation("read", "list"), times=4)
    handle = leader.handles.add(term, "x", ONE)
    assert script.fired == 4
    assert lab.pointers() == {"x": handle}


def test_reads_that_fail_until_the_deadline_leave_the_outcome_unknown(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "w", b"")
    leader.store.lose_reply()
    leader.store.be_unavailable(when=operation("read", "list"), times=None)
    with pytest.raises(TermLost) as lost:
        leader.handles.add(term, "x", ONE)
    assert lost.value.write_is_unknown
    assert term.lost
    assert set(lab.pointers()) == {"w", "x"}
    assert lab.audit() == set()


def test_the_term_ends_between_the_lost_reply_and_the_retry(lab: Lab) -> None:
    """FLINK-22494: refused by the fence after an unknown outcome: the pointer may be there, the blob is kept."""
    leader = lab.member("a")
    term = leader.lead()

    def fault(call: Call, proceed: Proceed) -> object:
        proceed()
        leader.dies()
        raise OutcomeUnknown("the reply was lost, and the session ended")

    leader.store.script(fault, when=commits)
    with pytest.raises(TermLost) as lost:
        leader.handles.add(term, "x", ONE)
    assert lost.value.write_is_unknown
    assert set(lab.pointers()) == {"x"}
    assert lab.audit() == set()


def test_a_lock_with_a_lost_reply_is_one_lock(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    reader = lab.member("reader")
    reader.store.lose_reply()
    lock = reader.handles.lock("x", session=reader.keeper.session_id)
    assert [record.key for record in lab.truth.list(SCOPE, lock.handle.key).records] == [lock.key]
    with pytest.raises(HandleLocked):
        leader.handles.remove(term, "x")
    reader.store.lose_reply()
    reader.handles.release(lock)
    leader.handles.remove(term, "x")
    assert lab.pointers() == {}


def test_a_late_lock_after_its_release_goes_with_its_session(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    reader = lab.member("reader")
    _, late = reader.store.be_late()
    reader.handles.release(reader.handles.lock("x", session=reader.keeper.session_id))
    late.deliver()
    reader.dies()
    leader.handles.remove(term, "x")
    assert lab.audit() == set()


def test_a_late_lock_never_makes_its_parent(lab: Lab) -> None:
    """S8: the handle went while the lock was on its way."""
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    reader = lab.member("reader")
    _, late = reader.store.be_late(when=writes_under(AREA.child("x")), times=None)
    with pytest.raises(OutcomeUnknown):
        reader.handles.lock("x", session=reader.keeper.session_id)
    leader.handles.remove(term, "x")
    assert late.requests
    assert all(isinstance(answer, TenureError) for answer in late.deliver())
    assert [r for r in lab.truth.list(SCOPE, AREA).records if r.key.is_under(AREA.child("x"))] == []


def test_a_guard_of_the_caller_is_judged_after_the_fence(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.dies()
    with pytest.raises(TermLost):
        commit_under(
            leader.store,
            term,
            guards=[Absent(EPOCH)],
            writes=[Put(AREA.child("x"), b"{}", replaces=None)],
            clock=lab.clock,
        )
