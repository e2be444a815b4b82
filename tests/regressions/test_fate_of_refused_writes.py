"""Answers that said the wrong thing about a write, or left what nobody needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CheckpointStore
from tenure.coordination.records import Commit, Guard, Key, Put, Scope, Write
from tenure.coordination.store import check_commit
from tenure.coordination.term import commit_under
from tenure.errors import CommitRefused, OutcomeUnknown, SessionEnded, StoreUnavailable, TermLost
from tenure.handles.store import HandleStore
from tests.faults.lab import AREA, SCOPE, Lab, big, in_turn, reply_lost, unavailable
from tests.kit.faulty import Call, FaultyStore, Proceed, commits
from tests.kit.memory import GUARANTEES


def test_a_session_that_ended_after_an_unknown_outcome_is_no_proof_of_nothing(lab: Lab) -> None:
    """A store that judges sessions before guards answers the retry with SessionEnded. The first request may have
    been written: it used to be reported as "nothing was written", and the blob deleted under its pointer (I4)."""
    leader = lab.member("a")
    term = leader.lead()

    def ended(call: Call, proceed: Proceed) -> object:
        raise SessionEnded(leader.keeper.session_id)

    in_turn(leader.store, reply_lost, ended)
    with pytest.raises(TermLost) as lost:
        leader.handles.add(term, "x", big("one"))
    assert lost.value.write_is_unknown
    assert term.lost
    assert set(lab.pointers()) == {"x"}
    assert lab.audit() == set()


def test_a_session_that_ended_at_the_first_request_is_definite(lab: Lab) -> None:
    leader, other = lab.member("a"), lab.member("b")
    term = leader.lead()
    other.dies()
    put = Put(Key("announced"), b"{}", replaces=None, session=other.keeper.session_id)
    with pytest.raises(TermLost) as lost:
        commit_under(leader.store, term, writes=[put], clock=lab.clock)
    assert not lost.value.write_is_unknown


def test_a_commit_too_large_for_the_store_leaves_no_blob(lab: Lab) -> None:
    """Nothing was sent, so the new blob goes; it used to stay for the sweep."""
    leader = lab.member("a")
    term = leader.lead()
    handles = [leader.handles.add(term, f"h{n:04d}", b"") for n in range(lab.truth.guarantees.max_writes)]
    with pytest.raises(CommitRefused):
        leader.handles.add(term, "x", big("one"), remove=handles)
    assert lab.audit() == set()
    assert len(lab.pointers()) == len(handles)


def test_a_store_that_refuses_for_long_while_the_term_lives_leaves_no_blob(lab: Lab) -> None:
    """StoreUnavailable says that nothing was written: the blob goes, the term goes on."""
    leader = lab.member("a")
    term = replace(leader.lead())
    leader.keeper.liveness.extend(1e6)
    in_turn(leader.store, unavailable)
    with pytest.raises(StoreUnavailable):
        leader.handles.add(term, "x", big("one"))
    assert not term.lost
    assert lab.audit() == set()


class SmallStore(FaultyStore):
    """A store with narrow commits, like etcd's."""

    guarantees = replace(GUARANTEES, max_writes=16)

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(self.guarantees, guards, writes)
        return super().commit(scope, guards=guards, writes=writes)


def test_a_lower_retention_does_not_outgrow_one_commit(lab: Lab) -> None:
    """With keep lowered, or many locks released at once, one plan would drop more than the store takes in a
    commit: CommitRefused at every batch, and the pipeline stood still. Now the surplus goes over several plans."""
    leader = lab.member("a")
    store = SmallStore(lab.truth)
    handles = HandleStore(store, SCOPE, area=AREA, blobs=leader.blobs, clock=lab.clock)
    term = leader.lead()
    many = CheckpointStore(handles, query="q", keep=40)
    for batch in range(40):
        many.plan(term, Checkpoint("q", "id", batch, "offsets", "run", 1, "now"))
    few = CheckpointStore(handles, query="q", keep=1)
    before = len([call for call in store.calls if commits(call)])
    for batch in range(40, 50):
        few.plan(term, Checkpoint("q", "id", batch, "offsets", "run", 1, "now"))
    assert len([call for call in store.calls if commits(call)]) == before + 10, "still one commit a batch"
    assert list(lab.pointers()) == ["000000000049"]
    handles.remove_all(term, handles.list())


def test_an_error_of_the_store_that_is_none_of_its_words_keeps_the_blob(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()

    def bug(call: Call, proceed: Proceed) -> object:
        proceed()
        raise RuntimeError("a bug of the client library")

    leader.store.script(bug, when=commits)
    with pytest.raises(RuntimeError):
        leader.handles.add(term, "x", big("one"))
    assert lab.audit() == set()
    assert set(lab.pointers()) == {"x"}


def test_an_unknown_outcome_ends_the_belief_in_the_term(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()

    def lost(call: Call, proceed: Proceed) -> object:
        lab.clock.advance(timedelta(seconds=60))
        raise OutcomeUnknown("lost")

    leader.store.script(lost, when=commits)
    with pytest.raises(TermLost):
        leader.handles.add(term, "x", b"")
    assert term.lost
