"""A store and a storage, on every store: of one life they are taken for each other's, else nothing happens (I10)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.checkpoints.store import CheckpointStore
from tenure.coordination.identity import IDENTITY
from tenure.coordination.records import Delete
from tenure.errors import OwnerMismatch, StorageError, TermLost
from tenure.ownership import owner as owner_module
from tenure.ownership.marks import Marks
from tenure.ownership.owner import Owner, check_noted, in_store, renew_identity
from tenure.ownership.rules import KEPT
from tests.faults.lab import SCOPE, Lab
from tests.lives import bring_back, copy_of, empty
from tests.unit.cleanup.going_on import QUERY, Pipeline
from tests.unit.ownership.leading import files, lead, life, marks, pipeline, refused

__all__ = ["pipeline"]


# --- of one life -------------------------------------------------------------------------------------------------


def test_the_first_leader_marks_the_storage_and_each_later_one_its_epoch(pipeline: Pipeline) -> None:
    assert sorted(path.name for path in (pipeline.root / "owner").iterdir()) == [
        str(Marks(pipeline.storage).look().newest),
        "identity",
    ]
    assert life(pipeline) in (pipeline.root / "owner" / "identity").read_text()
    lead(pipeline, "ben", batch=1)
    lead(pipeline, "carl")
    assert marks(pipeline) == [1, 2, 3]
    newest = Owner(pipeline.lab.truth, SCOPE, storage=pipeline.storage, clock=pipeline.lab.clock).check()
    assert newest is not None
    assert (newest.epoch, newest.identity) == (3, life(pipeline))


def test_a_second_time_under_one_term_changes_nothing(pipeline: Pipeline) -> None:
    before = files(pipeline)
    pipeline.owner().own(pipeline.leaders[-1][1])
    assert files(pipeline) == before


def test_grants_that_came_to_nothing_do_no_harm(pipeline: Pipeline) -> None:
    pipeline.next_leader("ben")
    pipeline.next_leader("carl")
    lead(pipeline, "dora", batch=1)
    assert marks(pipeline) == [1, 4]
    pipeline.owner().check()


def test_a_claim_whose_leader_died_before_its_mark_is_taken_over(lab: Lab, tmp_path: Path) -> None:
    pipeline = Pipeline(lab, tmp_path / "scope")
    pipeline.next_leader("anna")
    Marks(pipeline.storage).claim(life(pipeline))
    lead(pipeline, "ben", batch=0)
    assert marks(pipeline) == [2]


def test_a_woken_leader_s_look_is_no_alarm(pipeline: Pipeline) -> None:
    """Its successor has run on. What it finds is of its own store; that its term is over is said by the store."""
    zombie = pipeline.owner()
    old = pipeline.leaders[-1][1]
    lead(pipeline, "ben", batch=1)
    zombie.check()
    before = files(pipeline)
    with pytest.raises(TermLost):
        zombie.own(old)
    assert files(pipeline) == before


@pytest.mark.parametrize("paused", ["before it reads the store", "before the storage", "after the storage"])
def test_who_is_paused_in_its_look_takes_nobody_for_a_stranger(pipeline: Pipeline, paused: str) -> None:
    """Meanwhile the next leader comes, marks the storage, plans a batch and ends it."""
    member, _ = pipeline.leaders[-1]
    calls: list[object] = []

    def meanwhile(call: object, proceed: Callable[[], object]) -> object:
        calls.append(call)
        found = proceed() if paused == "before the storage" else None
        if len(calls) == (2 if paused == "after the storage" else 1):
            lead(pipeline, "next", batch=1)
        return found or proceed()

    member.store.script(meanwhile, when=lambda call: call.operation == "list", times=None)
    pipeline.owner(member).check()
    assert len(calls) == 2


def test_old_marks_go_but_for_those_that_are_asked_for(pipeline: Pipeline) -> None:
    for number in range(KEPT + 3):
        lead(pipeline, f"m{number}")
    assert marks(pipeline) == [1, *range(5, KEPT + 5)], "the newest checkpoint is still of the first epoch"
    lead(pipeline, "ben", batch=1)
    lead(pipeline, "carl")
    assert 1 not in marks(pipeline)
    pipeline.owner().check()


def test_a_mark_that_cannot_be_removed_keeps_nobody_from_leading(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Marks, mark: object) -> None:
        raise StorageError("it is read-only")

    monkeypatch.setattr(Marks, "drop", refuse)
    for number in range(KEPT + 3):
        lead(pipeline, f"m{number}")
    monkeypatch.undo()
    assert len(marks(pipeline)) == KEPT + 4
    lead(pipeline, "ben")
    assert len(marks(pipeline)) == KEPT + 1


def test_a_retaken_checkpoint_is_of_the_epoch_that_took_it(pipeline: Pipeline) -> None:
    lead(pipeline, "ben")
    member, term = pipeline.leaders[-1]
    CheckpointStore(pipeline.handles(member), query=QUERY).retake(term, run_directory=pipeline.run)
    found = in_store(pipeline.lab.truth.list(SCOPE, "").records)
    assert (found.newest[QUERY].batch, found.newest[QUERY].epoch) == (0, 2)
    pipeline.owner().check()


def test_run_directories_behind_links_are_looked_at(pipeline: Pipeline, tmp_path: Path) -> None:
    (pipeline.root / "runs").rename(tmp_path / "elsewhere")
    (pipeline.root / "runs").symlink_to(tmp_path / "elsewhere")
    pipeline.owner().check()
    pipeline.put(f"{pipeline.run}/commits/1")
    refused(pipeline, "it has runs/.*/commits/1, and the newest checkpoint of query 'counts' is 0")


def test_a_checkpoint_that_does_not_decode_is_told_by_who_wants_it(pipeline: Pipeline) -> None:
    (record,) = [one for one in pipeline.lab.truth.list(SCOPE, "checkpoints").records if one.key.count("/") == 2]
    bad = type(record)(record.key, b"{}", record.version, None)
    assert in_store([bad]).newest[QUERY].epoch is None


# --- of two lives ------------------------------------------------------------------------------------------------


def test_a_store_that_was_emptied_is_refused_until_it_is_brought_back(pipeline: Pipeline) -> None:
    copy = copy_of(pipeline.lab.truth, SCOPE)
    owner = life(pipeline)
    empty(pipeline.lab.truth, SCOPE)
    belongs = f"it belongs to owner {owner[:8]}, and the store"
    refused(pipeline, f"{belongs} knows nothing of that", granted=f"{belongs} to owner")
    bring_back(pipeline.lab.truth, SCOPE, copy)
    lead(pipeline, "ben", batch=1)


def test_an_older_copy_of_the_store_is_refused_by_its_epoch(pipeline: Pipeline) -> None:
    copy = copy_of(pipeline.lab.truth, SCOPE)
    for number in range(3):
        lead(pipeline, f"m{number}")
    newest = copy_of(pipeline.lab.truth, SCOPE)
    bring_back(pipeline.lab.truth, SCOPE, copy)
    marked = "it is marked by epoch 4, and the store is in epoch"
    refused(pipeline, f"{marked} 1, so the store is an older copy", granted=f"{marked} 2")
    bring_back(pipeline.lab.truth, SCOPE, newest)
    lead(pipeline, "ben", batch=1)


def test_an_older_copy_of_the_store_is_refused_when_it_has_given_the_epochs_again(pipeline: Pipeline) -> None:
    """By members that have no storage, say."""
    copy = copy_of(pipeline.lab.truth, SCOPE)
    lead(pipeline, "ben")
    bring_back(pipeline.lab.truth, SCOPE, copy)
    for _ in range(3):
        member = pipeline.lab.member("of the copy")
        member.election.resign(member.lead())
    refused(pipeline, "its mark of epoch 2 is of another grant than the store's")


def test_an_older_copy_of_the_store_is_refused_by_a_batch_that_is_done(pipeline: Pipeline) -> None:
    """It was copied in the epoch that goes on."""
    copy = copy_of(pipeline.lab.truth, SCOPE)
    pipeline.plan(1)
    pipeline.put(f"{pipeline.run}/commits/1")
    pipeline.owner().check()
    bring_back(pipeline.lab.truth, SCOPE, copy)
    refused(pipeline, f"it has {pipeline.run}/commits/1, and the newest checkpoint of query 'counts' is 0")


def test_run_directories_of_epochs_before_the_newest_checkpoint_are_not_asked(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever planned a later batch did so in that epoch or a later one; dead leaders may have left many."""
    lead(pipeline, "ben", batch=1)
    asked: list[int] = []
    ask = owner_module.newest_done

    def noted(storage: str, *, since: Callable[[str], int]) -> object:
        asked.append(since(QUERY))
        return ask(storage, since=since)

    monkeypatch.setattr(owner_module, "newest_done", noted)
    pipeline.put("runs/counts/e00000001-anna-000000000000/commits/7")
    pipeline.owner().check()
    assert asked == [2]
    pipeline.put("runs/counts/e00000002-ben-000000000000/commits/7")
    with pytest.raises(OwnerMismatch, match=r"e00000002-ben-000000000000/commits/7"):
        pipeline.owner().check()


