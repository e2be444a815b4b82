"""What decides the state of some queries, as one process of Spark reads it. Not a test: started by the tests beside it.

Arguments: a folder, and `forward` or `backward`: in which order the queries are declared, so that whatever Spark counts
is different. Each one is declared twice, as a driver does. Writes one JSON object, name -> two of [fingerprint, words],
or of null, to standard output.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import StringType

from tenure.pipelines.pipeline import Stream
from tenure.sinks import ForeachBatch
from tenure.spark.releases import before
from tenure.spark.state_shape import shape_of

if TYPE_CHECKING or not before("4.0"):
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
else:
    StatefulProcessor = object

Mode = Literal["append", "complete", "update"]
SCHEMA = "id long, k string, v double, t timestamp, n long, xs array<double>, code binary"


class Visits(StatefulProcessor):
    """Never called: a shape is read of the plan."""

    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Iterator[pd.DataFrame]:  # noqa: N802 - Spark's name
        yield pd.DataFrame()

    def close(self) -> None: ...


class Calls(Visits):
    """Another function."""


def visits(key: Any, rows: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame()


def calls(key: Any, rows: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield from visits(key, rows, state)


def with_state(
    rows: DataFrame, function: Any = visits, *, state: str = "n long", output: str = "k string, n long", ttl: str = "No"
) -> DataFrame:
    timeout = f"{ttl}Timeout"
    return rows.groupBy("k").applyInPandasWithState(
        function, output, state, "append", getattr(GroupStateTimeout, timeout)
    )


def transformed(rows: DataFrame, processor: Any, by: str = "k") -> DataFrame:
    return rows.groupBy(by).transformWithStateInPandas(processor, "k string, n long", "append", "none")


def pairs(rows: DataFrame, on: str, how: str = "inner", *, names: tuple[str, str] = ("a", "b")) -> DataFrame:
    left, right = (rows.withWatermark("t", "1 hour").alias(name) for name in names)
    return left.join(right, F.expr(on), how)


def sql(rows: DataFrame, view: str) -> DataFrame:
    rows.createOrReplaceTempView(view)
    return rows.sparkSession.sql(f"select k, count(*) from {view} group by k")


def windowed(rows: DataFrame, *window: str, delay: str = "2 hours") -> DataFrame:
    return rows.withWatermark("t", delay).groupBy(F.window("t", *window), "k").count()


def sums(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.sum("id").alias("s"), F.sum("n").alias("t"))


def joined(rows: DataFrame, *columns: str) -> DataFrame:
    return pairs(rows, "a.id = b.id and a.t > b.t").select(*columns)


def listed(rows: DataFrame, where: str) -> DataFrame:
    """A join without a condition of its own."""
    left, right = (rows.withWatermark("t", "1 hour").alias(name) for name in "ab")
    return left.crossJoin(right).where(where).select("a.id", "b.id")


def in_sql(rows: DataFrame, text: str) -> DataFrame:
    rows.createOrReplaceTempView("rows")
    return rows.sparkSession.sql(text)


NAMED = "with s as (select k, sum(id) as s, sum(n) as t from rows group by k) select k, {} as x from s"

shout = F.udf(lambda text: text, StringType())

QUERIES: Mapping[str, Callable[[DataFrame], DataFrame]] = {
    "count": lambda rows: rows.groupBy("k").count(),
    "count, filtered": lambda rows: rows.where("id > 3").groupBy("k").count(),
    "count, projected": lambda rows: rows.select("id", "k", F.lit(1).alias("one")).groupBy("k").count(),
    "count, trimmed": lambda rows: rows.withColumn("k", F.trim("k")).groupBy("k").count(),
    "count, its result renamed": lambda rows: rows.groupBy("k").agg(F.count(F.lit(1)).alias("n")),
    "count, computed with": lambda rows: rows.groupBy("k").agg((F.count(F.lit(1)) * 2).alias("n")).where("n > 4"),
    "count, in SQL": lambda rows: sql(rows, "some_view"),
    "count, in SQL on another view": lambda rows: sql(rows, "another_view"),
    "count, in upper case": lambda rows: rows.groupBy("K").count(),
    "count, of a union": lambda rows: rows.union(rows).groupBy("k").count(),
    "count, joined with a table": lambda rows: rows.join(rows.sparkSession.range(3), "id").groupBy("k").count(),
    "sum": lambda rows: rows.groupBy("k").agg(F.sum("id")),
    "sum of another type": lambda rows: rows.withColumn("id", F.col("id").cast("double")).groupBy("k").agg(F.sum("id")),
    "sum, count": lambda rows: rows.groupBy("k").agg(F.sum("id"), F.count(F.lit(1))),
    "count, sum": lambda rows: rows.groupBy("k").agg(F.count(F.lit(1)), F.sum("id")),
    "sum, count, sum": lambda rows: rows.groupBy("k").agg(F.sum("id"), F.count(F.lit(1)), F.sum("id").alias("again")),
    "sum where": lambda rows: rows.groupBy("k").agg(F.expr("sum(id) filter (where v > 0)")),
    "sum of distinct": lambda rows: rows.groupBy("k").agg(F.sum_distinct("id")),
    "sketch": lambda rows: rows.groupBy("k").agg(F.approx_count_distinct("id", 0.05)),
    "finer sketch": lambda rows: rows.groupBy("k").agg(F.approx_count_distinct("id", 0.01)),
    "sum of a lambda": lambda rows: rows.groupBy("k").agg(F.sum(F.aggregate("xs", F.lit(0.0), lambda a, x: a + x))),
    "sum of another lambda": lambda rows: rows.groupBy("k").agg(
        F.sum(F.aggregate("xs", F.lit(0.0), lambda a, x: x - a))
    ),
    "sum of the lambda turned": lambda rows: rows.groupBy("k").agg(
        F.sum(F.aggregate("xs", F.lit(0.0), lambda a, x: a - x))
    ),
    "count by a lambda": lambda rows: rows.groupBy(F.transform("xs", lambda x: x + 1)).count(),
    "sum of what is some bytes": lambda rows: rows.groupBy("k").agg(
        F.sum(F.when(F.col("code") == F.lit(b"x"), F.col("id")))
    ),
    "sum of what is other bytes": lambda rows: rows.groupBy("k").agg(
        F.sum(F.when(F.col("code") == F.lit(b"y"), F.col("id")))
    ),
    "count by some bytes": lambda rows: rows.groupBy(F.col("code") == F.lit(b"x")).count(),
    "count by bytes in an array": lambda rows: rows.groupBy(
        F.array_contains(F.array(F.lit(b"x"), F.lit(b"y")), F.col("code"))
    ).count(),
    "sketch with a seed": lambda rows: rows.groupBy("k").agg(F.count_min_sketch("id", F.lit(0.1), F.lit(0.9))),
    "coarser sketch with a seed": lambda rows: rows.groupBy("k").agg(F.count_min_sketch("id", F.lit(0.2), F.lit(0.9))),
    "sum of today": lambda rows: rows.groupBy("k").agg(F.sum(F.when(F.current_date() > F.col("t"), F.col("id")))),
    "sum of some at random": lambda rows: rows.where(F.rand() > 0.5).groupBy("k").agg(F.sum("id")),
    "sum where a query says": lambda rows: rows.groupBy("k").agg(
        F.expr("sum(id) filter (where id > (select max(id) from range(3)))")
    ),
    "count, by now": lambda rows: rows.groupBy("k", F.date_trunc("day", F.current_timestamp())).count(),
    "count, of no table": lambda rows: (
        rows.join(rows.sparkSession.sql("select 'x' as k where false"), "k").groupBy("k").count()
    ),
    "two sums": sums,
    "two sums, renamed": lambda rows: sums(rows).select("k", F.col("s").alias("a"), F.col("t").alias("b")),
    "two sums, computed with": lambda rows: sums(rows).select("k", (F.col("s") * 2 + F.col("t")).alias("n")),
    "two sums, filtered": lambda rows: sums(rows.where("n is not null")).where("k > 'a'"),
    "two sums, the other order": lambda rows: sums(rows).select("k", "t", "s"),
    "two sums, the first": lambda rows: sums(rows).select("k", F.col("s").alias("n")),
    "two sums, the second": lambda rows: sums(rows).select("k", F.col("t").alias("n")),
    "two sums, in SQL, the first": lambda rows: in_sql(rows, NAMED.format("s")),
    "two sums, in SQL, the second": lambda rows: in_sql(rows, NAMED.format("t")),
    "two sums, no sum": lambda rows: sums(rows).select("k"),
    "count of a column": lambda rows: rows.groupBy("k").agg(F.count("id")),
    "count of a column, filtered": lambda rows: rows.where("id is not null").groupBy("k").agg(F.count("id")),
    "distinct": lambda rows: in_sql(rows, "select distinct id, n from rows"),
    "distinct, the other order": lambda rows: in_sql(rows, "select distinct n, id from rows"),
    "intersection": lambda rows: in_sql(rows, "select id from rows intersect select id from range(3)"),
    "count by id": lambda rows: rows.groupBy("id").count(),
    "count by k, id": lambda rows: rows.groupBy("k", "id").count(),
    "count by id, k": lambda rows: rows.groupBy("id", "k").count(),
    "count by upper": lambda rows: rows.groupBy(F.upper("k")).count(),
    "count by udf": lambda rows: rows.groupBy(shout("k")).count(),
    "count twice": lambda rows: rows.groupBy("k").count().groupBy("count").agg(F.count(F.lit(1)).alias("again")),
    "hour": lambda rows: windowed(rows, "1 hour"),
    "hour, filtered": lambda rows: windowed(rows.where("id > 3"), "1 hour"),
    "hour, later": lambda rows: windowed(rows, "1 hour", delay="3 hours"),
    "two hours": lambda rows: windowed(rows, "2 hours"),
    "sliding": lambda rows: windowed(rows, "1 hour", "30 minutes"),
    "sliding slower": lambda rows: windowed(rows, "1 hour", "20 minutes"),
    "hour as a column": lambda rows: rows.withColumn("w", F.window("t", "1 hour")).groupBy("w").count(),
    "two hours as a column": lambda rows: rows.withColumn("w", F.window("t", "2 hours")).groupBy("w").count(),
    "begin of an hour": lambda rows: rows.select(F.window("t", "1 hour").start.alias("b")).groupBy("b").count(),
    "begin of two hours": lambda rows: rows.select(F.window("t", "2 hours").start.alias("b")).groupBy("b").count(),
    "session": lambda rows: rows.withWatermark("t", "1 hour").groupBy(F.session_window("t", "5 minutes")).count(),
    "longer session": lambda rows: rows.withWatermark("t", "1 hour").groupBy(F.session_window("t", "1 hour")).count(),
    "unique": lambda rows: rows.dropDuplicates(["k"]),
    "unique, filtered": lambda rows: rows.where("id > 3").dropDuplicates(["k"]).select("id"),
    "unique by two": lambda rows: rows.dropDuplicates(["k", "id"]),
    "unique within": lambda rows: rows.withWatermark("t", "1 hour").dropDuplicatesWithinWatermark(["k"]),
    "unique within two hours": lambda rows: rows.withWatermark("t", "2 hours").dropDuplicatesWithinWatermark(["k"]),
    "pairs": lambda rows: pairs(rows, "a.id = b.id and a.t > b.t"),
    "pairs of other names": lambda rows: pairs(rows, "x.id = y.id and x.t > y.t", names=("x", "y")),
    "pairs, filtered": lambda rows: pairs(rows.where("v > 0"), "a.id = b.id and a.t > b.t").where("a.v > 1"),
    "pairs the other way": lambda rows: pairs(rows, "a.id = b.id and b.t > a.t"),
    "pairs by k": lambda rows: pairs(rows, "a.k = b.k and a.t > b.t"),
    "pairs, outer": lambda rows: pairs(rows, "a.id = b.id and a.t > b.t", "left"),
    "pairs of fewer columns": lambda rows: pairs(rows.drop("v"), "a.id = b.id and a.t > b.t"),
    "pairs of two": lambda rows: joined(rows, "a.id", "a.v"),
    "pairs of two, computed with": lambda rows: joined(rows, "a.id", "a.v").selectExpr("v * 2", "id"),
    "pairs of two that are bare": lambda rows: pairs(rows.drop("n"), "a.id = b.id and a.t > b.t").select("a.id", "a.v"),
    "pairs of two others": lambda rows: joined(rows, "a.id", "a.n"),
    "pairs of two of each": lambda rows: joined(rows, "a.id", "b.v"),
    "pairs by some bytes": lambda rows: pairs(rows, "a.id = b.id and a.t > b.t and (a.v > b.v or a.code = X'78')"),
    "pairs, listed": lambda rows: listed(rows, "a.id = b.id and a.t > b.t and a.v > 1"),
    "pairs, listed by n": lambda rows: listed(rows, "a.n = b.id and a.t > b.t and a.v > 1"),
    "pairs, listed until now": lambda rows: listed(rows, "a.id = b.id and a.t > least(b.t, now())"),
    "function": with_state,
    "another function": lambda rows: with_state(rows, calls),
    "function of other state": lambda rows: with_state(rows, state="n string"),
    "function of other output": lambda rows: with_state(rows, output="k string, m long"),
    "function with a timeout": lambda rows: with_state(rows, ttl="ProcessingTime"),
    "processor": lambda rows: transformed(rows, Visits()),
    "another processor": lambda rows: transformed(rows, Calls()),
    "processor by id": lambda rows: transformed(rows, Visits(), "id"),
    "first": lambda rows: rows.limit(3),
    "stateless": lambda rows: rows.where("id > 3").select("id"),
    "joined with a table": lambda rows: rows.join(rows.sparkSession.range(3).groupBy("id").count(), "id"),
}


if before("4.0"):  # it has no processors, and no sketch without a seed
    QUERIES = {name: query for name, query in QUERIES.items() if not re.search("processor|sketch", name)}


def read(query: Callable[[DataFrame], DataFrame], rows: DataFrame, sink: ForeachBatch, mode: Mode = "update") -> Any:
    shape = shape_of(Stream("query", query(rows), sink, mode, None))
    return None if shape is None else [shape.fingerprint, shape.told]


def main(folder: str, order: str) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    source = Path(folder) / order  # another one in each process
    source.mkdir()
    rows = spark.readStream.schema(SCHEMA).json(str(source))
    sink = ForeachBatch(lambda rows, batch: None, idempotent=True)
    names = list(QUERIES) if order == "forward" else [*QUERIES][::-1]
    found = {name: [read(QUERIES[name], rows, sink) for _ in range(2)] for name in names}
    found["count, complete"] = [read(QUERIES["count"], rows, sink, "complete") for _ in range(2)]
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
