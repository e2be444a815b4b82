"""ForeachBatch inside a real query: the function is called with each batch, after its plan."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tenure.events import Events
from tenure.sinks import Batch, ForeachBatch

pytestmark = pytest.mark.spark


def test_a_query_through_a_function(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    spark.range(3).coalesce(1).write.mode("append").json(str(source))
    log: list[object] = []

    def keep(rows: DataFrame, batch: Batch) -> None:
        log.append((batch.idempotency_key, sorted(row["id"] for row in rows.collect())))

    sink = ForeachBatch(keep, idempotent=False)
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


def test_a_function_that_writes_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    """Its partitions need the batch's key and epoch, and what asks the store stays where it is."""
    source, target, asking = tmp_path / "source", tmp_path / "target", threading.Lock()
    target.mkdir()
    spark.range(4).repartition(2).write.json(str(source))

    def check() -> None:
        with asking:
            (target / "asked").touch()

    def keep(rows: DataFrame, batch: Batch) -> None:
        def write(part: Iterator[Row]) -> None:
            for row in part:
                (target / f"{row['id']}").write_text(f"{batch.epoch} {batch.idempotency_key}")

        batch.check()
        rows.foreachPartition(write)

    sink = ForeachBatch(keep, idempotent=True)

    def each(rows: DataFrame, number: int) -> None:
        batch = Batch("flights", "hourly", "q-1", number, 3, check_term=check)
        sink.write(rows, batch, planned=lambda: None, events=Events.nobody)

    rows = spark.readStream.schema("id long").json(str(source))
    query = rows.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "run")).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    written = {path.name: path.read_text() for path in target.iterdir()}
    assert written == {"asked": "", **{str(number): "3 q-1/0" for number in range(4)}}
