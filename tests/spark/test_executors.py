"""The tasks by which a doctor asks the executors: on a disk, in S3, and where they do not end."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterator
from datetime import timedelta
from importlib import metadata
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from s3fs import S3FileSystem

from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.driver.executors import what_executors_tell
from tenure.scope_context import ScopeContext
from tenure.storage.reach import reach
from tests.jvm import SharedJvm, Start
from tests.kit.memory import MemoryStore
from tests.kit.servers import BUCKET
from tests.s3 import reached
from tests.support.far_gate import FarGate

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm, start_in_s3: Start) -> Iterator[SparkSession]:
    with jvm.lent(start_in_s3) as session:
        yield session


@pytest.fixture(params=["file", "s3"])
def storage(
    request: pytest.FixtureRequest, gate: FarGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    with reached(gate.url, monkeypatch):
        yield f"file://{tmp_path}" if request.param == "file" else f"s3://{BUCKET}/{tmp_path.name}"


def of(storage: str) -> ScopeContext:
    return ScopeContext(MemoryStore(), Scope("shop"), storage, SystemClock())


def test_they_write_to_the_storage_and_nothing_stays(spark: SparkSession, storage: str) -> None:
    told = what_executors_tell(spark, of(storage))
    assert told.why == ""
    assert told.seen == (
        f"the executors on {socket.gethostname()} write to the storage; "
        f"Python {platform.python_version()}, pyarrow {metadata.version('pyarrow')}"
    )
    if storage.startswith("s3"):  # the server shows an empty folder for some time
        bucket, _, prefix = storage.removeprefix("s3://").partition("/")
        page = S3FileSystem().call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{prefix}/")
        assert page["KeyCount"] == 0
    else:
        assert reach(storage).entries() == []


def test_a_job_that_does_not_end_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    told = what_executors_tell(spark, of(f"file://{tmp_path}"), patience=timedelta(0))
    assert told.why == "a job of small tasks did not end within 0 s: has the cluster free cores?"
    assert list(tmp_path.iterdir()) == []
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
