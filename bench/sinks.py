"""How fast a batch gets into its target, beside Spark's own sink of that kind: plain files in both layouts, a topic of
Kafka, a table of Delta Lake, a table of Iceberg.

`--into` chooses the kind. Queries over the same rows in one session, fed one file at a time, in turns. The figure of a
batch is Spark's own `triggerExecution`, in seconds; there is no term, so nothing waits for a plan. Spark has
sinks of its own for Delta Lake up to release 4.2, and for Iceberg up to 4.1: `SPARK=4.1`. Its sink for Kafka writes no
transaction: a batch that runs again is there twice. The raw figures go to `build/bench/sinks_KIND.json`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench.harness import compare, report
from tenure.event import Events
from tenure.sinks import Batch, Delta, Files, Iceberg, Kafka
from tenure.sinks.sink import Sink
from tenure.spark.session import end_session, start_session
from tenure.spark.submit import read_submit
from tests.kit.servers import KafkaServer
from tests.kit.waiting import wait_until

WARM_UP: Final = 5
LAKE: Final = "lake"
"""The catalog of Iceberg's own runtime."""

Start = Callable[[DataStreamWriter], StreamingQuery]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is compared. `sides`: called once, with a session; name -> how a query is started, Spark's own first."""

    sides: Callable[[SparkSession], Mapping[str, Start]]
    columns: tuple[str, ...] = ("id", "key", "word")
    connectors: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


def files(folder: Path) -> Kind:
    """Plain files."""
    own, log, folders = (str(folder / name / "output") for name in ("spark", "log", "folders"))
    return Kind(
        lambda _: {
            "spark": lambda writer: writer.format("parquet").start(own),
            "log": lambda writer: _into(writer, Files(log)),
            "folders": lambda writer: _into(writer, Files(folders, layout="folders")),
        }
    )


def kafka(folder: Path, server: KafkaServer) -> Kind:
    """A topic with two partitions for each side."""

    def sides(_: SparkSession) -> Mapping[str, Start]:
        for name in ("spark", "tenure"):
            server.make_topic(name, partitions=2)
        own = {"kafka.bootstrap.servers": server.address, "topic": "spark"}
        sink, scratch = Kafka(server.address, "tenure"), f"file://{folder / 'scratch'}"
        return {
            "spark": lambda writer: writer.format("kafka").options(**own).start(),
            "tenure": lambda writer: _into(writer, sink, scratch=scratch),
        }

    return Kind(sides, columns=("word as value",), connectors=("kafka",))


def delta(folder: Path) -> Kind:
    """A table of Delta Lake for each side."""
    own, ours = (str(folder / name / "output") for name in ("spark", "tenure"))
    return Kind(
        lambda _: {
            "spark": lambda writer: writer.format("delta").start(own),
            "tenure": lambda writer: _into(writer, Delta(ours)),
        },
        connectors=("delta",),
        conf={"spark.databricks.delta.snapshotPartitions": "2", "spark.sql.shuffle.partitions": "2"},  # 50 and 200
    )


def iceberg(folder: Path) -> Kind:
    """A table of Iceberg for each side: Iceberg's runtime with a catalog in a folder, Tenure with one in SQLite."""
    catalog, table = f"spark.sql.catalog.{LAKE}", f"{LAKE}.bench.output"
    own, ours = (folder / name / "warehouse" for name in ("spark", "tenure"))

    def sides(spark: SparkSession) -> Mapping[str, Start]:
        spark.sql(f"create table {table} (id long, key long, word string) using iceberg")
        ours.mkdir(parents=True)
        properties = {"type": "sql", "uri": f"sqlite:///{ours}/catalog.db", "warehouse": f"file://{ours}"}
        load_catalog(LAKE, **properties).create_namespace("bench")
        return {
            "spark": lambda writer: writer.format("iceberg").toTable(table),
            "tenure": lambda writer: _into(writer, Iceberg("bench.output", catalog=LAKE, properties=properties)),
        }

    conf = {catalog: "org.apache.iceberg.spark.SparkCatalog", f"{catalog}.type": "hadoop"}
    return Kind(sides, connectors=("iceberg",), conf={**conf, f"{catalog}.warehouse": str(own)})


@contextmanager
def kind_of(name: str, folder: Path) -> Iterator[Kind]:
    """The kind of this name, with its server."""
    if name == "kafka":
        with KafkaServer(folder / "broker") as server:
            yield kafka(folder, server)
    else:
        yield {"files": files, "delta": delta, "iceberg": iceberg}[name](folder)


class Side:
    """A query into one target."""

    def __init__(
        self, spark: SparkSession, name: str, folder: Path, start: Start, *, columns: tuple[str, ...], rows: int
    ) -> None:
        self._name = name
        self._input = folder / name / "input"
        self._input.mkdir(parents=True)
        self._rows = rows
        self._files = 0
        source = spark.readStream.schema("id long, key long, word string").parquet(str(self._input))
        writer = source.selectExpr(*columns).writeStream
        self._query = start(writer.option("checkpointLocation", str(folder / name / "checkpoint")))

    def one_batch(self) -> float:
        """Feed one file, wait for its batch, return Spark's figure for it."""
        first = self._files * self._rows
        ids = range(first, first + self._rows)
        table = pa.table({"id": ids, "key": [i % 1000 for i in ids], "word": [f"word {i:>95}" for i in ids]})
        hidden = self._input / f".{self._files:06d}.parquet"
        pq.write_table(table, hidden, row_group_size=self._rows // 4)
        hidden.rename(self._input / f"{self._files:06d}.parquet")
        self._files += 1
        number = self._files - 1
        found = wait_until(lambda: self._batch(number), what=f"batch {number} of {self._name}")
        assert found is not None
        return found

    def _batch(self, number: int) -> float | None:
        if not self._query.isActive:
            raise RuntimeError(f"the query {self._name} has failed: see its log") from self._query.exception()
        for progress in self._query.recentProgress[-3:]:
            if progress["batchId"] == number and progress["numInputRows"]:
                return float(progress["durationMs"]["triggerExecution"]) / 1000
        return None

    def close(self) -> None:
        """End the query."""
        self._query.stop()


def _into(writer: DataStreamWriter, sink: Sink, *, scratch: str = "") -> StreamingQuery:
    sink.check(output_mode="append")

    def write(rows: DataFrame, number: int) -> None:
        batch = Batch("bench", "q", "id", number, 1, scratch=f"{scratch}/{number}" if scratch else "")
        sink.write(rows, batch, planned=lambda: None, events=Events.nobody)

    return writer.foreachBatch(write).start()


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--into", choices=("files", "kafka", "delta", "iceberg"), default="files")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=500_000)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        with kind_of(arguments.into, folder) as kind:
            submit = read_submit(None, connectors=kind.connectors, conf={})
            log = str(folder / "spark.log")
            spark = start_session(name="sinks", master="local[2]", conf=kind.conf, log=log, submit=submit)
            try:
                sides = {
                    name: Side(spark, name, folder, start, columns=kind.columns, rows=arguments.rows)
                    for name, start in kind.sides(spark).items()
                }
                turns = {name: side.one_batch for name, side in sides.items()}
                report(compare(f"sinks_{arguments.into}", turns, rounds=arguments.rounds, warmup=WARM_UP))
                for side in sides.values():
                    side.close()
            finally:
                end_session(spark, patience_s=30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
