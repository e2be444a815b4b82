"""Which queries are refused because a second evaluation of a batch may differ: a table of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses
from pyspark.sql.types import StringType

from tenure.driver.declare_streams import _check_evaluations
from tenure.errors import PipelineFileError
from tenure.pipelines.pipeline import Stream
from tenure.sinks import ForeachBatch
from tenure.spark.evaluations import differences
from tenure.spark.releases import before

pytestmark = pytest.mark.spark

Query = Callable[[DataFrame, DataFrame], DataFrame]
"""Made of the rows of a stream, and of a table beside it."""

same = F.udf(lambda text: text, StringType())


@F.udf(StringType())
def asks(text: str) -> str:
    return text


def counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").count()


def sql(rows: DataFrame, text: str) -> DataFrame:
    rows.createOrReplaceTempView("events")
    return rows.sparkSession.sql(text)


def pairs(rows: DataFrame, on: str) -> DataFrame:
    left, right = (rows.withWatermark("t", "1 hour").alias(name) for name in "ab")
    return left.join(right, F.expr(on))


def now() -> Column:
    return F.expr("now()")


REPLACED = "rand()" if before("4.0") else "uniform(1, 9)"
"""A function that Spark replaces by another; 3.5 has none with chance."""

DIFFER: Mapping[str, tuple[str, Query]] = {
    "a salt": ("rand", lambda rows, table: rows.withColumn("s", F.rand()).groupBy("k", "s").count()),
    "a salt as the key": ("rand", lambda rows, table: rows.groupBy((F.rand() * 4).cast("int")).count()),
    "a salt with a seed": ("rand", lambda rows, table: counted(rows.where(F.rand(7) > 0.5))),
    "a value that is replaced": (
        "rand",
        lambda rows, table: rows.withColumn("u", F.expr(REPLACED)).groupBy("u").count(),
    ),
    "an id": ("uuid", lambda rows, table: rows.withColumn("u", F.expr("uuid()")).dropDuplicates(["u"])),
    "a number": (
        "monotonically_increasing_id",
        lambda rows, table: rows.groupBy(F.monotonically_increasing_id()).count(),
    ),
    "a sample": ("sample", lambda rows, table: counted(rows.sample(0.5))),
    "a function": ("asks", lambda rows, table: rows.groupBy(asks.asNondeterministic()("k")).count()),
    "the clock": ("now", lambda rows, table: rows.withColumn("n", now()).groupBy("k", "n").count()),
    "the clock as the key": ("now", lambda rows, table: rows.groupBy(F.date_trunc("day", now())).count()),
    "the clock in a sum": (
        "now",
        lambda rows, table: rows.groupBy("k").agg(F.sum(F.when(F.col("t") < now(), F.col("id")))),
    ),
    "the clock in a join": ("now", lambda rows, table: pairs(rows, "a.id = b.id and a.t > least(b.t, now())")),
    "the clock as a text": ("now", lambda rows, table: counted(rows.where("t < cast(' Today' as timestamp)"))),
    "the clock behind a name": (
        "now",
        lambda rows, table: sql(
            rows, "with s as (select k, now() as n from events) select k, n, count(*) from s group by k, n"
        ),
    ),
    "a table": ("tables", lambda rows, table: counted(rows.join(table, "id"))),
    "a cached table": ("tables", lambda rows, table: counted(rows.join(table.cache(), "id", "left"))),
    "a table below other state": ("tables", lambda rows, table: rows.join(table, "id").dropDuplicates(["k"])),
    "a subquery": (
        "tables",
        lambda rows, table: sql(
            rows, "select k, count(*) from events where id > (select max(id) from side) group by k"
        ),
    ),
    "a subquery in a sum": (
        "tables",
        lambda rows, table: sql(
            rows, "select k, sum(id) filter (where id > (select max(id) from side)) from events group by k"
        ),
    ),
    "a table behind a name": (
        "tables",
        lambda rows, table: sql(
            rows,
            "with s as (select e.k from events e join side on e.id = side.id) select k, count(*) from s group by k",
        ),
    ),
}

AGREE: Mapping[str, Query] = {
    "a count": lambda rows, table: counted(rows),
    "a value that nothing takes": lambda rows, table: counted(rows.withColumn("r", F.rand())),
    "a value above the state": lambda rows, table: counted(rows).withColumn("r", F.rand()).withColumn("n", now()),
    "a value beside the state": lambda rows, table: rows.groupBy("k").agg(F.count("id"), now().alias("n")),
    "a value without state": lambda rows, table: rows.withColumn("r", F.rand()).join(table, "id"),
    "a table above the state": lambda rows, table: rows.groupBy("id").count().join(table, "id"),
    "rows of the file": lambda rows, table: counted(
        rows.join(rows.sparkSession.range(3), "id")
        .join(rows.sparkSession.createDataFrame([(1, "x")], "id long, x string"), "id")
        .join(rows.sparkSession.sql("select * from values (1L, 'y') as t (id, y)"), "id")
    ),
    "the batch's time": lambda rows, table: (
        rows.withColumn("n", F.current_timestamp()).withColumn("d", F.current_date()).groupBy("k", "n", "d").count()
    ),
    "a fixed time": lambda rows, table: counted(rows.where("t < cast('2026-01-01' as timestamp)")),
    "a function": lambda rows, table: rows.groupBy(same("k")).count(),
    "the file of a row": lambda rows, table: rows.groupBy(F.input_file_name()).count(),
    "an order": lambda rows, table: rows.groupBy("k").agg(F.collect_list("id"), F.first("id")),
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DataFrame, DataFrame]]:
    folder = tmp_path_factory.mktemp("evaluations")
    (folder / "in").mkdir()
    side = str(folder / "side")
    spark.range(3).write.parquet(side)
    rows = spark.readStream.schema("id long, k string, t timestamp").json(str(folder / "in"))
    table = spark.read.parquet(side)
    table.createOrReplaceTempView("side")
    yield rows, table
    spark.catalog.clearCache()


@pytest.mark.parametrize("query", DIFFER)
def test_what_may_differ_below_the_state_is_named(tables: tuple[DataFrame, DataFrame], query: str) -> None:
    name, made = DIFFER[query]
    assert {one.name for one in differences(made(*tables))} == {name}


@pytest.mark.parametrize("query", AGREE)
def test_what_is_the_same_twice_or_is_in_no_state_is_not(tables: tuple[DataFrame, DataFrame], query: str) -> None:
    assert differences(AGREE[query](*tables)) == ()


@pytest.mark.parametrize(
    ("mode", "allowed", "refused"),
    [("update", (), "rand"), ("update", ("rand",), "tables"), ("update", ("rand", "tables"), ""), ("complete", (), "")],
)
def test_what_is_allowed_by_name_is_not_refused(
    tables: tuple[DataFrame, DataFrame], mode: Any, allowed: tuple[str, ...], refused: str
) -> None:
    """In complete mode each batch replaces the output by the state, so that both are one again."""
    rows, table = tables
    query = counted(rows.where(F.rand() > 0.5).join(table, "id"))
    sink = ForeachBatch(lambda rows, batch: None, idempotent=True)
    stream = Stream("counts", query, sink, mode, None, may_differ=frozenset(allowed))
    if not refused:
        _check_evaluations(stream)
        return
    with pytest.raises(PipelineFileError, match=r"allow it by job\.may_differ\(\"counts\",") as error:
        _check_evaluations(stream)
    assert ("rand()" in error.value.what) == (refused == "rand")


def test_a_table_is_told_by_its_place(tables: tuple[DataFrame, DataFrame], spark: SparkSession) -> None:
    rows, table = tables
    (one,) = differences(counted(rows.join(table, "id")))
    assert one.told.startswith("the table file:/")
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    (two,) = differences(counted(rows.join(spark.read.parquet(one.told.removeprefix("the table ")), "id")))
    assert two.told.startswith("the table ")


def test_spark_keeps_the_time_of_a_batch_and_reads_the_clock_for_now(
    tables: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    """Why `current_timestamp()` is allowed and `now()` is not: a batch is run twice."""
    rows, _ = tables
    seen: list[tuple[object, ...]] = []

    def evaluate(batch: DataFrame, number: int) -> None:
        seen.append(tuple(batch.limit(1).collect()[0]))
        if len(seen) == 1:
            raise RuntimeError("the driver dies here")

    spark = rows.sparkSession
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"id": 1}\n')
    times = ["current_timestamp()", "current_date()", "localtimestamp()", "unix_timestamp()", "now()"]
    query = spark.readStream.schema("id long").json(str(folder)).selectExpr(*times)
    writer = query.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(Exception, match="the driver dies here"):
        writer.foreachBatch(evaluate).start().awaitTermination()
    writer.foreachBatch(evaluate).start().awaitTermination()
    first, second = seen
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]
