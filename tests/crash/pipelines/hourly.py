"""Sums over each hour and key, as a pipeline and as a plain job.

`python hourly.py INPUT OUTPUT CHECKPOINT NAME=VALUE...`: run as a plain job until all input is read; settings of Spark.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def sums(spark: SparkSession, folder: str) -> DataFrame:
    """The rows of the query: the hour, the key, the sum."""
    events = spark.readStream.schema("at timestamp, key string, n long").json(folder).withWatermark("at", "2 hours")
    grouped = events.groupBy(f.window("at", "1 hour"), "key").agg(f.sum("n").alias("n"))
    return grouped.select(f.col("window.start").cast("string").alias("hour"), "key", "n")


def writer(output: str) -> Callable[[DataFrame, Any], None]:
    """A function for `foreachBatch` and for `ForeachBatch`: a line of JSON a row."""

    def put(rows: DataFrame, batch: Any) -> None:
        lines = [json.dumps(row.asDict()) for row in rows.collect()]
        with open(output, "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    return put


def main(folder: str, output: str, checkpoint: str, *settings: str) -> None:
    """The plain job."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for setting in ("spark.sql.session.timeZone=UTC", "spark.sql.shuffle.partitions=2", *settings):
        name, _, value = setting.partition("=")
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    started = sums(spark, folder).writeStream.option("checkpointLocation", checkpoint).foreachBatch(writer(output))
    query = started.start()
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
else:
    import tenure
    from tenure.sinks import ForeachBatch

    @tenure.pipeline(name="hourly")
    def hourly(job: tenure.Job) -> None:
        """The query."""
        sink = ForeachBatch(writer(job.params["output"]), idempotent=False)
        job.stream("hourly", sums(job.spark, job.params["input"]), sink=sink)
