"""The record of what a scope's last leader declared, on every store: written under the term, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.declarations.declaration import Declaration, DeclaredStream, Shape
from tenure.declarations.store import DECLARED, DeclarationStore
from tenure.errors import GuardFailed, TermLost
from tenure.handles.store import MOST_INLINE, HandleStore
from tenure.results.result import Ending, Result, Stage
from tenure.results.store import RESULTS, ResultStore
from tests.faults.lab import SCOPE, Lab, Member, reply_lost, request_lost
from tests.kit.faulty import Call, Proceed, writes_under

FIRST = Declaration("f1", "4.3.0", {"copy": DeclaredStream(None), "counts": DeclaredStream(Shape.of("x", told="x"))})
SECOND = replace(FIRST, file="f2")


def declarations(lab: Lab, member: Member) -> DeclarationStore:
    return DeclarationStore(member.store, SCOPE, clock=lab.clock)


def handles(lab: Lab, member: Member, area: str) -> HandleStore:
    key = RESULTS if area == "results" else CHECKPOINTS.child(area)
    return HandleStore(member.store, SCOPE, area=key, blobs=member.blobs, clock=lab.clock, inline_limit=MOST_INLINE)


def test_what_a_leader_declared_the_next_one_reads(lab: Lab) -> None:
    first, second = lab.member("a"), lab.member("b")
    term = first.lead()
    found = declarations(lab, first).read()
    assert (found.declaration, found.record, found.checkpointed, found.ended) == (None, None, frozenset(), False)
    declarations(lab, first).write(term, FIRST, replaces=None)
    first.dies()
    found = declarations(lab, second).read()
    assert found.declaration == FIRST, "it outlives the session of who wrote it"
    declarations(lab, second).write(second.lead(), SECOND, replaces=found.record)
    assert declarations(lab, first).read().declaration == SECOND


def test_a_leader_whose_term_is_over_records_nothing(lab: Lab) -> None:
    zombie, second = lab.member("a"), lab.member("b")
    term, found = zombie.lead(), declarations(lab, zombie).read()
    zombie.dies()
    with pytest.raises(TermLost):
        declarations(lab, zombie).write(term, FIRST, replaces=found.record)
    second.lead()
    with pytest.raises(TermLost):
        declarations(lab, zombie).write(term, FIRST, replaces=found.record)
    assert declarations(lab, second).read().record is None


def test_what_was_not_read_is_not_replaced(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    declarations(lab, leader).write(term, FIRST, replaces=None)
    with pytest.raises(GuardFailed):
        declarations(lab, leader).write(term, SECOND, replaces=None)
    assert declarations(lab, leader).read().declaration == FIRST


@pytest.mark.parametrize("lost", [reply_lost, request_lost], ids=["reply", "request"])
def test_an_unknown_outcome_is_settled(lab: Lab, lost: Callable[[Call, Proceed], object]) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.store.script(lost, when=writes_under(DECLARED))
    declarations(lab, leader).write(term, FIRST, replaces=None)
    assert declarations(lab, leader).read().declaration == FIRST


def test_which_queries_have_checkpoints_and_whether_the_pipeline_has_ended(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    for query in ("copy", "counts"):
        checkpoints = CheckpointStore(handles(lab, leader, query), query=query, keep=1)
        for batch in range(2):
            checkpoints.plan(term, Checkpoint(query, "id", batch, "offsets", "run", 1, "now"))
    handles(lab, leader, "counts").remove(term, f"{1:012d}")
    found = declarations(lab, leader).read()
    assert found.checkpointed == {"copy"}, "an area that is empty has none"
    assert not found.ended
    results = ResultStore(handles(lab, leader, "results"))
    results.write_dirty(term, Result(Ending.FINISHED, Stage.DIRTY, 1, "a", "now"))
    assert declarations(lab, leader).read().ended
    results.forget(term)
    assert not declarations(lab, leader).read().ended
