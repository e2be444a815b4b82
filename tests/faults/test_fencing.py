"""I5 attacked: whatever an old leader still does after its term ended is refused, and changes nothing.

The same attacks against weaker fences (none; a leader exists; the leader is me) must let the stale write
through: else these tests could not fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CheckpointStore
from tenure.coordination.election_rules import Seen, TakeOffice, next_step
from tenure.coordination.encoding import decode, new_uid
from tenure.coordination.records import Exact, Put, Record, SessionId, Version
from tenure.coordination.session import Liveness
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH, LEADER, Term
from tenure.errors import TermLost
from tests.faults.lab import SCOPE, Lab, Member, big
from tests.kit.faulty import commits
from tests.support.unfenced import UnfencedStore

ONE, TWO = big("one"), big("two")


def plan(member: Member, term: Term) -> None:
    checkpoints = CheckpointStore(member.handles, query="q")
    checkpoints.plan(term, Checkpoint("q", "id", 0, "offsets", "run", term.epoch, "now"))


def replace(member: Member, term: Term) -> object:
    handle = member.handles.find("x")
    assert handle is not None
    return member.handles.replace(term, handle, TWO)


WRITES: dict[str, Callable[[Member, Term], object]] = {
    "add": lambda member, term: member.handles.add(term, "late", ONE),
    "replace": replace,
    "remove": lambda member, term: member.handles.remove(term, "x"),
    "remove all": lambda member, term: member.handles.remove_all(term, member.handles.list()),
    "resign": lambda member, term: member.election.resign(term),
}


def no_successor(lab: Lab, old: Member) -> None:
    old.dies()


def successor(lab: Lab, old: Member) -> None:
    old.dies()
    lab.member("new").lead()


def same_member_again(lab: Lab, old: Member) -> None:
    """ABA: the same member is elected again, under a new session."""
    old.dies()
    lab.member("old").lead()


def same_member_same_session(lab: Lab, old: Member) -> None:
    """ABA without any change of session: resigned behind the back of the old term's user, elected again."""
    record = lab.truth.read(SCOPE, LEADER)
    assert record is not None
    term = Term(SCOPE, 1, "old", record.version, epoch_version(lab), Liveness(clock=lab.clock, until_s=1e9))
    old.election.resign(term)
    assert old.lead().epoch == 2


def leader_record_again(lab: Lab, old: Member) -> None:
    """The very bytes of the leader record are created again, as they were (FAULTS: `/leader` at version 0)."""
    record = lab.truth.read(SCOPE, LEADER)
    assert record is not None
    old.dies()
    other = lab.member("old")
    other.store.commit(SCOPE, guards=(), writes=[Put(LEADER, record.value, None, other.keeper.session_id)])


def epoch_version(lab: Lab) -> Version:
    record = lab.truth.read(SCOPE, EPOCH)
    assert record is not None
    return record.version


ENDS = [no_successor, successor, same_member_again, same_member_same_session, leader_record_again]


def scene(
    lab: Lab, wrap: Callable[[CoordinationStore], CoordinationStore] = lambda store: store
) -> tuple[Member, Term]:
    old = lab.member("old", wrap=wrap)
    term = old.lead()
    old.handles.add(term, "x", ONE)
    return old, term


