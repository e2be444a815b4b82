"""Streams whose sinks are away for a time: a table of PostgreSQL, and a function that raises while a file is there."""

import os
from typing import Any

import tenure
from tenure.sinks import Batch, ForeachBatch, Postgres

TRIGGER = "300 milliseconds"


@tenure.pipeline
def kinds(job: tenure.Job) -> None:
    """`input`, `output`, `only`: `raw` (into `database`) or `files` (the function raises while `broken` is there)."""
    events = job.spark.readStream.schema("id long, at timestamp, key long").parquet(job.params["input"]).select("id")
    output = job.params["output"]

    def overwrite(rows: Any, batch: Batch) -> None:
        if os.path.exists(job.params["broken"]):
            raise ValueError("the lookup has no such key")
        rows.write.mode("overwrite").parquet(f"{output}/files/batch={batch.id:06d}")

    if job.params["only"] == "raw":
        job.stream("raw", events, sink=Postgres(job.params["database"], "raw"), trigger=TRIGGER)
    else:
        job.stream("files", events, sink=ForeachBatch(overwrite, idempotent=True), trigger=TRIGGER)
