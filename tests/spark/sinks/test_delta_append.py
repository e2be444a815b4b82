"""Delta, append mode: what is written, what is skipped, what is visible when."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tenure.errors import QueryFailed, TermLost, UsageError
from tenure.sinks.delta.log import DeltaLog
from tenure.sinks.sink import Written
from tenure.sinks.staging import stage as staging
from tests.kit.waiting import NEVER_S
from tests.spark.sinks.support import Seen, a_batch, a_sink, named, numbers, rows_of, staged, visible, write

pytestmark = pytest.mark.spark


def test_batches_are_added(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table)
    assert write(sink, numbers(spark, [1, 2]), a_batch(0)) == Written(repeated=False)
    assert write(sink, numbers(spark, [3]), a_batch(1)) == Written(repeated=False)
    assert visible(table) == [1, 2, 3]


def test_staging_carries_scope_query_id_epoch_and_batch(spark: SparkSession, table: Path) -> None:
    write(a_sink(table), numbers(spark, [1, 2]), a_batch(12, epoch=5))
    assert all(path.startswith("tenure-flights/hourly/q-1/e00000005/b000000000012/") for path in named(table))
    assert {str(path.relative_to(table)) for path in staged(table)} == named(table)
    assert not [path for path in table.rglob("_*") if path.name != "_delta_log" and "_delta_log" not in path.parts]


def test_a_repeated_batch_is_skipped_but_evaluated_once(spark: SparkSession, table: Path) -> None:
    write(a_sink(table), numbers(spark, [1, 2, 3]), a_batch(0))
    before = staged(table)
    evaluated = spark.sparkContext.accumulator(0)

    @f.udf("long")
    def counted(value: int) -> int:
        evaluated.add(1)
        return value

    rows = numbers(spark, [1, 2, 3]).select(counted("n").alias("n"))
    seen = Seen()
    assert write(a_sink(table), rows, a_batch(0, epoch=2), seen=seen) == Written(repeated=True)
    assert visible(table) == [1, 2, 3]
    assert evaluated.value == 3
    assert staged(table) == before, "what the repeated attempt staged is gone, and only that"
    assert seen.names() == []


def test_rows_are_evaluated_once(spark: SparkSession, table: Path) -> None:
    evaluated = spark.sparkContext.accumulator(0)

    @f.udf("long")
    def counted(value: int) -> int:
        evaluated.add(1)
        return value

    write(a_sink(table), numbers(spark, [1, 2, 3]).select(counted("n").alias("n")), a_batch(0))
    assert evaluated.value == 3


def test_an_older_batch_is_in_too(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table)
    for number in range(3):
        write(sink, numbers(spark, [number]), a_batch(number))
    assert write(a_sink(table), numbers(spark, [1]), a_batch(1)) == Written(repeated=True)
    assert visible(table) == [0, 1, 2]


def test_a_fresh_start_is_another_query(spark: SparkSession, table: Path) -> None:
    write(a_sink(table), numbers(spark, [1]), a_batch(0, query_id="before"))
    assert write(a_sink(table), numbers(spark, [2]), a_batch(0, query_id="after")) == Written(repeated=False)
    assert visible(table) == [1, 2]


def test_nothing_is_visible_when_the_plan_is_refused(spark: SparkSession, table: Path) -> None:
    write(a_sink(table), numbers(spark, [1]), a_batch(0))

    def refused() -> None:
        assert visible(table) == [1]
        raise TermLost(scope="flights", epoch=1)

    before = named(table)
    with pytest.raises(TermLost):
        write(a_sink(table), numbers(spark, [2]), a_batch(1), planned=refused)
    assert visible(table) == [1]
    assert named(table) == before
    with pytest.raises(TermLost):  # also when the table has the batch: the caller must learn of its end
        write(a_sink(table), numbers(spark, [1]), a_batch(0), planned=refused)


def test_no_table_is_made_when_the_first_plan_is_refused(spark: SparkSession, table: Path) -> None:
    def refused() -> None:
        raise TermLost(scope="flights", epoch=1)

    with pytest.raises(TermLost):
        write(a_sink(table), numbers(spark, [2]), a_batch(0), planned=refused)
    assert not (table / "_delta_log").exists()
    assert write(a_sink(table), numbers(spark, [2]), a_batch(0, epoch=2)) == Written(repeated=False)


def test_a_batch_without_rows_makes_no_commit(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table)
    assert write(sink, numbers(spark, []), a_batch(0)) == Written(repeated=False)
    assert not (table / "_delta_log").exists()
    write(sink, numbers(spark, [1]), a_batch(1))
    commits = len(list((table / "_delta_log").glob("*.json")))
    assert write(sink, numbers(spark, []), a_batch(2)) == Written(repeated=False)
    assert len(list((table / "_delta_log").glob("*.json"))) == commits
    assert visible(table) == [1]


def test_an_empty_task_leaves_no_empty_file_in_the_table(spark: SparkSession, table: Path) -> None:
    rows = spark.createDataFrame([], "n long").repartition(1).union(numbers(spark, [7]).coalesce(1))
    write(a_sink(table), rows, a_batch(0))
    assert visible(table) == [7]
    assert len(named(table)) == len(staged(table)) == 1


def test_two_pipelines_share_a_table(spark: SparkSession, table: Path) -> None:
    one, other = a_sink(table), a_sink(table)
    for number in range(3):
        write(one, numbers(spark, [number]), a_batch(number, query_id="one"))
        write(other, numbers(spark, [10 + number]), a_batch(number, query_id="other"))
    assert visible(table) == [0, 1, 2, 10, 11, 12]


def test_partitions(spark: SparkSession, table: Path) -> None:
    values = ["a b", "c/d=e%f", "é", "__HIVE", None, "", "x:y"]
    rows = spark.createDataFrame(
        [(n, value, n % 2 == 0) for n, value in enumerate(values)], "n long, p string, q boolean"
    )
    write(a_sink(table, partition_by=["p", "q"]), rows, a_batch(0))
    found = sorted(rows_of(table), key=lambda row: row["n"])
    # The empty string in a partition column is null, in Spark's directories as in Delta's log.
    assert [row["p"] for row in found] == ["a b", "c/d=e%f", "é", "__HIVE", None, None, "x:y"]
    assert [row["q"] for row in found] == [True, False] * 3 + [True]


def test_columns_may_have_any_name(spark: SparkSession, table: Path) -> None:
    names = ("a.b", "x`y", 'q"r', "it's", "100%s", "sp ace", ".k", "é")
    values = ", ".join(f"'{place}' as `{name.replace('`', '``')}`" for place, name in enumerate(names))
    rows = spark.sql(f"select named_struct('b', 7L) as a, {values}, 'p/q' as `part.%2F`")
    write(a_sink(table, partition_by=["part.%2F"]), rows, a_batch(0))
    expected = {"a": {"b": 7}, **{name: str(place) for place, name in enumerate(names)}, "part.%2F": "p/q"}
    assert rows_of(table) == [expected]
    (bounds,) = pa.table(DeltaTable(str(table)).get_add_actions())["min"].to_pylist()
    assert {name: value for name, value in bounds.items() if value is not None} == {
        name: str(place) for place, name in enumerate(names)
    }


@pytest.mark.parametrize("calendar", ["LEGACY", "EXCEPTION"])
def test_days_before_1582_are_those_of_the_rows(spark: SparkSession, table: Path, calendar: str) -> None:
    """Spark can write the days of another calendar, which no reader of a table expects."""
    name = "spark.sql.parquet.datetimeRebaseModeInWrite"
    before = spark.conf.get(name)
    spark.conf.set(name, calendar)
    try:
        write(
            a_sink(table),
            spark.sql("select date'1500-02-28' as d, timestamp'1500-02-28 12:00:00 UTC' as t"),
            a_batch(0),
        )
        assert spark.conf.get(name) == calendar
    finally:
        spark.conf.set(name, str(before))
    day = dt.date(1500, 2, 28)
    assert rows_of(table) == [{"d": day, "t": dt.datetime(1500, 2, 28, 12, tzinfo=dt.UTC)}]
    (bounds,) = pa.table(DeltaTable(str(table)).get_add_actions())["min"].to_pylist()
    assert bounds["d"] == day


def test_other_columns_are_refused_before_anything_is_visible(spark: SparkSession, table: Path) -> None:
    write(a_sink(table), numbers(spark, [1]), a_batch(0))
    renamed = numbers(spark, [2]).withColumnRenamed("n", "m")
    with pytest.raises(UsageError, match=r"the rows have m, which the table lacks and the table has n"):
        write(a_sink(table), renamed, a_batch(1))
    cast = numbers(spark, [2]).select(f.col("n").cast("int").alias("n"))
    with pytest.raises(UsageError, match=r"column n is integer in the rows and long in"):
        write(a_sink(table), cast, a_batch(1))
    assert visible(table) == [1]
    assert {str(path.relative_to(table)) for path in staged(table)} == named(table)


def test_a_new_writer_reads_the_table_while_spark_works(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each request takes long, the log of a table takes long."""
    write(a_sink(table), numbers(spark, [1]), a_batch(0))
    staging_began, stage, refresh = threading.Event(), staging.stage, DeltaLog.refresh

    def staged_now(*arguments: Any, **named: Any) -> Any:
        staging_began.set()
        return stage(*arguments, **named)

    def refreshed(log: DeltaLog) -> None:
        assert staging_began.wait(NEVER_S)
        refresh(log)

    monkeypatch.setattr(staging, "stage", staged_now)
    monkeypatch.setattr(DeltaLog, "refresh", refreshed)
    assert write(a_sink(table), numbers(spark, [2]), a_batch(1)) == Written(repeated=False)
    assert visible(table) == [1, 2]


