"""The pipeline of `bench/api_requests.py`: two queries, one of them with state, a batch for each file."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import count

import tenure
from tenure.sinks import ForeachBatch


def drop(rows: DataFrame, batch: tenure.Batch) -> None:
    """A target that takes everything and keeps nothing."""
    rows.count()


@tenure.pipeline(name="requests")
def requests(job: tenure.Job) -> None:
    """Counts by key, and the rows as they come."""
    reader = job.spark.readStream.schema("key string").option("maxFilesPerTrigger", 1)
    rows = reader.json(job.params["input"])
    counts = rows.groupBy("key").agg(count("*").alias("n"))
    trigger = "200 milliseconds"
    job.stream("counts", counts, sink=ForeachBatch(drop, idempotent=True), output_mode="update", trigger=trigger)
    job.stream("rows", rows, sink=ForeachBatch(drop, idempotent=True), trigger=trigger)
