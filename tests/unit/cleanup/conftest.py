"""The laboratory, and a pipeline in it, on every store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.storage.blobs import FileBlobs
from tests.faults.lab import Lab
from tests.faults.labs import lab
from tests.unit.cleanup.going_on import Pipeline

__all__ = ["lab"]


@pytest.fixture
def pipeline(lab: Lab, tmp_path: Path) -> Pipeline:
    """The laboratory keeps its blobs in the same folder, which is the scope's."""
    lab.files = FileBlobs(str(tmp_path / "scope" / "blobs"))
    pipeline = Pipeline(lab, tmp_path / "scope")
    pipeline.next_leader("anna")
    pipeline.plan(0)
    return pipeline