def test_other_partition_columns_are_refused(spark: SparkSession, table: Path) -> None:
    rows = spark.createDataFrame([(1, "x")], "n long, p string")
    write(a_sink(table, partition_by=["p"]), rows, a_batch(0))
    with pytest.raises(UsageError, match=r"is partitioned by \['p'\], the sink by \[\]"):
        write(a_sink(table), rows, a_batch(1))
    assert visible(table) == [1]


def by_plain_spark(table: Path, batch: int) -> None:
    """delta-spark notes the batches of a query under Spark's id of it, which an adopted query keeps."""
    noted = CommitProperties(app_transactions=[Transaction("q-1", batch)])
    write_deltalake(table, pa.table({"n": pa.array([batch], pa.int64())}), mode="append", commit_properties=noted)


def test_a_batch_that_sparks_own_sink_has_committed_is_known(spark: SparkSession, table: Path) -> None:
    by_plain_spark(table, 3)
    sink = a_sink(table)
    assert write(sink, numbers(spark, [3]), a_batch(3)) == Written(repeated=True)
    assert write(sink, numbers(spark, [4]), a_batch(4)) == Written(repeated=False)
    assert write(a_sink(table), numbers(spark, [5]), a_batch(3, query_id="q-2")) == Written(repeated=False)
    assert visible(table) == [3, 4, 5]


