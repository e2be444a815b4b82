"""Every operation on handles x every step x every outcome: the pointers keep their promise (I4, I6).

A crash is a BaseException before or after each effect (blob written, commit, blob deleted), and the process
stays dead. After each, the next leader takes over, the audit runs, the dead leader's requests arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

from tenure.coordination.term import Term
from tenure.errors import HandleError, OutcomeUnknown, TenureError, TermLost
from tenure.handles.handle import Handle
from tests.faults.lab import Crash, Lab, Member, big, in_turn, reply_lost, request_lost
from tests.kit.faulty import Call, Proceed, commits

OLD, NEW, OTHER = big("old"), big("new"), big("other")


class Operation(Enum):
    """What is done to a handle."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class Step(Enum):
    """One step of an operation; each can be the last one before a crash."""

    WRITE_BLOB = "write the new blob"
    COMMIT_POINTER = "commit the pointer, or its removal"
    DELETE_OLD_BLOB = "delete the blob that no pointer names any more"


ORDER: Mapping[Operation, tuple[Step, ...]] = {
    Operation.ADD: (Step.WRITE_BLOB, Step.COMMIT_POINTER),
    Operation.REPLACE: (Step.WRITE_BLOB, Step.COMMIT_POINTER, Step.DELETE_OLD_BLOB),
    Operation.REMOVE: (Step.COMMIT_POINTER, Step.DELETE_OLD_BLOB),
}


@dataclass(frozen=True)
class Case:
    """An operation on a store that holds `x` (a blob) and `y` (a blob). `after`: what is there when it is done."""

    name: str
    operation: Operation
    act: Callable[[Member, Term], object]
    after: dict[str, bytes]


BEFORE = {"x": OLD, "y": OTHER}
CASES = [
    Case("add", Operation.ADD, lambda m, t: m.handles.add(t, "z", NEW), {**BEFORE, "z": NEW}),
    Case("add inline", Operation.ADD, lambda m, t: m.handles.add(t, "z", b"small"), {**BEFORE, "z": b"small"}),
    Case(
        "add and remove",
        Operation.ADD,
        lambda m, t: m.handles.add(t, "z", NEW, remove=[found(m, "x")]),
        {"y": OTHER, "z": NEW},
    ),
    Case("replace", Operation.REPLACE, lambda m, t: m.handles.replace(t, found(m, "x"), NEW), {**BEFORE, "x": NEW}),
    Case(
        "replace by inline",
        Operation.REPLACE,
        lambda m, t: m.handles.replace(t, found(m, "x"), b"small"),
        {**BEFORE, "x": b"small"},
    ),
    Case("remove", Operation.REMOVE, lambda m, t: m.handles.remove(t, "x"), {"y": OTHER}),
    Case("remove all", Operation.REMOVE, lambda m, t: m.handles.remove_all(t, m.handles.list()), {}),
]
all_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def found(member: Member, name: str) -> Handle:
    handle = member.handles.find(name)
    assert handle is not None
    return handle


def prepared(lab: Lab) -> tuple[Member, Term]:
    """A leader, and two handles with blobs."""
    leader = lab.member("old")
    term = leader.lead()
    for name, payload in BEFORE.items():
        leader.handles.add(term, name, payload)
    return leader, term


def contents(lab: Lab) -> dict[str, bytes]:
    member = lab.member("reader")
    return dict(member.handles.get_all())


def effects_of(case: Case, lab: Lab) -> list[str]:
    leader, term = prepared(lab)
    tick_commits(leader)
    leader.crasher.effects.clear()
    case.act(leader, term)
    assert contents(lab) == case.after
    assert lab.audit() == set()
    return leader.crasher.effects


def tick_commits(member: Member) -> None:
    """From here on, commits are effects too."""

    def fault(call: Call, proceed: Proceed) -> object:
        member.crasher.effect("before commit")
        answer = proceed()
        member.crasher.effect("after commit")
        return answer

    member.store.script(fault, when=commits, times=None)


@all_cases
def test_the_effects_come_in_the_order_of_the_table(case: Case, tmp_path: Path) -> None:
    word = {"after write": Step.WRITE_BLOB, "after commit": Step.COMMIT_POINTER, "after delete": Step.DELETE_OLD_BLOB}
    seen = [word[effect] for effect in effects_of(case, Lab(tmp_path)) if effect in word]
    order = [*ORDER[case.operation]]
    if case.name == "add and remove":
        order.append(Step.DELETE_OLD_BLOB)
    assert [step for step in order if step in seen] == list(dict.fromkeys(seen))


@all_cases
def test_a_crash_at_any_effect_leaves_no_broken_pointer(case: Case, tmp_path: Path) -> None:
    """For every k: the process dies at its k-th effect; then the next leader goes on by itself (I9)."""
    effects = effects_of(case, Lab(tmp_path / "whole"))
    assert len(effects) >= 2
    for k, dies_at in enumerate(effects):
        lab = Lab(tmp_path / str(k))
        leader, term = prepared(lab)
        tick_commits(leader)
        leader.crasher.effects.clear()
        leader.crasher.at = k
        with pytest.raises(Crash):
            case.act(leader, term)
        committed = "after commit" in effects[: k + 1]
        assert contents(lab) == (case.after if committed else BEFORE), f"died {dies_at}, effect {k}"
        orphans = lab.audit()
        new = set(leader.blobs.written[len(BEFORE) :])
        if not committed:
            assert orphans == new, "only the new blob may lie about, its pointer was not committed"
        else:
            assert not orphans & new, "the new blob has its pointer"
        leader.dies()
        takes_over(lab, case)


