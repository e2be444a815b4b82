"""The rate source in a seed: what comes out depends on the time at which the query began, kept in `sources/0/0`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.source import RATE
from tenure.errors import CorruptRunDirectory
from tenure.rundirs.run_directory import latest_commit, read_offsets
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.spark.releases import before
from tests.kit.waiting import NEVER_S
from tests.spark.recorded_runs import STATE_STORE, Rows, as_rows, copy_of, end, moved_away, remove, settings

pytestmark = pytest.mark.spark

ROWS_A_SECOND = 20
BATCH = 5
FORMATS = [pytest.param("1", marks=pytest.mark.long), "2"]


def start(spark: SparkSession, directory: Path, output: Rows) -> StreamingQuery:
    """Count the source's rows by second; a second comes out once, when it is over."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", ROWS_A_SECOND).load()
    seconds = rows.withWatermark("timestamp", "0 seconds").groupBy(sf.window("timestamp", "1 second"))
    counted = seconds.agg(sf.count("*").alias("n"), sf.min("value").alias("first"))
    writer = counted.select("window.start", "n", "first").writeStream.outputMode("append")
    writer = writer.option("checkpointLocation", str(directory))
    return writer.foreachBatch(lambda rows, batch: output.__setitem__(batch, as_rows(rows))).start()


def run_until(spark: SparkSession, directory: Path, format_: str, *, batch: int) -> Rows:
    """Run until `batch` is committed."""
    output: Rows = {}
    with settings(spark, {f"{STATE_STORE}.checkpointFormatVersion": format_}):
        query = start(spark, directory, output)
        try:
            deadline = time.monotonic() + NEVER_S
            while (latest_commit(str(directory)) or 0) < batch:
                assert time.monotonic() < deadline, f"batch {batch} was not committed in {NEVER_S} s"
                query.awaitTermination(1)
        finally:
            end(spark, query)
    return {number: rows for number, rows in output.items() if rows}


@pytest.fixture(scope="module")
def record(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Rows]]:
    """A run directory and what came out of it, by format; each run is made once, when it is first asked for."""

    @cache
    def once(format_: str) -> tuple[Path, Rows]:
        directory = tmp_path_factory.mktemp("rate") / "run"
        return directory, run_until(spark, directory, format_, batch=BATCH + 2)

    return once


@pytest.mark.parametrize("committed", [False, True], ids=["planned", "committed"])
@pytest.mark.parametrize("format_", FORMATS)
def test_goes_on_in_a_seed(
    spark: SparkSession, record: Callable[[str], tuple[Path, Rows]], tmp_path: Path, format_: str, committed: bool
) -> None:
    directory, before = record(format_)
    target = tmp_path / "seed"
    seed(str(directory), str(target), SeedPoint(BATCH, read_offsets(str(directory), BATCH), committed=committed))
    with moved_away(directory):
        after = run_until(spark, target, format_, batch=BATCH + 4)
    first = BATCH + 1 if committed else BATCH
    assert min(after) >= first
    if not committed:
        assert after.get(BATCH) == before.get(BATCH)
    rows = [row for batch, found in before.items() if batch < first for row in found]
    rows += [row for found in after.values() for row in found]
    rows.sort()
    assert len(rows) >= 4
    assert all(later[0] - earlier[0] == timedelta(seconds=1) for earlier, later in pairwise(rows))
    assert [row[1] for row in rows[1:]] == [ROWS_A_SECOND] * (len(rows) - 1)
    assert all(later[2] - earlier[2] == earlier[1] for earlier, later in pairwise(rows))


@pytest.mark.parametrize("committed", [False, True], ids=["planned", "committed"])
def test_the_start_time_left_out(
    spark: SparkSession, record: Callable[[str], tuple[Path, Rows]], tmp_path: Path, committed: bool
) -> None:
    directory, _ = record("2")
    offsets = read_offsets(str(directory), BATCH)
    target = tmp_path / "seed"
    seed(str(directory), str(target), SeedPoint(BATCH, offsets, committed=committed))
    began = (directory / "sources/0/0").read_text()
    remove(target, "sources/0/0")
    if committed:
        with pytest.raises(StreamingQueryException, match="INTERNAL_ERROR" if before("4.0") else "startSeconds"):
            run_until(spark, target, "2", batch=BATCH + 1)
    else:
        # Silent in Spark, and wrong: the source begins anew, all times of its rows shift. The batch after it is refused
        # (startSeconds) when it comes before the new clock has caught up, which may be before the query is stopped.
        with suppress(StreamingQueryException):
            run_until(spark, target, "2", batch=BATCH)
        assert (target / f"commits/{BATCH}").exists()
        assert (target / "sources/0/0").read_text() != began

    source = copy_of(directory, tmp_path / "source")
    remove(source, "sources/0/0")
    with pytest.raises(CorruptRunDirectory, match="sources/0/0 is missing"):
        seed(str(source), str(tmp_path / "again"), SeedPoint(BATCH, offsets, committed=committed, kinds={"0": RATE}))
