"""The sink for PostgreSQL, on a real server: what PostgreSQL alone does. `test_sql.py` has the rest."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tenure.errors import StorageError
from tenure.sinks.postgres.database import PostgresTable
from tenure.sinks.sink import Written
from tenure.sinks.sql.ledger_rules import Claim
from tenure.sinks.sql.sink import RETRY
from tests.kit.servers import PostgresServer
from tests.spark.sinks.sql_places import OfPostgres, Place, a_place
from tests.spark.sinks.support import a_batch, numbers, write

pytestmark = pytest.mark.spark

SOON = timedelta(seconds=2)


@pytest.fixture
def place(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The server without tables."""
    return a_place(OfPostgres, postgres, monkeypatch)


def test_a_leader_that_died_in_a_long_statement_keeps_nobody_waiting(place: Place, spark: SparkSession) -> None:
    write(place.a_sink(), numbers(spark, [0]), a_batch(0))
    dead = PostgresTable(place.url, "t")
    with suppress(StorageError), dead.connected(limit=SOON) as connection, dead.transaction(connection):
        dead._claim(connection, Claim("flights", "hourly", "q-1", 1, 1))
        connection.pgconn.send_query(b"select pg_sleep(600)")
        line = socket.socket(fileno=os.dup(connection.fileno()))
        line.shutdown(socket.SHUT_RDWR)
        line.close()
        successor = place.a_sink(retry_policy=RETRY)
        assert write(successor, numbers(spark, [1]), replace(a_batch(1, epoch=2), ttl=SOON)) == Written(repeated=False)
    assert place.content() == [(0,), (1,)]


def test_a_server_that_only_reads_is_away(place: Place, spark: SparkSession) -> None:
    """After a failover a name may lead to the server that was demoted for minutes. Five attempts paused the scope."""
    write(place.a_sink(), numbers(spark, [0]), a_batch(0))
    only_reads(place, "on")
    try:
        with pytest.raises(StorageError, match="in a read-only transaction"):
            write(place.a_sink(), numbers(spark, [1]), a_batch(1))
    finally:
        only_reads(place, "off")
    assert write(place.a_sink(), numbers(spark, [1]), a_batch(1)) == Written(repeated=False)
    assert place.content() == [(0,), (1,)]


def only_reads(place: Place, setting: str) -> None:
    with PostgresTable(place.url, "t").connected() as connection:
        database = connection.info.dbname
        connection.execute("set default_transaction_read_only = off")
        connection.execute(f'alter database "{database}" set default_transaction_read_only = {setting}'.encode())


def test_rows_that_the_server_refuses_are_trouble_of_the_query(place: Place, spark: SparkSession) -> None:
    rows = spark.sql("select concat('a', char(0)) as text")
    with pytest.raises(PySparkException, match="invalid byte sequence"):
        write(place.a_sink(), rows, a_batch(0))
    assert place.content() == []


def test_numbers_that_are_none_arrive(place: Place, spark: SparkSession) -> None:
    write(place.a_sink(), spark.sql("select double('-inf') as d"), a_batch(0))
    assert place.content() == [(float("-inf"),)]


def test_a_host_that_is_gone_is_noticed(place: Place) -> None:
    """No packet tells of it. Linux looks after two hours of silence by itself."""
    with place.make().connected() as connection, socket.socket(fileno=os.dup(connection.fileno())) as line:
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 5
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 4
    assert place.make().parameters()["keepalives_idle"] == "10", "a task's connection, too"
    slower = PostgresTable(f"{place.url}{'&' if '?' in place.url else '?'}keepalives_idle=60", "t")
    assert slower.parameters()["keepalives_idle"] == "60"
