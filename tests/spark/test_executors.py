"""The tasks by which a doctor asks the executors: on a disk, in S3, and where they do not end."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import metadata
from pathlib import Path

import pytest
from pyspark import SparkContext
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
from tests.kit.waiting import wait_until
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


def test_a_job_without_free_cores_is_cancelled_and_others_go_on(spark: SparkSession, tmp_path: Path) -> None:
    context, free = spark.sparkContext, tmp_path / "free"

    def hold(numbers: Iterable[int]) -> Iterator[int]:
        import time

        while not free.exists():
            time.sleep(0.05)
        return iter(numbers)

    storage = tmp_path / "storage"
    storage.mkdir()
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(context.parallelize(range(2), 2).mapPartitions(hold).collect)  # the two cores
        try:
            wait_until(lambda: running(context) == 2, what="both cores are taken")
            told = what_executors_tell(spark, of(f"file://{storage}"), patience=timedelta(seconds=1))
            assert told.why == "a job of small tasks did not end within 1 s: has the cluster free cores?"
            assert list(storage.iterdir()) == []
            assert running(context) == 2, "the other job goes on"
        finally:
            free.touch()
        assert other.result() == [0, 1]


def running(context: SparkContext) -> int:
    """The tasks that run."""
    tracker = context.statusTracker()
    stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
    return sum(stage.numActiveTasks for stage in stages)
