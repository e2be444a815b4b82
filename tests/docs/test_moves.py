"""The pages *Move an existing job* and *Move out*, done as a reader does them: the job of before runs, is adopted, goes
on as the pipeline, is exported, and goes on as a job.

Promise: nothing is put in the place of the pages' own words but their folders, an end of the runs, and the checkpoint's
folder in the job.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tests.docs.blocks import LEAVE, MOVE, blocks_of, text_of
from tests.docs.reader import UNTIL_IDLE, put_command, type_in, variables_of

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 1, tzinfo=UTC)


def fly(folder: Path, first: int, last: int) -> None:
    """A file with a flight in each of these hours."""
    flights = folder / "data" / "flights"
    flights.mkdir(parents=True, exist_ok=True)
    hours = [START + timedelta(hours=hour, minutes=10) for hour in range(first, last)]
    table = pa.table(
        {
            "at": pa.array(hours, pa.timestamp("us", tz="UTC")),
            "carrier": ["AA"] * len(hours),
            "delay": [float(hour) for hour in range(first, last)],
        }
    )
    pq.write_table(table, flights / f".{first}")
    (flights / f".{first}").rename(flights / f"{first:06}.parquet")


def run_job(spark: SparkSession, folder: Path, *, checkpoint: str = "/data/checkpoints/hourly") -> None:
    """The job of before, until it has read all there is."""
    text = text_of(MOVE, "python spark-job").replace("/data/checkpoints/hourly", checkpoint)
    assert "query.awaitTermination()" in text
    text = text.replace("query.awaitTermination()", "query.processAllAvailable()").replace("/data/", f"{folder}/data/")
    exec(text, {})
    for query in spark.streams.active:
        query.stop()


def shown(text: str, folder: Path) -> str:
    """What a command of a page prints."""
    for place in ("/data/checkpoints", "/data/hourly"):
        text = text.replace(place, f"{folder}{place}")
    variables = {**variables_of(folder), "TENURE_CONF": json.dumps({"spark.sql.shuffle.partitions": "1"})}
    done = type_in(text, folder, variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_job_moves_in_and_out(spark: SparkSession, tmp_path: Path) -> None:
    put_command(tmp_path)
    pipeline = next(block for block in blocks_of(MOVE) if block.kind == "python pipeline")  # the page's first
    (tmp_path / "hourly.py").write_text(pipeline.text)
    fly(tmp_path, 0, 12)
    run_job(spark, tmp_path)

    fly(tmp_path, 12, 24)
    assert "nothing was written; --apply adopts it" in shown(text_of(MOVE, "sh adopt-look"), tmp_path)
    assert "start its members" in shown(text_of(MOVE, "sh adopt"), tmp_path)
    shown(f"{text_of(MOVE, 'sh')} {UNTIL_IDLE}", tmp_path)

    fly(tmp_path, 24, 36)
    assert "is paused" in shown(text_of(LEAVE, "sh pause"), tmp_path)
    shown(text_of(LEAVE, "sh export"), tmp_path)
    run_job(spark, tmp_path, checkpoint="/data/checkpoints/hourly-plain")

    before_and_after = pq.read_table(tmp_path / "data" / "hourly").to_pylist()
    meanwhile = DeltaTable(str(tmp_path / "data" / "hourly-new")).to_pyarrow_table().to_pylist()
    assert before_and_after
    assert meanwhile
    found = sorted((row["window"]["start"], row["delay"]) for row in [*before_and_after, *meanwhile])
    # The watermark is two hours behind the last flight.
    closed = [(START + timedelta(hours=hour), float(hour)) for hour in range(33)]
    assert [(at.replace(tzinfo=UTC), delay) for at, delay in found] == closed