def test_a_query_whose_job_of_before_went_on_is_refused(spark: SparkSession, table: Path) -> None:
    """The job's batch has other rows than the batch of the same number that was planned here."""
    by_plain_spark(table, 4)
    sink = a_sink(table)
    with pytest.raises(QueryFailed, match="has batch 4 of the same query by a job of plain Spark"):
        write(sink, numbers(spark, [3]), a_batch(3))
    write(sink, numbers(spark, [5]), a_batch(5))
    by_plain_spark(table, 6)
    with pytest.raises(QueryFailed, match="and batch 6 comes only now; stop that job"):
        write(sink, numbers(spark, [6]), a_batch(6))
    assert visible(table) == [4, 5, 6]


def test_a_directory_with_other_files_is_refused(spark: SparkSession, table: Path) -> None:
    table.mkdir()
    (table / "letter.txt").write_text("dear reader")
    with pytest.raises(UsageError, match=r"is not a Delta table, but letter.txt lies there"):
        write(a_sink(table), numbers(spark, [1]), a_batch(0))
    assert [path.name for path in table.iterdir()] == ["letter.txt"]


def test_a_type_that_delta_lacks_names_its_column(spark: SparkSession, table: Path) -> None:
    rows = spark.sql("select 1L as n, named_struct('gap', interval '1' day) as s")
    with pytest.raises(UsageError, match=r"column s.gap has type interval day"):
        write(a_sink(table), rows, a_batch(0))
