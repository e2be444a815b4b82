"""A small SparkSession with state in RocksDB, which the modules of a worker share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tenure.spark.releases import before
from tests.jvm import SharedJvm, Start
from tests.kit.servers import SeaweedFs, installed
from tests.kit.servers.connectors import ivy_folder
from tests.spark.recorded_runs import Recorder, Recordings
from tests.support.far_gate import FarGate

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers would take whatever `python3` is
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        # Full state files soon and often: a chain of 14 batches has both kinds of files.
        .config("spark.sql.streaming.stateStore.minDeltasForSnapshot", "3")
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "500ms")
    )
    if before("4.3"):
        # It may stop the maintenance while it holds a lock for which the maintenance waits, and waits this long.
        for timeout in ("maintenanceShutdownTimeout", "maintenanceForceShutdownTimeout"):
            builder = builder.config(f"spark.sql.streaming.stateStore.{timeout}", "1s")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm) -> Iterator[SparkSession]:
    with jvm.lent(start) as session:
        yield session


@pytest.fixture(scope="session")
def gate(seaweedfs: SeaweedFs) -> Iterator[FarGate]:
    """A gate before S3, for all modules that ask for it: their sessions reach S3 by it."""
    with FarGate(seaweedfs) as made:
        yield made


@pytest.fixture(scope="session")
def start_in_s3(gate: FarGate) -> Start:
    """The start of a session that reaches S3."""
    from tests.spark.object_store import session_for

    with installed():
        ivy_folder()
    return session_for(gate)


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    """Runs that modules cut and continue, each made once when it is first asked for."""
    return Recordings(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def recorder(spark: SparkSession, recordings: Recordings) -> Recorder:
    return Recorder(spark, recordings)
