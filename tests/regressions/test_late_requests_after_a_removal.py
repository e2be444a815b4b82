"""Found by the state machine of two contenders: "absent" comes back when a handle is removed.

A request to add `x` gets no answer and is on its way; its retry is applied; `x` is removed, its blob deleted;
now the late request arrives in the same term. It used to be applied: a pointer to a missing blob (I4, S8),
for checkpoints a batch planned twice (I1). The anchor of the area voids it.
"""

from __future__ import annotations

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CheckpointStore
from tenure.errors import HandleExists, HandleLocked, OutcomeUnknown, OutOfOrder, TenureError, TermLost
from tests.faults.lab import Lab, big, in_turn, request_lost
from tests.kit.faulty import Call, Proceed, commits


def refused(answers: list[object]) -> bool:
    return bool(answers) and all(isinstance(answer, TenureError) for answer in answers)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("payload", [b"inline", big("blob")])
def test_a_late_add_does_not_resurrect_what_was_removed(payload: bytes, first: bool, lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    if not first:
        leader.handles.add(term, "w", b"")
        leader.handles.remove(term, "w")
    _, late = leader.store.be_late(times=2)
    leader.handles.add(term, "x", payload)
    leader.handles.remove(term, "x")
    assert refused(late.deliver())
    assert lab.pointers() == {}
    assert lab.audit() == set()


def test_a_late_add_that_met_another_handle_is_void_when_that_one_goes(lab: Lab) -> None:
    """HandleExists said "nothing was added": that stays true, and the blob of the refused add is deleted."""
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", big("one"))
    _, late = leader.store.be_late()
    with pytest.raises(HandleExists):
        leader.handles.add(term, "x", big("two"))
    assert lab.audit() == set()
    leader.handles.remove(term, "x")
    assert refused(late.deliver())
    assert lab.pointers() == {}
    assert lab.audit() == set()


def test_a_late_removal_that_met_a_lock_is_void_when_the_lock_goes(lab: Lab) -> None:
    """HandleLocked said "it stays"."""
    leader, reader = lab.member("a"), lab.member("reader")
    term = leader.lead()
    leader.handles.add(term, "x", big("one"))
    locks, late = [], []

    def fault(call: Call, proceed: Proceed) -> object:
        late.append(proceed)
        locks.append(reader.handles.lock("x", session=reader.keeper.session_id))
        raise OutcomeUnknown("the request is late, and a reader locked the handle meanwhile")

    leader.store.script(fault, when=commits)
    with pytest.raises(HandleLocked):
        leader.handles.remove(term, "x")
    reader.handles.release(locks[0])
    with pytest.raises(TenureError):
        late[0]()
    assert set(lab.pointers()) == {"x"}
    assert lab.audit() == set()


def test_a_late_plan_with_a_lock_in_its_way_is_planned_once(lab: Lab) -> None:
    """The plan that drops batch 0 is late; a reader locks 0; the plan without the drop is taken; the lock goes."""
    leader, reader = lab.member("a"), lab.member("reader")
    term = leader.lead()
    checkpoints = CheckpointStore(leader.handles, query="q", keep=1)
    checkpoints.plan(term, checkpoint(0))
    locks, late = [], []

    def fault(call: Call, proceed: Proceed) -> object:
        late.append(proceed)
        locks.append(reader.handles.lock("000000000000", session=reader.keeper.session_id))
        raise OutcomeUnknown("late")

    leader.store.script(fault, when=commits)
    checkpoints.plan(term, checkpoint(1))
    reader.handles.release(locks[0])
    with pytest.raises(TenureError):
        late[0]()
    assert list(lab.pointers()) == ["000000000000", "000000000001"]
    checkpoints.plan(term, checkpoint(2))
    assert list(lab.pointers()) == ["000000000002"]


def test_a_late_first_plan_after_retention_dropped_it_is_void(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = CheckpointStore(leader.handles, query="q", keep=2)
    _, late = leader.store.be_late()
    for batch in range(5):
        checkpoints.plan(term, checkpoint(batch))
    assert refused(late.deliver())
    assert list(lab.pointers()) == ["000000000003", "000000000004"]


@pytest.mark.parametrize("new_term", [False, True])
def test_the_first_batch_is_not_planned_again_from_what_was_known_before(new_term: bool, lab: Lab) -> None:
    """A standby read "nothing planned"; the leader planned 0, 1 and dropped 0; batch 0 was accepted again (I1)."""
    leader, standby = lab.member("a"), lab.member("b")
    term = leader.lead()
    old = CheckpointStore(standby.handles, query="q", keep=1)
    assert old.newest() is None
    now = CheckpointStore(leader.handles, query="q", keep=1)
    now.plan(term, checkpoint(0))
    now.plan(term, checkpoint(1))
    if new_term:
        leader.dies()
        term = standby.lead()
    with pytest.raises(OutOfOrder):
        old.plan(term, checkpoint(0, offsets="other"))
    assert list(lab.pointers()) == ["000000000001"]
    newest = old.newest()
    assert newest is not None
    assert newest.batch == 1


def test_a_plan_of_which_the_reply_was_lost_is_planned(lab: Lab) -> None:
    """Its own guards do not hold any more when it is sent again; its content says that it was applied."""
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = CheckpointStore(leader.handles, query="q", keep=1)
    for batch in range(4):
        leader.store.lose_reply()
        checkpoints.plan(term, checkpoint(batch))
        assert list(lab.pointers()) == [f"{batch:012d}"]
    assert lab.audit() == set()


def test_an_add_of_which_the_reply_was_lost_while_another_thread_removed(lab: Lab) -> None:
    """The anchor has moved when the add is sent again: applied all the same, not added twice, not refused."""
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "w", b"")

    def fault(call: Call, proceed: Proceed) -> object:
        proceed()
        leader.store.heal()
        leader.handles.remove(term, "w")
        raise OutcomeUnknown("the reply was lost")

    leader.store.script(fault, when=commits)
    handle = leader.handles.add(term, "x", big("one"))
    assert lab.pointers() == {"x": handle}
    assert lab.audit() == set()


def test_a_doubt_that_cannot_be_settled_before_the_deadline_keeps_everything(lab: Lab) -> None:
    """Refused by a lock after an unknown outcome, then the store is silent: the removal may still come."""
    leader, reader = lab.member("a"), lab.member("reader")
    term = leader.lead()
    leader.handles.add(term, "x", big("one"))

    def first(call: Call, proceed: Proceed) -> object:
        reader.handles.lock("x", session=reader.keeper.session_id)
        raise OutcomeUnknown("lost")

    in_turn(leader.store, first, lambda call, proceed: proceed(), request_lost)
    with pytest.raises(TermLost) as lost:
        leader.handles.remove(term, "x")
    assert lost.value.write_is_unknown
    assert term.lost
    assert lab.audit() == set()
    assert leader.blobs.deleted == []


def test_the_anchor_costs_no_commit_of_its_own(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    before = len([call for call in leader.store.calls if commits(call)])
    leader.handles.add(term, "x", b"1")
    leader.handles.replace(term, leader.handles.list()[0], b"2")
    leader.handles.remove(term, "x")
    assert len([call for call in leader.store.calls if commits(call)]) == before + 3


def checkpoint(batch: int, *, offsets: str = "offsets") -> Checkpoint:
    return Checkpoint("q", "id", batch, offsets, "run", 1, "now")
