"""Foreach inside a real query: the function is called with each batch, after its plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tenure.events import Events
from tenure.sinks import Batch, Foreach

pytestmark = pytest.mark.spark


def test_a_query_through_a_function(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    spark.range(3).coalesce(1).write.mode("append").json(str(source))
    log: list[object] = []

    def keep(rows: DataFrame, batch: Batch) -> None:
        log.append((batch.idempotency_key, sorted(row["id"] for row in rows.collect())))

    sink = Foreach(keep, idempotent=False)
    sink.check(output_mode="append")
    run = tmp_path / "run"

    def each(rows: DataFrame, number: int) -> None:
        batch = Batch("flights", "hourly", json.loads((run / "metadata").read_text())["id"], number, 1)
        sink.write(rows, batch, planned=lambda: log.append(f"plan {number}"), events=Events.nobody)

    rows = spark.readStream.schema("id long").json(str(source))
    query = rows.writeStream.foreachBatch(each).option("checkpointLocation", str(run)).start()
    try:
        query.processAllAvailable()
        spark.range(3, 5).coalesce(1).write.mode("append").json(str(source))
        query.processAllAvailable()
    finally:
        query.stop()
    assert log == ["plan 0", (f"{query.id}/0", [0, 1, 2]), "plan 1", (f"{query.id}/1", [3, 4])]
