"""One small SparkSession a module, with state in RocksDB; its JVM ends with the module."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests import leftovers
from tests.spark.recorded_runs import Recorder

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # Spark's workers would take whatever `python3` is
        session = (
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
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        try:
            yield session
        finally:
            session.stop()
            assert SparkContext._active_spark_context is None
            leftovers.end_own_jvm()


@pytest.fixture(scope="module")
def recorder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    """Runs that a module cuts and continues, each made once when it is first asked for."""
    return Recorder(spark, tmp_path_factory.mktemp("recorded"))
