"""The databases of the sinks for databases, with one set of words for both: sinks that give up soon, and what is in
the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any, ClassVar, Final

import pytest

from tenure.sinks.mysql.database import MySqlTable
from tenure.sinks.mysql.sink import MySQL
from tenure.sinks.postgres.database import PostgresTable
from tenure.sinks.postgres.sink import Postgres
from tenure.sinks.sql.sink import SqlSink
from tenure.sinks.sql.table import SqlTable
from tests.kit.servers import mariadb, postgres
from tests.spark.sinks.support import QUICK


class Place(ABC):
    """A database on a real server."""

    sink: ClassVar[type[SqlSink]]
    table: ClassVar[type[SqlTable]]
    environment: ClassVar[Mapping[str, str]]
    schema: ClassVar[str]
    client: ClassVar[str]
    """The module of the client, whose `connect` and `OperationalError` tests replace and catch."""
    nowhere: ClassVar[str]
    """The URL of a port without a server."""
    thrown_out: ClassVar[str]
    """In the words of a server to a client that was silent in a transaction."""
    waiting: ClassVar[str]
    """The statement that counts who waits for a lock."""
    numbered: ClassVar[str]
    """What makes a column the key that the server gives."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.url: Final[str] = server.url

    @abstractmethod
    def run(self, statement: str, rows: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """Execute a statement, for each of the rows if there are some; return its rows."""

    @abstractmethod
    def empty(self) -> None:
        """Drop all tables."""

    @abstractmethod
    def tables(self) -> set[str]:
        """The names of all tables."""

    @abstractmethod
    def zoned(self, value: Any) -> Any:
        """A timestamp of Spark, as the table has it, with its zone."""

    def make(self, table: str = "t") -> Any:
        """The part of a sink that is its table."""
        return self.table(self.url, table)  # type: ignore[call-arg] # each has this constructor

    def a_sink(self, table: str = "t", **options: Any) -> SqlSink:
        sink = self.sink(self.url, table, **{"retry_policy": QUICK, **options})
        sink.check(output_mode="update" if "keys" in options else "append")
        return sink

    def content(self, table: str = "t") -> list[Any]:
        return sorted(map(tuple, self.run(f"select * from {self.quoted(table)}")))

    def quoted(self, name: str) -> str:
        quote = self.table.quote
        return f"{quote}{name}{quote}"


class OfPostgres(Place):
    sink, table, environment = Postgres, PostgresTable, postgres.environment()
    schema, client, nowhere = "public", "psycopg", "postgresql://tenure@127.0.0.1:1/postgres"
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    thrown_out, numbered = "idle-in-transaction", "generated always as identity primary key"

    def run(self, statement: str, rows: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        with self.server.connect() as connection, connection.cursor() as cursor:
            if rows is None:
                cursor.execute(statement.encode())
            else:
                cursor.executemany(statement.encode(), rows)
            return list(cursor.fetchall()) if cursor.description else []

    def empty(self) -> None:
        self.run("drop schema public cascade")
        self.run("create schema public")

    def zoned(self, value: Any) -> Any:
        return value

    def tables(self) -> set[str]:
        return {name for (name,) in self.run("select tablename from pg_tables where schemaname = 'public'")}


class OfMariaDb(Place):
    sink, table, environment = MySQL, MySqlTable, mariadb.environment()
    schema, client, nowhere = mariadb.DATABASE, "pymysql", f"mysql://tenure@127.0.0.1:1/{mariadb.DATABASE}"
    waiting = "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'"
    thrown_out, numbered = "gone away|Lost connection", "auto_increment primary key"

    def run(self, statement: str, rows: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        with self.server.connect() as connection, connection.cursor() as cursor:
            if rows is None:
                cursor.execute(statement)
            else:
                cursor.executemany(statement, rows)
            return list(cursor.fetchall())

    def empty(self) -> None:
        self.run(f"drop database {self.schema}")
        with self.server.connect(database="mysql") as connection, connection.cursor() as cursor:
            cursor.execute(f"create database {self.schema}")

    def zoned(self, value: Any) -> Any:
        return value.replace(tzinfo=UTC)

    def tables(self) -> set[str]:
        return {name for (name,) in self.run("show tables")}


def a_place(kind: type[Place], server: Any, patch: pytest.MonkeyPatch) -> Place:
    """A server without tables, whose password is in the environment."""
    for name, value in kind.environment.items():
        patch.setenv(name, value)
    place = kind(server)
    place.empty()
    return place


PLACES: Final[Mapping[str, type[Place]]] = {"postgres": OfPostgres, "mariadb": OfMariaDb}
"""The fixture of a server -> its words."""
