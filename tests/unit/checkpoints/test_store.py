"""Checkpoints: each batch planned once (I1), in order, one commit each; what is broken is loud (FLINK-22502)."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, encode_checkpoint
from tenure.checkpoints.store import CheckpointStore
from tenure.errors import (
    CorruptCheckpoint,
    HandleNotFound,
    OutOfOrder,
    StorageError,
    TermLost,
)
from tests.faults.lab import AREA, SCOPE, Lab, Member, unavailable
from tests.kit.faulty import commits, operation, writes_under
from tests.kit.waiting import NEVER_S

LONG = "x" * 500
"""Offsets that make the checkpoint a blob in the laboratory."""


def checkpoint(batch: int, *, offsets: str = LONG, epoch: int = 1) -> Checkpoint:
    return Checkpoint("q", "id", batch, f"{batch} {offsets}", "run", epoch, "now")


def store_of(member: Member, *, keep: int = 3) -> CheckpointStore:
    return CheckpointStore(member.handles, query="q", keep=keep)


def batches(lab: Lab) -> list[int]:
    return [int(name) for name in lab.pointers()]


def test_batches_are_planned_in_order_from_zero(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader)
    assert checkpoints.newest() is None
    for batch in range(6):
        checkpoints.plan(term, checkpoint(batch))
    assert batches(lab) == [3, 4, 5]
    assert [found.batch for found in checkpoints.list()] == [3, 4, 5]
    assert checkpoints.get(4) == checkpoint(4)
    assert checkpoints.newest() == checkpoint(5)
    assert lab.audit() == set(), "the blobs of the dropped ones are gone"
    with pytest.raises(HandleNotFound):
        checkpoints.get(2)


def test_add_and_drop_are_one_commit(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader)
    for batch in range(8):
        before = lab.truth.list(SCOPE).revision
        sent = sum(commits(call) for call in leader.store.calls)
        checkpoints.plan(term, checkpoint(batch))
        after = lab.truth.list(SCOPE).revision
        assert after > before
        assert after == before + 1 or lab.truth.guarantees.name != "memory", "the others do not count by one"
        assert sum(commits(call) for call in leader.store.calls) == sent + 1


def test_a_plan_costs_no_read_once_it_is_under_way(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader)
    for batch in range(4):
        checkpoints.plan(term, checkpoint(batch))
    before = len(leader.store.calls)
    checkpoints.plan(term, checkpoint(4))
    assert [call.operation for call in leader.store.calls[before:]] == ["commit"]


@pytest.mark.parametrize("wrong", [0, 1, 2, 4, 5, 100])
def test_a_batch_out_of_order_is_refused(wrong: int, lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader, keep=2)
    for batch in range(3):
        checkpoints.plan(term, checkpoint(batch))
    before = lab.truth.list(SCOPE).records
    if wrong == 2:
        checkpoints.plan(term, checkpoint(2))  # the newest, the same offsets: a takeover runs it again
    else:
        with pytest.raises(OutOfOrder, match=f"plans batch {wrong}, the next batch is 3"):
            checkpoints.plan(term, checkpoint(wrong))
    assert lab.truth.list(SCOPE).records == before
    checkpoints.plan(term, checkpoint(3))


def test_the_same_batch_with_other_offsets_is_loud(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader)
    checkpoints.plan(term, checkpoint(0))
    with pytest.raises(CorruptCheckpoint, match="planned with other offsets"):
        checkpoints.plan(term, checkpoint(0, offsets="other"))
    with pytest.raises(CorruptCheckpoint, match="by epoch 1"):
        store_of(leader).plan(term, checkpoint(0, offsets="other"))
    assert checkpoints.newest() == checkpoint(0)


def test_two_threads_with_one_term_plan_each_batch_once(lab: Lab) -> None:
    """Two stores, as two confused runs of one driver would have: of each batch one plan is taken."""
    leader = lab.member("a")
    term = leader.lead()
    taken: list[tuple[int, str]] = []
    errors: list[BaseException] = []

    def run(name: str) -> None:
        checkpoints = store_of(leader, keep=1)
        try:
            while (newest := checkpoints.newest()) is None or newest.batch < 60:
                batch = 0 if newest is None else newest.batch + 1
                try:
                    checkpoints.plan(term, checkpoint(batch, offsets=name))
                except (OutOfOrder, CorruptCheckpoint):
                    continue
                taken.append((batch, name))
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER_S)
    assert errors == []
    assert sorted(batch for batch, _ in taken) == list(range(61))
    assert lab.audit() == set()


def test_a_newest_that_is_dropped_while_it_is_read_is_no_corruption(lab: Lab) -> None:
    """Found by the two threads above: the reader listed batch 0, the leader planned 1 and deleted the blob of 0."""
    leader, standby = lab.member("a"), lab.member("b")
    term = leader.lead()
    checkpoints = store_of(leader, keep=1)
    checkpoints.plan(term, checkpoint(0))

    def plan_after(call: object, proceed: object) -> object:
        assert callable(proceed)
        answer = proceed()
        checkpoints.plan(term, checkpoint(1))
        return answer

    standby.store.script(plan_after, when=operation("list"))
    assert store_of(standby, keep=1).newest() == checkpoint(1)


def test_two_terms_plan_each_batch_once(lab: Lab) -> None:
    """The old leader planned N and is paused; the new one plans N + 1; the old one wakes with N + 1 of its own."""
    old, new = lab.member("old"), lab.member("new")
    first = old.lead()
    before = store_of(old)
    before.plan(first, checkpoint(0))
    old.dies()
    second = new.lead()
    after = store_of(new)
    assert after.newest() == checkpoint(0)
    after.plan(second, checkpoint(0))  # run again: no new plan
    after.plan(second, checkpoint(1, offsets="new", epoch=2))
    for batch in (1, 2):
        with pytest.raises((TermLost, OutOfOrder)):
            before.plan(first, checkpoint(batch, offsets="old"))
    found = after.newest()
    assert found is not None
    assert (found.epoch, found.offsets) == (2, "1 new")
    assert lab.audit() == set()


def test_a_leader_whose_plan_was_unknown_when_it_lost_its_term_is_read_afresh(lab: Lab) -> None:
    """S9: the next leader resumes from the newest checkpoint that was committed, also from one nobody was told of."""
    old, new = lab.member("old"), lab.member("new")
    first = old.lead()
    store_of(old).plan(first, checkpoint(0))

    def lost(call: object, proceed: object) -> object:
        assert callable(proceed)
        proceed()
        old.dies()
        raise KeyboardInterrupt

    old.store.script(lost, when=commits)
    with pytest.raises(KeyboardInterrupt):
        store_of(old).plan(first, checkpoint(1))
    second = new.lead()
    after = store_of(new)
    newest = after.newest()
    assert newest is not None
    assert newest.batch == 1
    after.plan(second, checkpoint(1))
    after.plan(second, checkpoint(2, epoch=2))
    assert batches(lab) == [0, 1, 2]


def test_a_store_with_old_knowledge_of_any_age_plans_nothing_again(lab: Lab) -> None:
    """I1 after retention dropped the batch: whatever was known when, only the next batch is ever taken."""
    leader = lab.member("a")
    term = leader.lead()
    current = store_of(leader, keep=1)
    stale: list[CheckpointStore] = []
    for batch in range(6):
        known = store_of(leader, keep=1)
        known.newest()
        stale.append(known)
        current.plan(term, checkpoint(batch))
    for batch, known in enumerate(stale):
        if batch == 5:
            break
        with pytest.raises(OutOfOrder):
            known.plan(term, checkpoint(batch, offsets="again"))
        with pytest.raises((OutOfOrder, CorruptCheckpoint)):
            known.plan(term, checkpoint(batch, offsets="again"))
        assert batches(lab) == [5]
    assert lab.audit() == set()


def test_old_knowledge_with_a_longer_retention_plans_nothing_again(lab: Lab) -> None:
    """It would drop nothing itself, so only the guard on the checkpoint before it can refuse it."""
    leader = lab.member("a")
    term = leader.lead()
    current = store_of(leader, keep=1)
    current.plan(term, checkpoint(0))
    stale = store_of(leader, keep=50)
    stale.newest()
    for batch in range(1, 5):
        current.plan(term, checkpoint(batch))
    leader.handles.add(term, "000000000005", encode_checkpoint(checkpoint(5)))  # the handle store knows all of it
    with pytest.raises(OutOfOrder):
        stale.plan(term, checkpoint(1, offsets="again"))
    assert batches(lab) == [4, 5]


def test_a_locked_checkpoint_stays_and_goes_later(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("reader")
    term = leader.lead()
    checkpoints = store_of(leader, keep=2)
    for batch in range(3):
        checkpoints.plan(term, checkpoint(batch))
    assert batches(lab) == [1, 2]
    lock = reader.handles.lock(checkpoint_name(1), session=reader.keeper.session_id)
    checkpoints.plan(term, checkpoint(3))
    checkpoints.plan(term, checkpoint(4))
    assert batches(lab) == [1, 3, 4]
    assert checkpoints.get(1) == checkpoint(1)
    assert lab.audit() == set(), "the attempts that met the lock left no blob"
    reader.handles.release(lock)
    checkpoints.plan(term, checkpoint(5))
    assert batches(lab) == [4, 5]


def test_many_locked_checkpoints_stop_nothing(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("reader")
    term = leader.lead()
    checkpoints = store_of(leader, keep=1)
    for batch in range(10):
        checkpoints.plan(term, checkpoint(batch))
        reader.handles.lock(checkpoint_name(batch), session=reader.keeper.session_id)
    checkpoints.plan(term, checkpoint(10))
    assert batches(lab) == list(range(11))
    reader.dies()
    checkpoints.plan(term, checkpoint(11))
    assert batches(lab) == [11]


def test_a_plan_that_failed_is_planned_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the batch was not planned, nothing was dropped, and the next attempt plans it."""
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader, keep=1)
    checkpoints.plan(term, checkpoint(0))

    def full(address: str, data: bytes) -> None:
        raise StorageError("full")

    with monkeypatch.context() as patch:
        patch.setattr(leader.blobs, "write", full)
        with pytest.raises(StorageError):
            checkpoints.plan(term, checkpoint(1))
    assert batches(lab) == [0]
    checkpoints.plan(term, checkpoint(1))
    assert batches(lab) == [1]


