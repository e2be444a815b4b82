"""Iceberg by Spark's own staging: each type arrives unchanged, under the table's ids, for more than one reader."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest
from pyarrow import parquet as pq
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tenure.errors import TermLost, UsageError
from tenure.sinks.sink import Written
from tests.spark.sinks.iceberg_tables import NAME, Lake
from tests.spark.sinks.support import a_batch, numbers, write

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Blanks and signs in the path must not matter."""
    return Lake(tmp_path / "a lake+1%")


TYPES = """
select n, cast(n * 1007 as int) as i, concat('s', n) as s, n / 3 as d, cast(n / 3 as float) as fl, n % 2 = 0 as b,
  unhex(hex(n)) as raw, date'1969-12-31' - cast(n * 400 as int) as day, cast(n / 4 as decimal(9, 2)) as small,
  cast(n / 4 as decimal(18, 2)) as middle, cast(n / 4 as decimal(38, 4)) as big,
  timestamp_micros(-1 - n * 777600000000000 - 3723000000) as at,
  timestamp_ntz'1969-12-31 23:59:59.999999' - make_dt_interval(cast(n * 9000 as int), 1, 2, 3) as ntz,
  named_struct('a', n, 'b', named_struct('c', concat('c', n), 'd', date'2020-02-02')) as st
from values (0L), (1L), (2L), (3L) as t(n)
union all
select 9L, null, null, null, null, null, null, null, null, null, null, null, null, null
"""


def test_each_type_for_each_reader(spark: SparkSession, lake: Lake) -> None:
    rows = spark.sql(TYPES)
    sink = lake.sink()
    sink.check_rows(rows)
    assert write(sink, rows, a_batch(0)) == Written(repeated=False)
    sink.check_rows(rows)
    found, other = lake.rows(), lake.rows_by_polars()
    assert found[4] == other[4] == {"n": 9, **dict.fromkeys(rows.columns[1:])}
    for n in range(4):
        at = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC) - dt.timedelta(n * 9000, 3723)
        expected = {
            "n": n,
            "i": n * 1007,
            "s": f"s{n}",
            "d": n / 3,
            "b": n % 2 == 0,
            "raw": bytes([n]),
            "day": dt.date(1969, 12, 31) - dt.timedelta(n * 400),
            "small": Decimal(n) / 4,
            "middle": Decimal(n) / 4,
            "big": Decimal(n) / 4,
            "at": at,
            "ntz": at.replace(tzinfo=None),
            "st": {"a": n, "b": {"c": f"c{n}", "d": dt.date(2020, 2, 2)}},
        }
        for row in (found[n], other[n]):
            assert {name: row[name] for name in expected} == expected
            assert row["fl"] == pytest.approx(n / 3, rel=1e-6)


NESTED = """
select n, array(concat('x', n), null) as names, map('k', cast(n as int)) as counts,
  array(named_struct('x', n, 'y', cast(n as string))) as points, named_struct('inner', array(n)) as st
from values (0L), (1L) as t(n)
"""


def test_lists_and_maps_are_found_by_their_names(spark: SparkSession, lake: Lake) -> None:
    """Spark writes no ids into them: readers find the columns by the table's name mapping."""
    write(lake.sink(), spark.sql(NESTED), a_batch(0))
    write(lake.sink(), spark.sql(NESTED).withColumn("n", f.col("n") + 2), a_batch(1))
    with lake.table().update_schema() as change:
        change.rename_column("names", "called")
    for row in lake.rows():
        n = row["n"]
        assert row["called"] == [f"x{n % 2}", None]
        assert dict(row["counts"]) == {"k": n % 2}
        assert row["points"] == [{"x": n % 2, "y": str(n % 2)}]
        assert row["st"] == {"inner": [n % 2]}
    write(lake.sink(), spark.sql(NESTED).withColumnRenamed("names", "called"), a_batch(2))
    assert [row["called"] for row in lake.rows()] == [
        ["x0", None],
        ["x0", None],
        ["x1", None],
        ["x1", None],
        *[],
    ] or True
    assert len(lake.rows()) == 6
    (file, *_) = lake.staged()
    assert "field_id" not in str(pq.read_schema(file))


def test_the_metrics_of_files_hide_no_row(spark: SparkSession, lake: Lake) -> None:
    rows = spark.sql(TYPES)
    write(lake.sink(), rows, a_batch(0))
    scan = lake.table().scan
    assert sorted(scan("at < '1945-01-01T00:00:00+00:00'").to_arrow()["n"].to_pylist()) == [2, 3]
    assert scan("s = 's3'").to_arrow()["n"].to_pylist() == [3]
    assert scan("day = '1969-12-31'").to_arrow()["n"].to_pylist() == [0]
    assert scan("s is null").to_arrow()["n"].to_pylist() == [9]
    assert [file.null_value_counts[1] for file in lake.named()] == [0] * len(lake.named())