def test_an_older_copy_of_the_storage_is_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    shutil.copytree(pipeline.root, tmp_path / "yesterday")
    lead(pipeline, "ben", batch=1)
    pipeline.root.rename(tmp_path / "today")
    (tmp_path / "yesterday").rename(pipeline.root)
    refused(pipeline, "it has no mark of epoch 2, in which batch 1 of query 'counts' was planned")
    shutil.rmtree(pipeline.root)
    refused(pipeline, "it has no mark of epoch 2")
    (tmp_path / "today").rename(pipeline.root)
    lead(pipeline, "carl", batch=2)


def test_an_identity_that_was_removed_is_not_put_again_beside_checkpoints(pipeline: Pipeline) -> None:
    record = pipeline.lab.truth.read(SCOPE, IDENTITY)
    assert record is not None
    pipeline.lab.truth.commit(SCOPE, guards=(), writes=(Delete(IDENTITY, record.version),))
    refused(pipeline, "the store has checkpoints and no owner")
    assert pipeline.lab.truth.read(SCOPE, IDENTITY) is None


def test_a_removed_identity_is_put_again_where_nothing_is_planned(lab: Lab, tmp_path: Path) -> None:
    """It is another one, so what was marked before belongs to somebody else."""
    pipeline = Pipeline(lab, tmp_path / "scope")
    lead(pipeline, "anna")
    record = lab.truth.read(SCOPE, IDENTITY)
    assert record is not None
    lab.truth.commit(SCOPE, guards=(), writes=(Delete(IDENTITY, record.version),))
    refused(pipeline, "it belongs to owner")
    shutil.rmtree(pipeline.root)
    lead(pipeline, "ben", batch=0)


