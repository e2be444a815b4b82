"""What nobody needs in the storage of a pipeline that goes on, on every store: it goes; nothing else does (I4, I6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import checkpoint_name
from tenure.checkpoints.run_name import RunName
from tenure.checkpoints.store import CheckpointStore
from tenure.coordination.term import Term, check_term
from tenure.errors import CorruptCheckpoint, TermLost
from tests.faults.lab import SCOPE, Crash, Crasher
from tests.unit.cleanup.going_on import KEEP, QUERY, Pipeline, lost_blob


def test_a_dead_leader_s_run_directory_goes_when_no_checkpoint_names_it(pipeline: Pipeline) -> None:
    first = pipeline.run
    never_planned = pipeline.directory("anna", epoch=1)
    pipeline.next_leader("ben")
    for batch in range(1, KEEP):
        pipeline.plan(batch)
        assert pipeline.sweep() == []
        assert pipeline.has(first)
    assert not pipeline.has(never_planned)
    pipeline.plan(KEEP)
    assert first in pipeline.orphans()
    assert pipeline.sweep() == []
    assert not pipeline.has(first)
    pipeline.check_pointers()
    assert pipeline.orphans() == []


def test_blobs_of_earlier_epochs_without_a_pointer_go(pipeline: Pipeline) -> None:
    lost, mine = lost_blob(pipeline, epoch=1), lost_blob(pipeline, epoch=2)
    half = pipeline.put(f"blobs/e00000001/checkpoints/{QUERY}/x.part-0123456789abcdef")
    pipeline.next_leader("ben")
    assert sorted(pipeline.orphans()) == sorted([lost, half])
    assert pipeline.sweep() == []
    assert not pipeline.has(lost)
    assert not pipeline.has(half)
    assert pipeline.has(mine), "it may be on its way to its pointer"
    pipeline.check_pointers()


def test_the_folders_of_an_epoch_go_with_its_last_blob(pipeline: Pipeline) -> None:
    pipeline.next_leader("ben")
    for batch in range(1, KEEP + 1):
        pipeline.plan(batch)
    assert pipeline.orphans()[1:] == [f"blobs/e00000001/checkpoints/{QUERY}/"], "the handle store removed the blobs"
    assert pipeline.sweep() == []
    assert sorted(path.name for path in (pipeline.root / "blobs").iterdir()) == ["e00000002"]
    assert pipeline.orphans() == []


def test_a_locked_checkpoint_keeps_its_blob_and_its_run_directory(pipeline: Pipeline) -> None:
    reader = pipeline.standby("reader")
    first = pipeline.run
    lock = pipeline.handles(reader).lock(checkpoint_name(0), session=reader.keeper.session_id)
    pipeline.next_leader("ben")
    for batch in range(1, KEEP + 2):
        pipeline.plan(batch)
    assert pipeline.sweep() == []
    assert pipeline.has(first)
    pipeline.check_pointers()
    pipeline.handles(reader).release(lock)
    pipeline.plan(KEEP + 2)
    assert pipeline.sweep() == []
    assert not pipeline.has(first)


def test_a_replaced_blob_that_a_reader_holds_stays_until_he_goes(pipeline: Pipeline) -> None:
    reader = pipeline.standby("reader")
    handles = pipeline.handles(reader)
    locked = handles.lock(checkpoint_name(0), session=reader.keeper.session_id).handle
    assert locked.blob is not None
    member, term = pipeline.leaders[-1]
    CheckpointStore(pipeline.handles(member), query=QUERY).retake(term, run_directory=pipeline.run)
    pipeline.next_leader("ben")
    pipeline.sweep()
    pipeline.lab.files.read(locked.blob)
    reader.dies()
    pipeline.sweep()
    assert not pipeline.has(f"blobs/{locked.blob.address}")


def test_mirrors_and_rehearsals_stay_while_their_member_s_session_lives(pipeline: Pipeline) -> None:
    ben = pipeline.standby("ben")
    mirror, own = pipeline.directory("ben", epoch=2), pipeline.directory("anna", epoch=1)
    rehearsal = pipeline.put(f"rehearsals/ben/{QUERY}-0/offsets/0")
    assert pipeline.sweep() == []
    assert pipeline.has(mirror)
    assert pipeline.has(rehearsal)
    ben.dies()
    assert pipeline.sweep() == []
    assert not pipeline.has(mirror)
    assert not pipeline.has("rehearsals/ben")
    assert pipeline.has(own)


def test_the_folder_of_a_query_stays(pipeline: Pipeline) -> None:
    """A leader that starts would have to make it again in that very moment."""
    pipeline.directory("gone", epoch=2, query="other")
    assert pipeline.sweep() == []
    assert not list((pipeline.root / "runs" / "other").iterdir())


def test_what_others_put_there_stays_and_links_are_not_followed(pipeline: Pipeline, tmp_path: Path) -> None:
    others = [pipeline.put(path) for path in ("notes.txt", "runs/notes.txt", f"runs/{QUERY}/mine", "blobs/e1/x")]
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "data").write_text("x")
    (pipeline.root / "runs" / "linked").symlink_to(tmp_path / "precious")
    (pipeline.root / pipeline.directory("anna", epoch=1) / "link").symlink_to(tmp_path / "precious")
    pipeline.next_leader("ben")
    assert pipeline.sweep() == []
    assert all(map(pipeline.has, others))
    assert pipeline.has("runs/linked")
    assert (tmp_path / "precious" / "data").exists()


def test_no_record_is_written(pipeline: Pipeline) -> None:
    lost_blob(pipeline, epoch=1)
    pipeline.directory("anna", epoch=1)
    pipeline.next_leader("ben")
    before = pipeline.lab.truth.list(SCOPE, "").records
    assert pipeline.sweep() == []
    assert pipeline.lab.truth.list(SCOPE, "").records == before


def test_the_storage_is_listed_before_the_records_are_read(pipeline: Pipeline) -> None:
    """A standby appears between the two: it has its session, and its mirror was not in the listing."""
    pipeline.directory("gone", epoch=2)
    member, _ = pipeline.leaders[-1]
    made: list[str] = []
    calls: list[object] = []
    last = 1 if member.store.guarantees.list_is_one_instant else 2

    def appear(call: object, proceed: Callable[[], object]) -> object:
        found = proceed()
        calls.append(call)
        if len(calls) == last:
            made.append(pipeline.directory("carl", epoch=2))
            pipeline.standby("carl")
        return found

    member.store.script(appear, when=lambda call: call.operation == "list", times=None)
    assert pipeline.sweep() == []
    assert pipeline.has(made[0])


@pytest.mark.parametrize("paused", ["before it asks", "after it asked"])
def test_a_leader_that_is_paused_in_its_sweep_removes_nothing_that_anybody_needs(
    pipeline: Pipeline, paused: str
) -> None:
    """It is paused before, or after, it asks whether its term stands. Meanwhile a standby of the same name as one that
    was gone comes back, takes over, and goes on in a directory of its own."""
    first = pipeline.run
    orphan = pipeline.directory("gone", epoch=2)
    member, _ = pipeline.leaders[-1]

    def meanwhile() -> None:
        if len(pipeline.leaders) == 1:
            pipeline.next_leader("gone")
            pipeline.plan(1)

    def check(term: Term) -> None:
        if paused == "before it asks":
            meanwhile()
        check_term(member.store, term, clock=pipeline.lab.clock)
        if paused == "after it asked":
            meanwhile()

    if paused == "before it asks":
        with pytest.raises(TermLost):
            pipeline.sweep(check=check)
    else:
        pipeline.sweep(check=check)
    assert pipeline.has(orphan) is (paused == "before it asks")
    assert pipeline.has(first)
    assert pipeline.has(pipeline.run)
    pipeline.check_pointers()
    pipeline.next_leader("carl")
    pipeline.plan(len(pipeline.leaders) - 1)
    pipeline.sweep()
    assert not pipeline.has(orphan)


def test_a_crash_at_any_effect_is_mended_by_the_next_sweep(pipeline: Pipeline) -> None:
    effects = 0
    while True:
        lost_blob(pipeline, epoch=effects + 1)
        pipeline.directory("dead", epoch=effects + 1)
        pipeline.put(f"rehearsals/dead/{QUERY}-0/offsets/0")
        pipeline.next_leader(f"m{effects}")
        pipeline.plan(effects + 1)
        crasher = Crasher()
        crasher.at = effects
        try:
            pipeline.sweep(crasher=crasher)
        except Crash:
            pipeline.check_pointers()
            assert pipeline.sweep() == []
        assert pipeline.orphans() == []
        pipeline.check_pointers()
        if not crasher.dead:
            break
        effects += 1
    assert effects > 10


def test_a_zombie_s_leavings_go_with_the_next_sweep(pipeline: Pipeline) -> None:
    """It still writes into its old run directory while the sweep runs."""
    pipeline.put(f"{pipeline.run}/commits/0")
    old = pipeline.directory("anna", epoch=1)
    pipeline.next_leader("ben")
    found = pipeline.found()

    class Writing:
        def find(self) -> Sequence[str]:
            return found["run directories"].find()

        def remove(self, term: Term, name: str) -> None:
            found["run directories"].remove(term, name)
            pipeline.put(f"{name}/offsets/1")

    assert pipeline.sweep(found={**found, "run directories": Writing()}) == []
    assert pipeline.has(old)
    assert pipeline.sweep() == []
    assert not pipeline.has(old)
    pipeline.check_pointers()


def test_what_an_overtaken_leader_may_still_finish_stays_until_the_batch_is_done(pipeline: Pipeline) -> None:
    """Where the inputs of a planned batch are gone, a takeover goes on from whoever has finished it."""
    planned = pipeline.run
    zombie = pipeline.directory("anna", epoch=1)  # it has `offsets/0`
    other = pipeline.put(f"{RunName.new(QUERY, epoch=1, member='anna')}/metadata").removesuffix("/metadata")
    pipeline.next_leader("ben")
    assert pipeline.sweep() == []
    assert pipeline.has(zombie)
    assert not pipeline.has(other)
    pipeline.put(f"{planned}/commits/0")
    assert pipeline.sweep() == []
    assert not pipeline.has(zombie)
    pipeline.check_pointers()


def test_corrupt_is_no_reason_to_stop(pipeline: Pipeline) -> None:
    class Corrupted:
        def find(self) -> Sequence[str]:
            raise CorruptCheckpoint("it does not decode")

        def remove(self, term: Term, name: str) -> None: ...

    lost = lost_blob(pipeline, epoch=1)
    pipeline.next_leader("ben")
    assert pipeline.sweep(found={**pipeline.found(), "staged output": Corrupted()}) == [
        "the listing: it does not decode",
        "run directories and mirrors: it waits for staged output",
    ]
    assert not pipeline.has(lost)
