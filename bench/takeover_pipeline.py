"""What `bench.takeover` runs: counts by key, in a state store, each batch into a folder of its own.

As a pipeline (`tenure run bench/takeover_pipeline.py`), and as a plain Spark script of the same query
(`python -m bench.takeover_pipeline INPUT OUTPUT CHECKPOINT EVENTS`) that a supervisor would start again.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its common name

import tenure
from tenure.sinks import Foreach


def counts(spark: SparkSession, folder: str) -> DataFrame:
    """The query."""
    rows = spark.readStream.schema("key long, at timestamp").parquet(folder)
    return rows.groupBy("key").agg(F.count("*").alias("rows"), F.max("at").alias("at"))


@tenure.pipeline
def takeover(job: tenure.Job) -> None:
    """The pipeline."""
    output = job.params["output"]

    def put(rows: DataFrame, batch: object) -> None:
        number = getattr(batch, "id", batch)
        rows.write.mode("overwrite").parquet(f"{output}/batch={number}")

    rows = counts(job.spark, job.params["input"])
    job.stream("counts", rows, sink=Foreach(put, idempotent=True), output_mode="update")


def plain(folder: str, output: str, checkpoint: str, events: str) -> None:
    """The same query on Spark alone, with the settings that Tenure gives its sessions."""
    from tenure.spark.session import DEFAULTS

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in DEFAULTS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()

    def put(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(f"{output}/batch={batch}")
        line = {"event": "BatchCommitted", "at": datetime.now(UTC).isoformat(), "batch": batch}
        with open(events, "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    query = counts(spark, folder).writeStream.outputMode("update").foreachBatch(put)
    query.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    plain(*sys.argv[1:5])
