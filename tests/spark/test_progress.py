"""What a running query says of its batches: rows, state, watermark, and files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.driver.progress import ProgressReader
from tests.kit.clock import ManualClock

pytestmark = pytest.mark.spark

TERM = Term(Scope("rows"), 3, "anna", Version("1"), Version("1"), Liveness(clock=ManualClock(), until_s=float("inf")))


def test_the_figures_of_real_batches(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, ids in enumerate(((1, 2, 3), (3, 4))):
        rows = "".join(json.dumps({"id": id_, "at": "2026-03-01T12:00:00Z"}) + "\n" for id_ in ids)
        file = tmp_path / "in" / f"{number}.json"
        file.write_text(rows)
        os.utime(file, (number + 1, number + 1))  # Spark takes the oldest first
    read = spark.readStream.schema("id long, at timestamp").option("maxFilesPerTrigger", 1).json(f"{tmp_path}/in")
    unique = read.withWatermark("at", "1 minute").dropDuplicates(["id", "at"])
    writer = unique.writeStream.format("noop").queryName("unique").option("checkpointLocation", f"{tmp_path}/run")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    reader = ProgressReader("unique", TERM, directory=f"{tmp_path}/run")
    first, second, *empty = reader.look(query)
    assert [(one.batch, one.rows, one.state_rows, one.at_limit) for one in (first, second)] == [
        (0, 3, 3, True), (1, 2, 4, True),
    ]  # fmt: skip
    assert second.rows_per_s > 0
    assert (second.state_bytes or 0) > 0
    assert first.watermark_lag_s is None, "there was none when it began"
    assert (second.watermark_lag_s or 0) > 60
    assert not any(one.rows or one.at_limit for one in empty)
    assert reader.look(query) == []