def takes_over(lab: Lab, case: Case) -> None:
    """The next leader does its work on whatever it finds, and ends in the same state each time."""
    successor = lab.member("new")
    term = successor.lead()
    assert term.epoch == 2
    before = lab.audit()
    here = successor.handles.list()
    successor.handles.remove_all(term, here)
    successor.handles.add(term, "fresh", NEW)
    successor.handles.remove(term, "x")
    assert contents(lab) == {"fresh": NEW}
    assert lab.audit() == before, "the successor leaves no orphan of its own, and touches none of the old"


@pytest.mark.parametrize("outcome", ["refused", "reply lost", "request lost", "late", "unavailable for a while"])
@all_cases
def test_the_answer_is_definite_while_the_term_lives(case: Case, outcome: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    leader, term = prepared(lab)
    late = None
    if outcome == "refused":
        script = leader.store.script(refuse_once(lab), when=commits)
        # The successor is in office when the commit arrives.
        with pytest.raises(TermLost) as lost:
            case.act(leader, term)
        assert not lost.value.write_is_unknown
        assert contents(lab) == BEFORE
        assert script.fired == 1
        assert lab.audit() == set(), "what was refused leaves no blob"
        assert leader.blobs.deleted == leader.blobs.written[len(BEFORE) :], "the pointer still names the old blob"
        return
    if outcome == "reply lost":
        script = leader.store.lose_reply(times=1)
    elif outcome == "request lost":
        script = leader.store.lose_request(times=1)
    elif outcome == "late":
        script, late = leader.store.be_late(times=1)
    else:
        script = leader.store.be_unavailable(when=commits, times=3)
    case.act(leader, term)
    assert script.fired >= 1
    assert contents(lab) == case.after
    assert lab.audit() == set()
    if late is not None:
        assert late.requests
        assert all(isinstance(answer, TenureError) for answer in late.deliver()), "the late request must be refused"
        assert contents(lab) == case.after
        assert lab.audit() == set()


def refuse_once(lab: Lab) -> Callable[[Call, Proceed], object]:
    def fault(call: Call, proceed: Proceed) -> object:
        old = lab.server.read(call.scope, call.guards[0].key) if call.scope else None
        assert old is not None
        assert old.session is not None
        lab.server.end(old.session)
        lab.member("successor").lead()
        return proceed()

    return fault


@pytest.mark.parametrize("truth", ["applied", "never", "late"])
@all_cases
def test_an_outcome_unknown_until_the_term_ends_keeps_every_blob(case: Case, truth: str, tmp_path: Path) -> None:
    """The store is silent until the deadline: the answer is TermLost with `write_is_unknown`, nothing is discarded."""
    lab = Lab(tmp_path)
    leader, term = prepared(lab)
    blobs = set(lab.files.list())
    late: list[Proceed] = []

    def is_late(call: Call, proceed: Proceed) -> object:
        late.append(proceed)
        raise OutcomeUnknown("the request is late")

    first = {"applied": reply_lost, "never": request_lost, "late": is_late}[truth]
    silent = in_turn(leader.store, first, request_lost)
    with pytest.raises(TermLost) as lost:
        case.act(leader, term)
    assert silent.fired > 3
    assert lost.value.write_is_unknown
    assert term.lost
    assert leader.blobs.deleted == []
    assert blobs <= set(lab.files.list())
    for request in late:
        request()  # the session still lives in the store: it is one of the allowed histories
    assert contents(lab) == (BEFORE if truth == "never" else case.after)
    lab.audit()
    leader.dies()
    takes_over(lab, case)


@all_cases
def test_requests_of_an_ended_term_change_nothing(case: Case, tmp_path: Path) -> None:
    """The request arrives after the term ended: no successor yet, then with one."""
    for successor in (False, True):
        lab = Lab(tmp_path / str(successor))
        leader, term = prepared(lab)
        _, late = leader.store.be_late(times=None)
        with pytest.raises(TermLost):
            case.act(leader, term)
        leader.dies()
        if successor:
            lab.member("new").lead()
        assert late.requests
        assert all(isinstance(answer, TenureError) for answer in late.deliver())
        assert contents(lab) == BEFORE
        lab.audit()


def test_every_operation_has_its_cases() -> None:
    assert {case.operation for case in CASES} == set(Operation)


@all_cases
def test_only_the_blobs_without_a_pointer_are_deleted(case: Case, tmp_path: Path) -> None:
    leader, term = prepared(Lab(tmp_path))
    before = addresses(leader)
    case.act(leader, term)
    assert set(leader.blobs.deleted) == before - addresses(leader)


def addresses(member: Member) -> set[str]:
    return {handle.blob.address for handle in member.handles.list() if handle.blob is not None}


def test_the_pointer_is_written_after_its_blob_and_removed_before_it() -> None:
    for steps in ORDER.values():
        assert list(steps) == [step for step in Step if step in steps]


def test_a_definite_refusal_has_a_name(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    leader, term = prepared(lab)
    with pytest.raises(HandleError, match="'things/x' exists already"):
        leader.handles.add(term, "x", NEW)
    assert contents(lab) == BEFORE
    assert lab.audit() == set()
