"""One stream of each kind of query that a takeover must keep right; ids come as files of consecutive numbers."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import functions as fn
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StructField, StructType

import tenure
from tenure.sinks import Batch, Delta, ForeachBatch

TRIGGER = "300 milliseconds"
EVENTS = "id long, at timestamp, key long"


class RunningCount(StatefulProcessor):
    """Counts the rows of each key: (key, how many so far, the largest id so far)."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = StructType([StructField("rows", LongType()), StructField("largest", LongType())])
        self.so_far = handle.getValueState("so_far", schema)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803 - Spark's names
        before = self.so_far.get() if self.so_far.exists() else (0, -1)
        assert before is not None
        count, largest = int(before[0]), int(before[1])
        for frame in rows:
            count += len(frame)
            largest = max(largest, int(frame["id"].max()))
        self.so_far.update((count, largest))
        yield pd.DataFrame({"key": [key[0]], "rows": [count], "largest": [largest]})

    def close(self) -> None:
        """Nothing is held."""


@tenure.pipeline
def kinds(job: tenure.Job) -> None:
    """`input`, `output`, and optionally `only`: the names of the streams that are run, joined by commas."""
    spark, output = job.spark, job.params["output"]
    # Each batch takes as much as there is: two drivers that plan a batch at different times plan different batches.
    events = spark.readStream.schema(EVENTS).parquet(job.params["input"])
    timed = events.withWatermark("at", "10 seconds")
    windows = (
        timed.groupBy(fn.window("at", "20 seconds").alias("w"))
        .agg(fn.count("*").alias("rows"), fn.sum("id").alias("ids"))
        .select(fn.col("w.start").alias("at"), "rows", "ids")
    )
    right = timed.select(fn.col("id").alias("other"), fn.col("at").alias("then"))
    joined = timed.join(right, fn.expr("other = id + 1 AND then >= at AND then <= at + interval 5 seconds")).select(
        "id", "other"
    )
    unique = timed.withColumn("half", fn.expr("id div 2")).dropDuplicatesWithinWatermark(["half"]).select("half")
    counts = events.groupBy("key").transformWithStateInPandas(
        RunningCount(), "key long, rows long, largest long", "Update", "None"
    )
    streams: dict[str, Any] = {
        "passed": events.select("id"),
        "windows": windows,
        "joined": joined,
        "unique": unique,
        "counts": counts,
        "files": events.select("id"),
    }
    wanted = job.params["only"].split(",") if "only" in job.params else list(streams)

    def overwrite(rows: Any, batch: Batch) -> None:
        rows.write.mode("overwrite").parquet(f"{output}/files/batch={batch.id:06d}")

    for name in wanted:
        if name == "files":
            job.stream(name, streams[name], sink=ForeachBatch(overwrite, idempotent=True), trigger=TRIGGER)
        elif name == "counts":
            sink = Delta(f"{output}/{name}", key=["key"])
            job.stream(name, streams[name], sink=sink, output_mode="update", trigger=TRIGGER)
        else:
            job.stream(name, streams[name], sink=Delta(f"{output}/{name}"), trigger=TRIGGER)
