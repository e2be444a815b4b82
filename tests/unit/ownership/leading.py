"""A pipeline whose leaders mark its storage, and what is asked of it by every test of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.errors import OwnerMismatch
from tenure.ownership.marks import Marks
from tenure.ownership.owner import Owner, in_store
from tenure.storage.blobs import FileBlobs
from tests.faults.lab import SCOPE, Lab
from tests.unit.cleanup.going_on import Pipeline


@pytest.fixture
def pipeline(lab: Lab, tmp_path: Path) -> Pipeline:
    """The first leader has planned a batch, which is done."""
    lab.files = FileBlobs(str(tmp_path / "scope" / "blobs"))
    pipeline = Pipeline(lab, tmp_path / "scope")
    lead(pipeline, "anna", batch=0)
    return pipeline


def lead(pipeline: Pipeline, name: str, *, batch: int | None = None) -> None:
    """Somebody takes over, marks the storage, and plans and ends a batch."""
    _, term = pipeline.next_leader(name)
    pipeline.owner().own(term)
    if batch is not None:
        pipeline.plan(batch)
        pipeline.put(f"{pipeline.run}/commits/{batch}")


def marks(pipeline: Pipeline) -> list[int]:
    return sorted(mark.epoch for mark in Marks(pipeline.storage).look().marks)


def files(pipeline: Pipeline) -> set[Path]:
    return set(pipeline.root.rglob("*"))


def life(pipeline: Pipeline) -> str:
    found = in_store(pipeline.lab.truth.list(SCOPE, "").records).identity
    assert found is not None
    return found


def refused(pipeline: Pipeline, why: str, *, granted: str = "") -> None:
    """A member that starts or sweeps, and a leader are refused, and leave no trace. `granted`: why the leader is, if it
    is for another reason."""
    before = files(pipeline)
    with pytest.raises(
        OwnerMismatch, match=rf"^storage \S+ is not that of scope 'pipeline' in this store: {why}.*; re"
    ):
        Owner(pipeline.lab.truth, SCOPE, storage=pipeline.storage, clock=pipeline.lab.clock).check()
    pipeline.leaders[-1][0].dies()
    member = pipeline.lab.member("late")
    term = member.lead()
    with pytest.raises(OwnerMismatch, match=granted or why):
        pipeline.owner(member).own(term)
    member.election.resign(term)
    assert files(pipeline) == before