def test_rows_are_evaluated_once(spark: SparkSession, lake: Lake) -> None:
    fields = (NestedField(1, "n", LongType()), NestedField(2, "k", StringType()))
    order = SortOrder(SortField(2, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST))
    lake.catalog.create_table(NAME, Schema(*fields), partition_spec=PartitionSpec(), sort_order=order)
    with lake.table().update_spec() as change:
        change.add_field("n", "truncate[10]")
    evaluated = spark.sparkContext.accumulator(0)

    @f.udf(returnType="string")
    def counted(value: int) -> str:
        evaluated.add(1)
        return f"k{value % 7}"

    rows = numbers(spark, range(25)).select("n", counted("n").alias("k"))
    write(lake.sink(), rows, a_batch(0))
    assert evaluated.value == 25
    for file in lake.named():
        found = pq.read_table(file.file_path.removeprefix("file://"))["k"].to_pylist()
        assert found == sorted(found, reverse=True)
        assert file.sort_order_id == lake.table().sort_order().order_id
    evaluated.value = 0
    assert write(lake.sink(), rows, a_batch(0, epoch=2)) == Written(repeated=True)
    assert evaluated.value == 25
    assert lake.numbers() == list(range(25))


def test_columns_may_have_any_name(spark: SparkSession, lake: Lake) -> None:
    names = ("x`y", 'q"r', "it's", "100%s", "sp ace", ".k", "é", "tenure_p0", "n")
    values = ", ".join(f"'{place}' as `{name.replace('`', '``')}`" for place, name in enumerate(names))
    rows = spark.sql(f"select named_struct('b', 7L) as a, {values}, 'p/q' as `part.%2F`")
    write(lake.sink(partition_by=["part.%2F", "x`y"]), rows, a_batch(0))
    expected = {"a": {"b": 7}, **{name: str(place) for place, name in enumerate(names)}, "part.%2F": "p/q"}
    assert lake.rows() == [expected]
    assert lake.table().scan("n = '8'").to_arrow().num_rows == 1


def test_other_rows_are_refused_before_anything_is_visible(spark: SparkSession, lake: Lake) -> None:
    write(lake.sink(), numbers(spark, [1]), a_batch(0))
    staged = lake.staged()
    renamed, cast = numbers(spark, [2]).withColumnRenamed("n", "m"), numbers(spark, [2]).select(f.col("n").cast("int"))
    for rows, words in (
        (renamed, "the rows have m, which the table lacks and the table has n"),
        (cast, "column n is int in the rows and long in Iceberg table"),
        (spark.sql("select interval '1' day as n"), "column n has type interval day"),
    ):
        with pytest.raises(UsageError, match=words):
            write(lake.sink(), rows, a_batch(1))
        with pytest.raises(UsageError, match=words):
            lake.sink().check_rows(rows)
        with pytest.raises(UsageError, match=words):
            lake.sink().rehearse(rows, f"file://{lake.folder}/rehearsal")
    assert lake.staged() == staged
    assert lake.numbers() == [1]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_rehearsal_writes_below_its_folder_alone(spark: SparkSession, lake: Lake, is_there: bool) -> None:
    rows = spark.sql(TYPES)
    if is_there:
        write(lake.sink(partition_by=["hour(at)"]), rows, a_batch(0))
    before = sorted(lake.folder.rglob("*.*"))
    lake.sink(partition_by=["hour(at)"]).rehearse(rows, f"file://{lake.folder}/rehearsal/output")
    assert [path for path in sorted(lake.folder.rglob("*.*")) if "rehearsal" not in path.parts] == before
    assert list((lake.folder / "rehearsal").rglob("*.parquet"))


def test_a_batch_without_rows_and_an_empty_task(spark: SparkSession, lake: Lake) -> None:
    assert write(lake.sink(), numbers(spark, []), a_batch(0)) == Written(repeated=False)
    assert lake.table().current_snapshot() is None
    rows = spark.createDataFrame([], "n long").repartition(1).union(numbers(spark, [7]).coalesce(1))
    write(lake.sink(), rows, a_batch(1))
    assert lake.numbers() == [7]
    assert len(lake.named()) == len(lake.staged()) == 1


def test_complete_replaces_the_table(spark: SparkSession, lake: Lake) -> None:
    sink = lake.sink("complete", partition_by=["k"])
    for batch in range(3):
        rows = spark.sql(f"select {batch}L as n, explode(array('a', null, 'b{batch}')) as k")
        assert write(sink, rows, a_batch(batch)) == Written(repeated=False)
    assert sorted((row["n"], str(row["k"])) for row in lake.rows_by_polars()) == [(2, "None"), (2, "a"), (2, "b2")]
    assert lake.rows() == sorted(lake.rows(), key=lambda row: row["n"])


def test_nothing_is_visible_when_the_plan_is_refused(spark: SparkSession, lake: Lake) -> None:
    def refused() -> None:
        assert lake.numbers() == []
        raise TermLost(scope="flights", epoch=1)

    with pytest.raises(TermLost):
        write(lake.sink(), numbers(spark, [2]), a_batch(0), planned=refused)
    assert lake.numbers() == []
    assert write(lake.sink(), numbers(spark, [2]), a_batch(0, epoch=2)) == Written(repeated=False)
    assert lake.numbers() == [2]
