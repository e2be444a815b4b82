"""The databases of the sinks for databases, with one set of words for both: sinks that give up soon, and what is in
the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any, ClassVar, Final
from unittest.mock import patch

import pytest
from pymysql.constants import COMMAND

from tenure.sinks.mysql.database import MySqlTable
from tenure.sinks.mysql.sink import MySQL
from tenure.sinks.postgres.database import PostgresTable
from tenure.sinks.postgres.sink import Postgres
from tenure.sinks.sql.ledger_rules import LEDGER
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
    keeps_staged: ClassVar[bool]
    """Whether staged rows outlive the death of the server."""
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

    @abstractmethod
    def send_commit(self, connection: Any) -> None:
        """Send the commit, and read no answer."""

    @contextmanager
    def killed_in_commit(self) -> Iterator[None]:
        """The server is killed when the commit of a transaction is on its way."""
        transaction = self.table.transaction

        @contextmanager
        def doomed(table: Any, connection: Any) -> Iterator[None]:
            with transaction(table, connection):
                yield
                self.send_commit(connection)
                self.server.nodes[0].kill()

        with patch.object(self.table, "transaction", doomed):
            yield

    @abstractmethod
    def kill(self, connection: Any) -> None:
        """End a connection, on the server."""

    def content(self, table: str = "t") -> list[Any]:
        return sorted(map(tuple, self.run(f"select * from {self.quoted(table)}")))

    def quoted(self, name: str) -> str:
        quote = self.table.quote
        return f"{quote}{name}{quote}"


class OfPostgres(Place):
    sink, table, environment = Postgres, PostgresTable, postgres.environment()
    schema, client, nowhere = "public", "psycopg", "postgresql://tenure@127.0.0.1:1/postgres"
    keeps_staged = False
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

    def send_commit(self, connection: Any) -> None:
        connection.pgconn.send_query(b"commit")

    def kill(self, connection: Any) -> None:
        self.run(f"select pg_terminate_backend({connection.info.backend_pid}, 10000)")

    def tables(self) -> set[str]:
        return {name for (name,) in self.run("select tablename from pg_tables where schemaname = 'public'")}


class OfMariaDb(Place):
    sink, table, environment = MySQL, MySqlTable, mariadb.environment()
    schema, client, nowhere = mariadb.DATABASE, "pymysql", f"mysql://tenure@127.0.0.1:1/{mariadb.DATABASE}"
    keeps_staged = True
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

    def send_commit(self, connection: Any) -> None:
        connection._execute_command(COMMAND.COM_QUERY, b"commit")

    def kill(self, connection: Any) -> None:
        self.run(f"kill {connection.thread_id()}")

    def tables(self) -> set[str]:
        return {name for (name,) in self.run("show tables")}


def a_place(kind: type[Place], server: Any, patch: pytest.MonkeyPatch) -> Place:
    """A server without tables, whose password is in the environment."""
    for name, value in kind.environment.items():
        patch.setenv(name, value)
    place = kind(server)
    place.empty()
    return place


@contextmanager
def struck(place: Place, step: int, blow: Callable[[Any], object]) -> Iterator[None]:
    """`blow` meets the connection of the first transaction that moves rows, before the statement with this number: the
    first one is the ledger's or, in MySQL, the beginning; the last one drops the staging table."""
    execute, seen = place.table.execute, list[tuple[object, str]]()

    def of_victim(self: Any, connection: Any, text: str, values: Any = ()) -> Any:
        if (not seen and (text == "begin" or LEDGER in text)) or (seen and seen[0][0] is connection):
            seen.append((connection, text))
            if len(seen) == step + 1:
                blow(connection)
        return execute(self, connection, text, values)

    with patch.object(place.table, "execute", of_victim):
        yield


PLACES: Final[Mapping[str, type[Place]]] = {"postgres": OfPostgres, "mariadb": OfMariaDb}
"""The fixture of a server -> its words."""
