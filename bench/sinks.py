"""How fast a batch gets into plain files: the sink `Files` in both layouts, beside Spark's own file sink.

Three queries over the same rows in one session, fed one file at a time, in turns. The figure of a batch is Spark's own
`triggerExecution`, in seconds; there is no term, so nothing waits for a plan. Rows a second and the raw figures go to
`build/bench/sinks.json`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.harness import compare, report
from tenure.event import Events
from tenure.sinks import Batch, Files
from tenure.spark.session import end_session, start_session
from tests.kit.waiting import wait_until

WARM_UP: Final = 5


class Side:
    """A query into one target."""

    def __init__(self, spark: SparkSession, name: str, folder: Path, *, rows: int) -> None:
        self._name = name
        self._input = folder / name / "input"
        self._input.mkdir(parents=True)
        self._rows = rows
        self._files = 0
        source = spark.readStream.schema("id long, key long, word string").parquet(str(self._input))
        writer = source.writeStream.option("checkpointLocation", str(folder / name / "checkpoint"))
        output = str(folder / name / "output")
        if name == "spark":
            self._query: StreamingQuery = writer.format("parquet").start(output)
        else:
            self._query = writer.foreachBatch(
                _into(Files(output, layout="folders" if name == "folders" else "log"))
            ).start()

    def one_batch(self) -> float:
        """Feed one file, wait for its batch, return Spark's figure for it."""
        first = self._files * self._rows
        ids = range(first, first + self._rows)
        table = pa.table({"id": ids, "key": [i % 1000 for i in ids], "word": [f"word {i}" for i in ids]})
        hidden = self._input / f".{self._files:06d}.parquet"
        pq.write_table(table, hidden, row_group_size=self._rows // 4)
        hidden.rename(self._input / f"{self._files:06d}.parquet")
        self._files += 1
        number = self._files - 1
        found = wait_until(lambda: self._batch(number), what=f"batch {number} of {self._name}")
        assert found is not None
        return found

    def _batch(self, number: int) -> float | None:
        for progress in self._query.recentProgress[-3:]:
            if progress["batchId"] == number and progress["numInputRows"]:
                return float(progress["durationMs"]["triggerExecution"]) / 1000
        return None

    def close(self) -> None:
        """End the query."""
        self._query.stop()


def _into(sink: Files) -> Callable[[DataFrame, int], None]:
    sink.check(output_mode="append")

    def write(rows: DataFrame, number: int) -> None:
        sink.write(rows, Batch("bench", "q", "id", number, 1), planned=lambda: None, events=Events.nobody)

    return write


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=500_000)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    spark = start_session(name="sinks", master="local[2]", conf={}, log=str(folder / "spark.log"))
    try:
        sides = {name: Side(spark, name, folder, rows=arguments.rows) for name in ("spark", "log", "folders")}
        turns = {name: side.one_batch for name, side in sides.items()}
        report(compare("sinks", turns, rounds=arguments.rounds, warmup=WARM_UP))
        for side in sides.values():
            side.close()
    finally:
        end_session(spark, patience_s=30)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
