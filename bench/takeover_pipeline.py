"""What `bench.takeover` runs: rows of new keys, known by a state store, into a Delta table.

As a pipeline (`tenure run bench/takeover_pipeline.py`), and as a plain Spark script of the same query and sink
(`python -m bench.takeover_pipeline INPUT OUTPUT CHECKPOINT EVENTS HASHES`) that a supervisor would start again.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit, sha2

import tenure
from tenure.events import Events
from tenure.sinks import Delta
from tenure.sinks.sink import Batch


def new_keys(spark: SparkSession, folder: str, *, hashes: int, clean: str = "off") -> DataFrame:
    """The query. `hashes`: so many of 64 letters are beside each key in the state. `clean`: what becomes of files that
    are done."""
    source = spark.readStream.schema("key long, at timestamp").option("cleanSource", clean)
    text = concat(lit(""), *(sha2(concat(lit(number), col("key")), 256) for number in range(hashes)))
    return source.parquet(folder).withColumn("text", text).dropDuplicates(["key", "text"]).drop("text")


@tenure.pipeline
def takeover(job: tenure.Job) -> None:
    """The pipeline."""
    rows = new_keys(job.spark, job.params["input"], hashes=int(job.params["hashes"]))
    job.stream("keys", rows, sink=Delta(job.params["output"]))


def plain(folder: str, output: str, checkpoint: str, events: str, hashes: str) -> None:
    """The same query on Spark alone, with the settings that Tenure gives its sessions."""
    from tenure.spark.session import DEFAULTS

    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in DEFAULTS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    sink = Delta(output)
    sink.check(output_mode="append")

    def put(rows: DataFrame, number: int) -> None:
        batch = Batch(scope="plain", query="keys", query_id="plain", id=number, epoch=1)
        sink.write(rows, batch, planned=lambda: None, events=Events.nobody)
        line = {"event": "BatchCommitted", "at": datetime.now(UTC).isoformat(), "batch": number}
        with open(events, "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    rows = new_keys(spark, folder, hashes=int(hashes), clean="delete")
    query = rows.writeStream.outputMode("append").foreachBatch(put)
    query.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    plain(*sys.argv[1:6])
