"""Handles and records of services in the storage of a scope: a sweep spares them, and the end of a pipeline removes
them, on every store (I4, I6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.checkpoints.store import CHECKPOINTS
from tenure.cleanup.orphans import Claims
from tenure.cleanup.planning import check_records
from tenure.coordination.term import Term
from tenure.errors import UsageError
from tenure.handles.areas import area_of
from tenure.handles.record_store import RecordStore
from tenure.handles.store import HandleStore
from tenure.storage.blobs import FileBlobs
from tests.faults.lab import SCOPE, Crasher, Lab, Member
from tests.unit.cleanup.going_on import Pipeline
from tests.unit.cleanup.test_ended_pipeline import Leaving

BIG = b"x" * 500


def daily(place: Leaving | Pipeline, member: Member) -> HandleStore:
    lab = place.lab
    return HandleStore(member.store, SCOPE, area=area_of("daily"), blobs=lab.files, clock=lab.clock, inline_limit=64)


def serve(place: Leaving | Pipeline, member: Member, term: Term) -> RecordStore:
    """What a service keeps: a handle with a blob, one without, and records that look like handles and like nothing."""
    handles = daily(place, member)
    handles.add(term, "big", BIG)
    handles.add(term, "small", b"x")
    records = RecordStore(member.store, SCOPE, clock=place.lab.clock)
    records.put(term, "newest", b'{"blob":"e00000001/handles/daily/other"}')
    records.put(term, "bytes", b"\xff\x00")
    return records


def test_a_sweep_spares_what_a_record_names_and_no_record_of_a_user_stops_it(pipeline: Pipeline) -> None:
    member, term = pipeline.leaders[-1]
    serve(pipeline, member, term)
    lost = pipeline.put("blobs/e00000001/handles/daily/never-named")
    other = pipeline.put("blobs/e00000001/handles/daily/other")  # a payload of a user names nothing
    member, term = pipeline.next_leader("ben")
    assert sorted(pipeline.orphans()) == [lost, other]
    assert pipeline.sweep() == []
    assert daily(pipeline, member).get_all() == {"big": BIG, "small": b"x"}
    assert not pipeline.has(lost)
    assert not pipeline.has(other)


def test_a_sweep_spares_the_replaced_bytes_that_a_reader_has_locked(pipeline: Pipeline) -> None:
    member, term = pipeline.leaders[-1]
    serve(pipeline, member, term)
    reader = pipeline.standby("reader")
    lock = daily(pipeline, reader).lock("big", session=reader.keeper.session_id)
    daily(pipeline, member).replace(term, lock.handle, BIG * 2)
    pipeline.next_leader("ben")
    assert pipeline.sweep() == []
    assert daily(pipeline, reader).payload(lock.handle) == BIG
    daily(pipeline, reader).release(lock)
    assert pipeline.sweep() == []
    assert lock.handle.blob is not None
    assert not pipeline.has(f"blobs/{lock.handle.blob.address}")


@pytest.fixture
def leaving(lab: Lab, tmp_path: Path) -> Leaving:
    lab.files = FileBlobs(str(tmp_path / "scope" / "blobs"))
    return Leaving(lab, tmp_path / "scope")


def test_the_end_of_a_pipeline_removes_them(leaving: Leaving) -> None:
    serve(leaving, leaving.leader, leaving.term)
    assert {"handles/daily", "handles/daily/big", "records", "records/newest"} <= leaving.records()
    assert leaving.clean(leaving.leader, leaving.term) == []
    assert leaving.records() == set()
    assert not leaving.root.exists()


def test_the_end_of_a_pipeline_waits_for_the_reader_of_a_handle(leaving: Leaving) -> None:
    serve(leaving, leaving.leader, leaving.term)
    reader = leaving.lab.member("reader")
    lock = daily(leaving, reader).lock("big", session=reader.keeper.session_id)
    left = leaving.clean(leaving.leader, leaving.term)
    assert [(one.row, one.name) for one in left][:1] == [("handles", "handles/daily/big")]
    assert daily(leaving, reader).payload(lock.handle) == BIG
    assert not {key for key in leaving.records() if key.startswith(CHECKPOINTS) and key.count("/") > 1}
    daily(leaving, reader).release(lock)
    assert leaving.clean(leaving.leader, leaving.term) == []
    assert leaving.records() == set()
    assert not leaving.root.exists()


def test_a_cleanup_that_dies_among_them_is_ended_by_the_next(leaving: Leaving) -> None:
    serve(leaving, leaving.leader, leaving.term)
    crasher = Crasher()
    crasher.dead = True  # at its first removal in the storage: the records are gone
    with pytest.raises(BaseException, match="after the crash"):
        leaving.clean(leaving.leader, leaving.term, crasher=crasher)
    assert not {key for key in leaving.records() if key.startswith("handles/daily/")}
    successor, term = leaving.next_leader("b")
    assert leaving.clean(successor, term) == []
    assert not leaving.root.exists()


def test_a_plan_needs_a_mark_where_no_run_directory_is_named(tmp_path: Path) -> None:
    claims = Claims(2, "anna", frozenset(), frozenset({"blobs/e00000001/handles/daily/x"}))
    check_records(claims, str(tmp_path), owned=True)
    with pytest.raises(UsageError, match="no checkpoint in the store names a run directory"):
        check_records(claims, str(tmp_path), owned=False)
    named = Claims(2, "anna", frozenset(), frozenset({"runs/q/e00000001-anna-0123456789ab"}))
    with pytest.raises(UsageError, match="no checkpoint in the store names a run directory"):
        check_records(named, str(tmp_path), owned=True)