def test_a_plan_under_a_store_that_is_away_drops_nothing(lab: Lab) -> None:
    """testAddCheckpointFailedShouldNotRemoveOldOnes, by another name."""
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader, keep=1)
    checkpoints.plan(term, checkpoint(0))
    leader.store.script(unavailable, when=writes_under(AREA), times=None)
    with pytest.raises(TermLost):
        checkpoints.plan(term, checkpoint(1))
    assert batches(lab) == [0]
    assert lab.audit() == set()


def test_the_newest_batch_is_retaken_and_the_next_one_follows(lab: Lab) -> None:
    first = lab.member("a")
    term = first.lead()
    for batch in range(2):
        store_of(first).plan(term, checkpoint(batch))
    first.dies()
    second = lab.member("b")
    term = second.lead()
    store = store_of(second)
    with pytest.raises(OutOfOrder, match="batch 1 of query 'q' is run again and was not retaken"):
        store.plan(term, replace(checkpoint(1), run_directory="runs/q/new", epoch=2))
    retaken = store.retake(term, run_directory="runs/q/new")
    assert store_of(second).newest() == retaken == replace(checkpoint(1), run_directory="runs/q/new", epoch=2)
    store.plan(term, retaken)  # run again: it is planned already
    with pytest.raises(OutOfOrder, match="was not retaken"):
        store.plan(term, checkpoint(1))
    store.plan(term, replace(checkpoint(2), run_directory="runs/q/new", epoch=2))
    assert batches(lab) == [0, 1, 2]


def test_a_batch_that_was_done_elsewhere_is_retaken_as_closed(lab: Lab) -> None:
    member = lab.member("a")
    term = member.lead()
    store = store_of(member)
    with pytest.raises(OutOfOrder, match="no checkpoint to take over"):
        store.retake(term, run_directory="runs/q/new")
    store.plan(term, checkpoint(0))
    store.retake(term, run_directory="runs/q/new", closed=True)
    newest = store_of(member).newest()
    assert newest is not None
    assert newest.closed


def test_a_batch_is_retaken_under_the_term_only(lab: Lab) -> None:
    first = lab.member("a")
    term = first.lead()
    store = store_of(first)
    store.plan(term, checkpoint(0))
    first.dies()
    lab.member("b").lead()
    with pytest.raises(TermLost):
        store.retake(term, run_directory="runs/q/new")
    assert store_of(first).newest() == checkpoint(0)
