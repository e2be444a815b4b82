"""One stream of each kind of query that a takeover must keep right; ids come as files of consecutive numbers."""

import os
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StructField, StructType

import tenure
from tenure.sinks import Batch, Delta, ForeachBatch

TRIGGER = "300 milliseconds"
EVENTS = "id long, at timestamp, key long"
SOURCE_OPTIONS = ("kafka.default.api.timeout.ms", "kafka.request.timeout.ms", "fetchOffset.numRetries")


try:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
except ImportError:  # before Spark 4.0
    StatefulProcessor = StatefulProcessorHandle = object  # type: ignore[misc,assignment] # never called there


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


def _count(key: Any, rows: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The same for Spark before 4.0."""
    count, largest = state.get if state.exists else (0, -1)
    for frame in rows:
        count += len(frame)
        largest = max(largest, int(frame["id"].max()))
    state.update((count, largest))
    yield pd.DataFrame({"key": [key[0]], "rows": [count], "largest": [largest]})


def _counts(events: DataFrame) -> DataFrame:
    grouped, columns = events.groupBy("key"), "key long, rows long, largest long"
    if hasattr(grouped, "transformWithStateInPandas"):
        return grouped.transformWithStateInPandas(RunningCount(), columns, "Update", "None")
    return grouped.applyInPandasWithState(_count, columns, "rows long, largest long", "update", "NoTimeout")


def _topic(job: tenure.Job) -> DataFrame:
    """The same events from a topic of Kafka, whose records are ids. `brokers`, and options of the source as
    `kafka.NAME`; the password of SCRAM is in the environment."""
    options = {name: job.params[name] for name in SOURCE_OPTIONS if name in job.params}
    if "KAFKA_PASSWORD" in os.environ:
        login = f'username="tenure" password="{os.environ["KAFKA_PASSWORD"]}"'
        options |= {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.scram.ScramLoginModule required {login};",
        }
    read = job.spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.params["brokers"])
    read = read.option("subscribe", job.params["topic"]).option("startingOffsets", "earliest").options(**options)
    at = fn.timestamp_seconds(fn.unix_timestamp(fn.lit("2026-01-01 00:00:00")) + fn.col("id")).alias("at")
    ids = read.load().select(fn.col("value").cast("string").cast("long").alias("id"))
    return ids.select("id", at, (fn.col("id") % 5).alias("key"))


@tenure.pipeline
def kinds(job: tenure.Job) -> None:
    """`input`, `output`, and optionally `only`: the names of the streams that are run, joined by commas."""
    spark, output = job.spark, job.params["output"]
    # Each batch takes as much as there is: two drivers that plan a batch at different times plan different batches.
    events = _topic(job) if "topic" in job.params else spark.readStream.schema(EVENTS).parquet(job.params["input"])
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
    counts = _counts(events)
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
