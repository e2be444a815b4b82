"""Iceberg where Spark stages in S3 and the catalog is at a server: found as an operator sets them, by variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import polars as pl
import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from tenure.errors import TermLost
from tenure.sinks import Iceberg
from tenure.sinks.iceberg.catalog import open_catalog
from tenure.sinks.sink import Attempts, Planned, Written
from tests.jvm import SharedJvm, Start
from tests.kit.servers.seaweedfs import SeaweedFs, environment
from tests.spark.sinks.support import QUICK, a_batch, write

pytestmark = pytest.mark.spark

TERM: Any = None
ROWS = "select n, timestamp_seconds(n * 1800) as at, named_struct('a', n) as st from range(4) as t(n)"


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm, start_in_s3: Start) -> Iterator[SparkSession]:
    with jvm.lent(start_in_s3) as session:
        yield session


@pytest.fixture(scope="module")
def warehouse(seaweedfs: SeaweedFs) -> Iterator[str]:
    """The variables stand; the name of a new bucket."""
    name = f"lake-{uuid4().hex[:8]}"
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment(seaweedfs.url).items():
            patch.setenv(key, value)
        for key, value in seaweedfs.new_warehouse(name).items():
            if not key.startswith("s3."):  # pyiceberg takes the variables of AWS
                patch.setenv(f"PYICEBERG_CATALOG__LAKE__{key.upper().replace('-', '_')}", value)
        yield name


@pytest.fixture
def catalog(warehouse: str) -> Catalog:
    catalog = open_catalog("lake", {})
    catalog.create_namespace_if_not_exists("n")
    return catalog


def a_sink(**named: Any) -> Iceberg:
    sink = Iceberg("n.t", catalog="lake", retry_policy=QUICK, partition_by=["hour(at)"], **named)
    sink.check(output_mode="append")
    return sink


def test_batches_and_what_attempts_left(spark: SparkSession, catalog: Catalog) -> None:
    rows = spark.sql(ROWS)
    sink = a_sink()
    sink.ask()
    sink.check_rows(rows)
    for batch in range(2):
        assert write(sink, rows, a_batch(batch)) == Written(repeated=False)
    sink.check_rows(rows)
    assert write(a_sink(), rows, a_batch(1, epoch=2)) == Written(repeated=True)

    def refused() -> None:
        raise TermLost(scope="flights", epoch=2)

    with pytest.raises(TermLost):
        write(a_sink(), rows, a_batch(2, epoch=2), planned=refused)
    table = catalog.load_table("n.t")
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert table.scan("at >= '1970-01-01T01:00:00+00:00'").count() == 4
    assert sorted(pl.scan_iceberg(table, reader_override="native").collect()["n"].to_list()) == [0, 0, 1, 1, 2, 2, 3, 3]

    attempts = Attempts("flights", "hourly", lambda: ["q-1"], 3, lambda: Planned("q-1", 1))
    sweep = a_sink().staged(attempts)
    (lost,) = sweep.find()
    assert "/e00000002/b000000000002/" in lost
    sweep.remove(TERM, lost)
    assert list(sweep.find()) == []
    assert catalog.load_table("n.t").scan().count() == 8
