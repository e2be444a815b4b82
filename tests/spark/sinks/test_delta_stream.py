"""A real streaming query through the Delta sink, read back by another engine."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tenure.sinks.delta.sink import Delta
from tenure.sinks.sink import Batch, OutputMode
from tenure.spark.releases import before
from tests.spark.sinks.support import a_sink, rows_of, write

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("origin", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("ratio", pa.float64()),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
    ]
)


def a_row(n: int) -> dict[str, Any]:
    at = dt.datetime(1899 + n * 7, 3, 10, 1, 59, 59, n * 1009 % 1_000_000, tzinfo=dt.UTC)
    return {
        "n": n,
        "at": at,
        "local": at.replace(tzinfo=None),
        "day": at.date(),
        "origin": ["JFK", "L/G A", None][n % 3],
        "price": Decimal(n) / 4,
        "ratio": n / 3,
        "ok": n % 2 == 0,
        "raw": bytes([n]),
        "tags": [str(n), None],
    }


def feed(directory: Path, rows: list[dict[str, Any]], name: str) -> None:
    directory.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), directory / f".{name}")
    (directory / f".{name}").rename(directory / f"{name}.parquet")


class Running:
    """A query whose batches go through a sink, as the driver runs it."""

    def __init__(self, rows: DataFrame, sink: Delta, where: Path, mode: OutputMode = "append") -> None:
        self.batches: list[int] = []
        sink.check(output_mode=mode)

        def each(batch_rows: DataFrame, number: int) -> None:
            query_id = json.loads((where / "metadata").read_text())["id"]
            write(sink, batch_rows, Batch("flights", "hourly", query_id, number, 1))
            self.batches.append(number)

        self.query: StreamingQuery = (
            rows.writeStream.foreachBatch(each)
            .outputMode(mode)
            .option("checkpointLocation", str(where))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()


@pytest.fixture(autouse=True)
def old_days(spark: SparkSession) -> Iterator[None]:
    """Spark 3.5 asks whether a file that it did not write has days before 1900 by today's calendar."""
    name = "spark.sql.parquet.datetimeRebaseModeInRead"
    if before("4.0"):
        spark.conf.set(name, "CORRECTED")
    yield
    spark.conf.unset(name)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


def test_five_batches_of_every_type_arrive_unchanged(
    spark: SparkSession, table: Path, source: Path, tmp_path: Path
) -> None:
    fed = [[a_row(n) for n in range(first, first + 4)] for first in range(0, 20, 4)]
    feed(source, fed[0], "0")
    rows = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
    sink = a_sink(table, partition_by=["origin"])
    with Running(rows, sink, tmp_path / "run") as running:
        running.query.processAllAvailable()
        for number, batch in enumerate(fed[1:], start=1):
            feed(source, batch, str(number))
            running.query.processAllAvailable()
    assert running.batches == [0, 1, 2, 3, 4]
    found = sorted(rows_of(table), key=lambda row: int(row["n"]))
    assert found == [row for batch in fed for row in batch]
    kinds = {
        field.name: field.type.type for field in DeltaTable(str(table)).schema().fields if field.name in ("at", "local")
    }
    assert kinds == {"at": "timestamp", "local": "timestamp_ntz"}
    # Timestamps as Delta demands them, not in Spark's INT96.
    some = next(table.glob("tenure-*/**/*.parquet"))
    physical = {column.name: column.physical_type for column in map(pq.read_metadata(some).schema.column, range(3))}
    assert physical["at"] == "INT64"


def test_statistics_never_hide_a_row(spark: SparkSession, table: Path, source: Path) -> None:
    feed(source, [a_row(n) for n in range(20)], "0")
    write(a_sink(table), spark.read.parquet(str(source)).repartitionByRange(5, "n"), Batch("s", "q", "i", 0, 1))
    dataset = DeltaTable(str(table)).to_pyarrow_dataset()
    flat = pa.table(DeltaTable(str(table)).get_add_actions(flatten=True)).to_pylist()
    assert sum(file["num_records"] for file in flat) == 20
    assert len(flat) > 1
    assert all({"min.n", "max.n", "min.at", "max.at", "null_count.origin"} <= set(file) for file in flat)
    for n in range(20):
        row = a_row(n)
        for name in ("n", "at", "local", "day"):
            hits = dataset.to_table(filter=pa.compute.field(name) == pa.scalar(row[name], SCHEMA.field(name).type))
            assert n in hits["n"].to_pylist(), f"{name} == {row[name]} hides row {n}"


def test_a_stateful_query_in_update_mode_and_in_complete_mode(
    spark: SparkSession, table: Path, source: Path, tmp_path: Path
) -> None:
    feed(source, [a_row(n) for n in range(4)], "0")
    rows = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
    counts = rows.groupBy("origin").count()
    other = tmp_path / "complete"
    with (
        Running(counts, a_sink(table, "update", key=["origin"]), tmp_path / "run-1", "update") as updating,
        Running(counts, a_sink(other, "complete"), tmp_path / "run-2", "complete") as completing,
    ):
        for number in range(1, 4):
            feed(source, [a_row(n) for n in range(4 * number, 4 * number + 4)], str(number))
            updating.query.processAllAvailable()
            completing.query.processAllAvailable()
    expected = {"JFK": 6, "L/G A": 5, None: 5}
    assert {row["origin"]: row["count"] for row in rows_of(table)} == expected
    assert {row["origin"]: row["count"] for row in rows_of(other)} == expected
    assert len(rows_of(table)) == len(rows_of(other)) == 3


def test_the_session_s_own_setting_comes_back(spark: SparkSession, table: Path) -> None:
    name = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(name)
    spark.conf.set(name, "INT96")
    try:
        write(a_sink(table), spark.sql("select timestamp'2024-01-01 00:00:00' as at"), Batch("s", "q", "i", 0, 1))
        assert spark.conf.get(name) == "INT96"
        (some,) = table.glob("tenure-*/**/*.parquet")
        assert pq.read_metadata(some).schema.column(0).physical_type == "INT64"
    finally:
        spark.conf.set(name, str(before))
    assert rows_of(table) == [{"at": dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC)}]
