"""Iceberg: Spark computes the very values of Iceberg's transforms, and a filter finds what it finds without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tenure.errors import UsageError
from tests.spark.sinks.iceberg_tables import Lake
from tests.spark.sinks.support import a_batch, write

pytestmark = pytest.mark.spark

TEXTS = [
    "a b",
    "c/d=e%f",
    "é",
    "__HIVE_DEFAULT_PARTITION__",
    "",
    "x:y",
    "#?&",
    "日本語のテキスト",
    "\U0001f600\U0001f601x",
    "v",
]
WHOLE = [0, 1, 9, 10, 11, -1, -9, -10, -11, 2**31 - 1, -(2**31) + 100]
DAYS = ["1969-12-31", "1970-01-01", "1968-02-29", "0001-01-01", "9999-12-31", "2024-03-10", "1582-10-04", "1582-10-15"]
CLOCKS = ["00:00:00", "23:59:59.999999", "12:30:00.000001"]
TIMES = [f"{day} {clock}" for day in DAYS for clock in CLOCKS] + ["2024-03-10 02:30:00", "1883-11-18 12:03:58"]
VALUES: dict[str, list[str]] = {
    "string": [f"'{text}'" for text in TEXTS],
    "int": [f"cast({n} as int)" for n in WHOLE],
    "long": [f"cast({n} as long)" for n in [*WHOLE, 2**62, -(2**62)]],
    "boolean": ["true", "false"],
    "decimal(9,3)": ["cast('1.500' as decimal(9,3))", "cast('-0.001' as decimal(9,3))", "cast(0 as decimal(9,3))"],
    "decimal(38,2)": ["cast('123456789012345678901234567890.12' as decimal(38,2))"],
    "date": [f"date'{day}'" for day in DAYS],
    "timestamp": [f"timestamp'{time} UTC'" for time in TIMES],
    "timestamp_ntz": [f"timestamp_ntz'{time}'" for time in TIMES],
}
PARTS = {
    "string": ["c", "truncate(2, c)", "bucket(5, c)"],
    "int": ["c", "truncate(10, c)", "bucket(1000, c)"],
    "long": ["c", "truncate(7, c)", "bucket(1000, c)"],
    "date": ["c", "year(c)", "month(c)", "day(c)", "bucket(1000, c)"],
    "timestamp": ["year(c)", "month(c)", "day(c)", "hour(c)", "bucket(1000, c)"],
    "timestamp_ntz": ["year(c)", "month(c)", "day(c)", "hour(c)", "bucket(1000, c)"],
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "a lake+1%")


def rows_of(spark: SparkSession, kind: str) -> DataFrame:
    values = ", ".join(f"({n}, {value})" for n, value in enumerate([*VALUES[kind], "null"]))
    return spark.sql(f"select cast(n as long) as n, cast(c as {kind}) as c from values {values} as t(n, c)").coalesce(1)


@pytest.mark.parametrize("kind", VALUES)
def test_values_are_those_of_iceberg_s_transforms(spark: SparkSession, lake: Lake, kind: str) -> None:
    write(lake.sink(partition_by=PARTS.get(kind, ["c"])), rows_of(spark, kind), a_batch(0))
    table = lake.table()
    of = table.schema().find_type("c")
    transforms = [field.transform.transform(of) for field in table.spec().fields]
    partitions = []
    for file in lake.named():
        content = pq.ParquetFile(file.file_path.removeprefix("file://")).read()
        partition = tuple(file.partition[place] for place in range(len(transforms)))
        values = internal(content["c"])
        assert [tuple(transform(value) for transform in transforms) for value in values] == [partition] * len(values)
        partitions += [partition] * len(values)
    assert len(partitions) == len(VALUES[kind]) + 1
    assert len(set(partitions)) == len(lake.named()), "a file for each value"


def internal(column: Any) -> list[Any]:
    """The values as Iceberg has them: days and microseconds are numbers."""
    kind = str(column.type)
    if kind.startswith("date"):
        return list(column.cast("int32").to_pylist())
    return list(column.cast("int64").to_pylist() if kind.startswith("timestamp") else column.to_pylist())


def test_a_filter_finds_what_it_finds_without_partitions(spark: SparkSession, lake: Lake) -> None:
    rows = rows_of(spark, "string").unionByName(
        spark.sql("select cast(n + 100 as long) as n, cast(n as string) as c from range(5) as t(n)")
    )
    write(lake.sink(partition_by=["c", "truncate(3, n)"]), rows, a_batch(0))
    table = lake.table()
    expected = {**dict(enumerate(TEXTS)), len(TEXTS): None, **{100 + n: str(n) for n in range(5)}}
    assert {row["n"]: row["c"] for row in lake.rows()} == expected
    assert {row["n"]: row["c"] for row in lake.rows_by_polars()} == expected
    for n, text in expected.items():
        filtered = "c is null" if text is None else f"c = '{text}'"
        assert table.scan(filtered).to_arrow()["n"].to_pylist() == [n]
        assert table.scan(f"n = {n}").to_arrow()["c"].to_pylist() == [text]
    assert len(list(table.scan("c = ''").plan_files())) == 1


def test_a_table_keeps_its_own_partitions(spark: SparkSession, lake: Lake) -> None:
    rows = rows_of(spark, "timestamp")
    write(lake.sink(partition_by=["day(c)"]), rows, a_batch(0))
    with pytest.raises(UsageError, match=r"is partitioned by \['day\(c\)'\], the sink by \['hour\(c\)'\]"):
        write(lake.sink(partition_by=["hour(c)"]), rows, a_batch(1))
    write(lake.sink(), rows, a_batch(1))
    with lake.table().update_spec() as change:
        change.remove_field("c_day")
        change.add_field("c", "hour", "by_hour")
    write(lake.sink(), rows, a_batch(2))
    with lake.table().update_spec() as change:
        change.add_field("n", "bucket[4]")
    write(lake.sink(), rows, a_batch(3))
    assert {file.partition[-1] for file in lake.named() if file.spec_id == lake.table().spec().spec_id} <= {0, 1, 2, 3}
    assert len(lake.rows()) == 4 * rows.count()


def test_update_mode_keeps_rows_in_their_partitions(spark: SparkSession, lake: Lake) -> None:
    sink = lake.sink("update", key=["n"], partition_by=["c", "truncate(2, n)"])
    write(
        sink,
        spark.sql("select n, cast(n % 2 as string) as c, array(n) as a from values (0L), (1L), (2L), (3L) as t(n)"),
        a_batch(0),
    )
    write(
        sink, spark.sql("select n, 'moved' as c, array(n + 10) as a from values (1L), (2L), (9L) as t(n)"), a_batch(1)
    )
    expected = [
        {"n": 0, "c": "0", "a": [0]},
        {"n": 1, "c": "moved", "a": [11]},
        {"n": 2, "c": "moved", "a": [12]},
        {"n": 3, "c": "1", "a": [3]},
        {"n": 9, "c": "moved", "a": [19]},
    ]
    assert lake.rows() == expected
    for row in expected:
        (found,) = lake.table().scan(f"c = '{row['c']}' and n = {row['n']}").to_arrow().to_pylist()
        assert found == row
