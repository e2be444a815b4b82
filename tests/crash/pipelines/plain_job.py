"""A job of plain Spark with the queries of `kinds.py`: its own checkpoints, and a sink that notes each batch in the
Delta table under Spark's id of the query, as delta-spark does; or delta-spark itself.

`python -m tests.crash.pipelines.plain_job CHECKPOINTS OUTPUT STREAMS NAME=VALUE...`: settings of Spark, parameters with
the prefix `param.`, and `sink=delta-spark`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from tests.crash.pipelines.kinds import kinds


class PlainJob:
    """Stands where a Job stands, and starts each stream at once, on Spark alone."""

    def __init__(self, spark: SparkSession, checkpoints: str, output: str, params: dict[str, str]) -> None:
        self.spark = spark
        self.params = {**params, "output": output}
        self._checkpoints, self._output = checkpoints, output
        self._by_spark = params.get("sink") == "delta-spark"

    def stream(self, name: str, rows: DataFrame, *, sink: Any, output_mode: str = "append", trigger: str) -> None:
        """`sink` is not used."""
        checkpoint, table = f"{self._checkpoints}/{name}", f"{self._output}/{name}"

        def put(batch: DataFrame, number: int) -> None:
            query_id = json.loads(Path(checkpoint, "metadata").read_text())["id"]
            arrow = batch.toArrow()  # before Spark 4.3, a count is not nullable there, and so NOT NULL in the table
            arrow = arrow.cast(pa.schema([column.with_nullable(True) for column in arrow.schema]))
            if DeltaTable.is_deltatable(table):
                noted = DeltaTable(table).transaction_version(query_id)
                if noted is not None and noted >= number:
                    return
            once = CommitProperties(app_transactions=[Transaction(query_id, number)])
            write_deltalake(table, arrow, mode="append", commit_properties=once)

        writer = rows.writeStream.queryName(name).outputMode(output_mode).trigger(processingTime=trigger)
        writer = writer.option("checkpointLocation", checkpoint)
        if self._by_spark:
            writer.format("delta").start(table)
        else:
            writer.foreachBatch(put).start()


def main(checkpoints: str, output: str, streams: str, *settings: str) -> None:
    """Run until it is killed."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    params = {"only": streams}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name.startswith("param.") or name == "sink":
            params[name.removeprefix("param.")] = value
        else:
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    kinds.declare(cast(Any, PlainJob(spark, checkpoints, output, params)))
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