def snapshot(lab: Lab) -> tuple[Record, ...]:
    return lab.truth.list(SCOPE).records


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_after_the_term_is_refused(write: str, end: Callable[[Lab, Member], None], tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    old, term = scene(lab)
    end(lab, old)
    before = snapshot(lab)
    with pytest.raises(TermLost) as lost:
        WRITES[write](old, term)
    assert not lost.value.write_is_unknown
    assert term.lost, "the holder has learned it"
    assert snapshot(lab) == before
    assert lab.audit() == set()


@pytest.mark.parametrize("end", ENDS)
def test_a_plan_after_the_term_is_refused(end: Callable[[Lab, Member], None], tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    old = lab.member("old")
    term = old.lead()
    end(lab, old)
    before = snapshot(lab)
    with pytest.raises(TermLost):
        plan(old, term)
    assert snapshot(lab) == before


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("write", WRITES)
def test_a_write_paused_between_decision_and_arrival_is_refused(
    write: str, end: Callable[[Lab, Member], None], tmp_path: Path
) -> None:
    """FLINK-10333: the process stops after it decided to write, and wakes up in another term."""
    lab = Lab(tmp_path)
    old, term = scene(lab)
    before: list[tuple[Record, ...]] = []

    def pause(call: object, proceed: Callable[[], object]) -> object:
        old.store.heal()
        end(lab, old)
        before.append(snapshot(lab))
        return proceed()

    script = old.store.script(pause, when=commits)
    with pytest.raises(TermLost):
        WRITES[write](old, term)
    assert script.fired == 1
    assert snapshot(lab) == before[0]
    assert lab.audit() == set()


# What a version names, and what a guard compares, is each store's own: the same on all of them, with one write.


@pytest.mark.parametrize("end", ENDS)
def test_on_every_store_a_write_after_the_term_is_refused(end: Callable[[Lab, Member], None], lab: Lab) -> None:
    old, term = scene(lab)
    end(lab, old)
    before = snapshot(lab)
    with pytest.raises(TermLost) as lost:
        old.handles.add(term, "late", ONE)
    assert not lost.value.write_is_unknown
    assert snapshot(lab) == before
    assert lab.audit() == set()


@pytest.mark.parametrize("end", ENDS)
def test_on_every_store_a_write_that_was_paused_on_its_way_is_refused(
    end: Callable[[Lab, Member], None], lab: Lab
) -> None:
    old, term = scene(lab)
    before: list[tuple[Record, ...]] = []

    def pause(call: object, proceed: Callable[[], object]) -> object:
        old.store.heal()
        end(lab, old)
        before.append(snapshot(lab))
        return proceed()

    old.store.script(pause, when=commits)
    with pytest.raises(TermLost):
        old.handles.add(term, "late", ONE)
    assert [snapshot(lab)] == before
    assert lab.audit() == set()


def test_the_term_presented_by_another_process_is_fenced_too(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    old, term = scene(lab)
    presented = Term.from_json(term.to_json(), liveness=Liveness(clock=lab.clock, until_s=float("inf")))
    old.handles.add(presented, "fine", ONE)
    successor(lab, old)
    with pytest.raises(TermLost):
        old.handles.add(presented, "late", ONE)
    assert set(lab.pointers()) == {"x", "fine"}


def test_the_store_decides_not_the_clock(tmp_path: Path) -> None:
    """A term past its local deadline whose records still stand: the commit is sent, and is definite."""
    lab = Lab(tmp_path)
    old, term = scene(lab)
    lab.clock.advance(timedelta(seconds=9.5))  # deadline 9 s, session 10 s
    assert term.lost
    old.handles.add(term, "late", ONE)
    assert set(lab.pointers()) == {"x", "late"}
    lab.clock.advance(timedelta(seconds=1))
    with pytest.raises(TermLost):
        old.handles.add(term, "later", ONE)


# --- the mutants ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeakTerm(Term):
    """A term with another fence, judged at the instant of the commit."""

    lab: Lab | None = None
    fence: str = "exists"

    def guards(self) -> tuple[Exact, Exact]:
        assert self.lab is not None
        leader = self.lab.truth.read(SCOPE, LEADER)
        epoch = Exact(EPOCH, epoch_version(self.lab))
        if leader is None:
            return (Exact(LEADER, self.leader), epoch)
        mine = decode(leader, fields={"member": str})["member"] == self.holder
        if self.fence == "exists" or (self.fence == "owner" and mine):
            return (Exact(LEADER, leader.version), epoch)
        return (Exact(LEADER, self.leader), epoch)


def weak(term: Term, lab: Lab, fence: str) -> WeakTerm:
    return WeakTerm(
        term.scope, term.epoch, term.holder, term.leader, term.epoch_record, term.liveness, lab=lab, fence=fence
    )


SLIPS_THROUGH = {
    "none": ENDS,
    "exists": [successor, same_member_again, same_member_same_session, leader_record_again],
    "owner": [same_member_again, same_member_same_session, leader_record_again],
}


@pytest.mark.parametrize(("fence", "end"), [(fence, end) for fence, ends in SLIPS_THROUGH.items() for end in ends])
def test_a_weaker_fence_lets_the_stale_write_through(
    fence: str, end: Callable[[Lab, Member], None], tmp_path: Path
) -> None:
    lab = Lab(tmp_path)
    old, term = scene(lab, wrap=UnfencedStore if fence == "none" else lambda store: store)
    end(lab, old)
    stale = term if fence == "none" else weak(term, lab, fence)
    old.handles.add(stale, "late", ONE)
    assert lab.pointers()["late"].epoch == 1, "the write of epoch 1 was committed after it ended"


def test_a_fence_by_the_leader_record_alone_is_what_the_epoch_record_backs_up(tmp_path: Path) -> None:
    """Both records are guarded: an epoch that moved under a leader record that stands is a lost term, too."""
    lab = Lab(tmp_path)
    old, term = scene(lab)
    record = lab.truth.read(SCOPE, EPOCH)
    assert record is not None
    step = next_step_of_nobody(record)
    lab.truth.commit(SCOPE, guards=(), writes=[step])
    with pytest.raises(TermLost):
        old.handles.add(term, "late", ONE)


def next_step_of_nobody(epoch: Record) -> Put:
    step = next_step(Seen(leader=None, epoch=epoch), member="other", session=SessionId("s"), now="now", uid=new_uid())
    assert isinstance(step, TakeOffice)
    put = step.writes[1]
    assert isinstance(put, Put)
    return put
