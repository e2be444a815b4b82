"""A sink for PostgreSQL that gives up soon, and what is in the database."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from tenure.sinks.postgres.sink import Postgres
from tests.kit.servers import PostgresServer
from tests.spark.sinks.support import QUICK


def a_sink(place: PostgresServer, table: str = "t", **options: Any) -> Postgres:
    sink = Postgres(place.url, table, retry_policy=QUICK, **options)
    sink.check(output_mode="update" if "keys" in options else "append")
    return sink


def content(place: PostgresServer, table: str = "t") -> list[Any]:
    with place.connect() as connection:
        return sorted(connection.execute(sql.SQL("select * from {}").format(sql.Identifier(table))).fetchall())


def tables(place: PostgresServer) -> set[str]:
    with place.connect() as connection:
        return {name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'public'")}