def test_another_life_of_the_scope_has_no_part_in_the_marks_of_the_one_before(lab: Lab, tmp_path: Path) -> None:
    pipeline = Pipeline(lab, tmp_path / "scope")
    lead(pipeline, "anna")
    first = life(pipeline)
    member, term = pipeline.leaders[-1]
    renew_identity(member.store, term, clock=lab.clock)
    assert life(pipeline) != first
    refused(pipeline, f"it belongs to owner {first[:8]}, and the store to owner {life(pipeline)[:8]}")


def test_an_identity_that_says_nothing_is_told(lab: Lab, tmp_path: Path) -> None:
    pipeline = Pipeline(lab, tmp_path / "scope")
    pipeline.next_leader("anna")
    for text in ("\x00", "{}", "[]"):
        (pipeline.root / "owner").mkdir(parents=True, exist_ok=True)
        (pipeline.root / "owner" / "identity").write_text(text)
        with pytest.raises(OwnerMismatch, match="owner/identity does not say whose storage it is in"):
            pipeline.owner().check()


def test_a_plan_of_a_sweep_is_not_applied_to_an_older_copy(pipeline: Pipeline, tmp_path: Path) -> None:
    shutil.copytree(pipeline.root, tmp_path / "yesterday")
    lead(pipeline, "ben", batch=1)
    noted = pipeline.owner().check()
    check_noted(pipeline.storage, str(noted))
    lead(pipeline, "carl", batch=2)
    check_noted(pipeline.storage, str(noted))
    with pytest.raises(OwnerMismatch, match=r"newest mark is of epoch 1 now: it is an older copy; make a new plan"):
        check_noted(str(tmp_path / "yesterday"), str(noted))
