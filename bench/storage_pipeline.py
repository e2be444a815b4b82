"""The pipeline of `bench.storage`: raw rows, and windowed counts, into Delta; a batch of each query for each file.

As a pipeline (`tenure run bench/storage_pipeline.py`), and as a plain Spark script of the same queries on the same
storage (`python -m bench.storage_pipeline INPUT OUTPUT CHECKPOINTS EVENTS NAME=VALUE...`): with Spark's own defaults,
its own checkpoint, and its own writer of Parquet files in the place of a Delta table.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, window

import tenure
from tenure.sinks import Delta


def raw_rows(spark: SparkSession, folder: str) -> DataFrame:
    """The rows of the files, a file a batch."""
    reader = spark.readStream.schema("id long, at timestamp").option("maxFilesPerTrigger", 1)
    return reader.option("latestFirst", "false").json(folder)


def windowed(rows: DataFrame) -> DataFrame:
    """The rows of each minute."""
    counts = rows.withWatermark("at", "1 minute").groupBy(window("at", "1 minute")).agg(count("*").alias("n"))
    return counts.selectExpr("window.start as minute", "n")


@tenure.pipeline(name="storage")
def storage(job: tenure.Job) -> None:
    """The pipeline."""
    rows = raw_rows(job.spark, job.params["input"])
    output = job.params["output"]
    job.stream("rows", rows, sink=Delta(f"{output}/rows"))
    job.stream("counts", windowed(rows), sink=Delta(f"{output}/counts"))


def plain(folder: str, output: str, checkpoints: str, events: str, *, conf: Mapping[str, str]) -> None:
    """The same queries on Spark alone."""
    builder = SparkSession.builder.master("local[1]")
    for name, value in {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC", **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = raw_rows(spark, folder)

    def start(name: str, query: DataFrame) -> None:
        def put(found: DataFrame, number: int) -> None:
            found.write.mode("append").parquet(f"{output}/{name}")
            line = {"event": "BatchCommitted", "at": datetime.now(UTC).isoformat(), "batch": number, "query": name}
            with open(events, "a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")

        writer = query.writeStream.queryName(name).foreachBatch(put)
        writer.option("checkpointLocation", f"{checkpoints}/{name}").start()

    start("rows", rows)
    start("counts", windowed(rows))
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    plain(*sys.argv[1:5], conf=dict(pair.split("=", 1) for pair in sys.argv[5:]))
