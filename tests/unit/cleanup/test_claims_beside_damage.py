"""Sweeps beside records that do not decode: what one of them may name stays, and its member lives."""

from __future__ import annotations

from tenure.checkpoints.checkpoint import checkpoint_name
from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.candidates import MEMBERS, PAUSED, RESTARTS, SWITCHOVER
from tenure.coordination.records import Put
from tests.faults.lab import SCOPE
from tests.unit.cleanup.going_on import QUERY, Pipeline, lost_blob


def test_a_member_whose_record_does_not_decode_lives(pipeline: Pipeline) -> None:
    """Its mirrors and rehearsals stay while its session lives; nor do such records keep anything else."""
    ben = pipeline.standby("ben")
    key = MEMBERS.child("ben")
    record = pipeline.lab.truth.read(SCOPE, key)
    assert record is not None
    ben.store.commit(SCOPE, guards=(), writes=[Put(key, b"{", replaces=record.version, session=record.session)])
    for request in (SWITCHOVER, RESTARTS.child("ben"), PAUSED):
        pipeline.lab.truth.commit(SCOPE, guards=(), writes=[Put(request, b"{", replaces=None)])
    mirror = pipeline.directory("ben", epoch=2)
    rehearsal = pipeline.put(f"rehearsals/ben/{QUERY}-0/offsets/0")
    nobody_s = pipeline.directory("gone", epoch=2)
    assert pipeline.sweep() == []
    assert pipeline.has(mirror)
    assert pipeline.has(rehearsal)
    assert not pipeline.has(nobody_s)
    ben.dies()
    assert pipeline.sweep() == []
    assert not pipeline.has(mirror)
    assert not pipeline.has("rehearsals/ben")


def test_a_checkpoint_that_does_not_decode_keeps_everything(pipeline: Pipeline) -> None:
    member, _ = pipeline.leaders[-1]
    handle = pipeline.handles(member).list()[-1]
    assert handle.blob is not None
    lost = lost_blob(pipeline, epoch=1)
    never_planned = pipeline.directory("anna", epoch=1)
    pipeline.next_leader("ben")
    pipeline.put(f"blobs/{handle.blob.address}")
    (told, *_) = pipeline.sweep()
    assert "a checksum that its pointer does not name" in told
    assert pipeline.has(lost)
    assert pipeline.has(never_planned)


def test_a_record_that_does_not_decode_keeps_everything(pipeline: Pipeline) -> None:
    key = CHECKPOINTS.child(QUERY).child(checkpoint_name(7))
    pipeline.lab.truth.commit(SCOPE, guards=(), writes=(Put(key, b"no record", replaces=None),))
    lost = lost_blob(pipeline, epoch=1)
    pipeline.next_leader("ben")
    (told, *_) = pipeline.sweep()
    assert "does not decode" in told
    assert pipeline.has(lost)
