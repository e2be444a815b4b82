"""Results, on every store: the first writer wins, under the term, once; what is not sure is settled (I7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.errors import HandleNotFound, TermLost
from tenure.handles.store import MOST_INLINE, HandleStore
from tenure.results.result import Ending, Result, Stage
from tenure.results.store import RESULTS, ResultStore, result_in
from tests.faults.lab import SCOPE, Lab, Member, reply_lost, request_lost
from tests.kit.faulty import writes_under

RESULT = Result(Ending.FINISHED, Stage.DIRTY, 1, "a", "then")


def results_of(lab: Lab, member: Member) -> ResultStore:
    handles = HandleStore(
        member.store, SCOPE, area=RESULTS, blobs=member.blobs, clock=lab.clock, inline_limit=MOST_INLINE
    )
    return ResultStore(handles)


def test_dirty_then_clean_then_forgotten(lab: Lab) -> None:
    leader = lab.member("a")
    term, results = leader.lead(), results_of(lab, leader)
    assert results.read() is None
    assert results.write_dirty(term, RESULT) == RESULT
    assert results.read() == RESULT
    results.mark_clean(term)
    results.mark_clean(term)
    clean = replace(RESULT, stage=Stage.CLEAN)
    assert results.read() == clean
    assert result_in(lab.truth.list(SCOPE, "").records) == clean
    results.forget(term)
    results.forget(term)
    assert results.read() is None
    assert result_in(lab.truth.list(SCOPE, "").records) is None


def test_the_first_writer_wins(lab: Lab) -> None:
    first, second = lab.member("a"), lab.member("b")
    term = first.lead()
    results_of(lab, first).write_dirty(term, RESULT)
    first.election.resign(term)
    later = replace(RESULT, epoch=2, member="b")
    assert results_of(lab, second).write_dirty(second.lead(), later) == RESULT
    assert results_of(lab, second).read() == RESULT


def test_what_is_written_is_dirty_whatever_it_says(lab: Lab) -> None:
    leader = lab.member("a")
    written = results_of(lab, leader).write_dirty(leader.lead(), replace(RESULT, stage=Stage.CLEAN))
    assert written == results_of(lab, leader).read() == RESULT


@pytest.mark.parametrize("lost", [reply_lost, request_lost], ids=["reply", "request"])
def test_an_unknown_outcome_is_settled(lab: Lab, lost: object) -> None:
    leader = lab.member("a")
    term, results = leader.lead(), results_of(lab, leader)
    leader.store.script(lost, when=writes_under("results"))  # type: ignore[arg-type] # both are faults
    assert results.write_dirty(term, RESULT) == RESULT
    leader.store.script(lost, when=writes_under("results"))  # type: ignore[arg-type] # as above
    results.mark_clean(term)
    assert results.read() == replace(RESULT, stage=Stage.CLEAN)


def test_a_leader_whose_term_is_over_writes_nothing(lab: Lab) -> None:
    old, new = lab.member("a"), lab.member("b")
    term, results = old.lead(), results_of(lab, old)
    old.dies()
    new.lead()
    with pytest.raises(TermLost):
        results.write_dirty(term, RESULT)
    assert results.read() is None


def test_a_leader_whose_term_is_over_cannot_say_clean_or_forget(lab: Lab) -> None:
    old, new = lab.member("a"), lab.member("b")
    term, results = old.lead(), results_of(lab, old)
    results.write_dirty(term, RESULT)
    old.dies()
    new.lead()
    for call in (results.mark_clean, results.forget):
        with pytest.raises(TermLost):
            call(term)
    assert results.read() == RESULT


def test_what_never_ended_is_not_clean(lab: Lab) -> None:
    leader = lab.member("a")
    with pytest.raises(HandleNotFound, match="has no result"):
        results_of(lab, leader).mark_clean(leader.lead())


def test_a_result_is_no_blob(lab: Lab) -> None:
    leader = lab.member("a")
    results_of(lab, leader).write_dirty(leader.lead(), replace(RESULT, member="m" * 300))
    assert leader.blobs.written == []
