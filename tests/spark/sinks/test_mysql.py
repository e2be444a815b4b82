"""The sink for MySQL, on a real MariaDB: what it does to values, keys and transactions, unlike PostgreSQL.
`test_sql.py` has the rest."""

from __future__ import annotations

import socket
from contextlib import suppress
from datetime import timedelta
from unittest.mock import patch

import pymysql
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tenure.errors import QueryFailed, StorageError, TenureError, UsageError
from tenure.sinks.mysql import inserting
from tenure.sinks.mysql.database import MySqlTable
from tenure.sinks.sink import Written
from tenure.sinks.sql.ledger_rules import Claim, Staged
from tests.kit.servers import MariaDbServer
from tests.spark.sinks.sql_places import OfMariaDb, Place, a_place
from tests.spark.sinks.support import a_batch, numbers, totals, write

pytestmark = pytest.mark.spark

SOON = timedelta(seconds=2)
COLUMNS = {"n": "bigint"}


@pytest.fixture
def place(mariadb: MariaDbServer, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The server without tables."""
    return a_place(OfMariaDb, mariadb, monkeypatch)


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "rows", "line"),
    [
        ("v varchar(3)", "'abcd' as v", "Data too long for column 'v'"),
        ("v varchar(3)", "'abc ' as v", "would change a value: Data truncated for column 'v'"),
        ("v decimal(5,1)", "cast(1.26 as decimal(9,2)) as v", "would change a value: Data truncated"),
        ("v int unsigned", "-1 as v", "Out of range value for column 'v'"),
        ("v smallint", "70000 as v", "Out of range value for column 'v'"),
        ("v varchar(9) character set latin1", "'→' as v", "Incorrect string value"),
        ("v int not null", "cast(null as int) as v", "cannot be null"),
        ("v int, check (v < 5)", "7 as v", "CONSTRAINT"),
    ],
)
def test_a_value_that_would_not_stay_as_it_is_fails_the_batch(
    place: Place, spark: SparkSession, made: str, rows: str, line: str
) -> None:
    place.run("set global sql_mode = ''")
    place.run(f"create table t ({made})")
    with pytest.raises(QueryFailed, match=line):
        write(place.a_sink(), spark.sql(f"select {rows}"), a_batch(0))
    assert place.content() == []


@pytest.mark.parametrize("value", ["double('nan')", "float('inf')", "-double('inf')"])
def test_a_number_that_mysql_lacks_fails_the_batch_by_name(place: Place, spark: SparkSession, value: str) -> None:
    with pytest.raises(PySparkException, match="column 'odd' has NaN or an infinity"):
        write(place.a_sink(), spark.sql(f"select {value} as odd"), a_batch(0))
    assert place.content() == []


def test_a_zero_stays_a_zero_and_each_float_keeps_its_digits(place: Place, spark: SparkSession) -> None:
    """A server may take 0 for the next number of a key, and show six digits of a float."""
    place.run("create table t (id bigint auto_increment primary key, f double)")
    write(place.a_sink(), spark.sql("select 0L as id, cast(16777215 as float) as f"), a_batch(0))
    assert place.content() == [(0, 16777215.0)]


def test_a_row_that_is_longer_than_a_packet_fails_the_batch_by_its_bytes(place: Place, spark: SparkSession) -> None:
    """The server would end the connection, as if it were away."""
    rows = spark.sql("select repeat('x', 17000000) as text")
    with pytest.raises(PySparkException, match=r"a row has 170000\d\d bytes, and max_allowed_packet"):
        write(place.a_sink(), rows, a_batch(0))


def test_many_rows_arrive_in_several_statements(place: Place, spark: SparkSession) -> None:
    rows = spark.sql("select id as n, repeat('x', 300) as text from range(20000)")
    write(place.a_sink(), rows, a_batch(0))
    assert place.run("select count(*), sum(n), min(length(text)) from t") == [(20000, 199990000, 300)]


def test_a_local_time_does_not_move_with_the_zone_of_the_server(place: Place, spark: SparkSession) -> None:
    place.run("create table t (at timestamp(6) null)")
    place.run("set global time_zone = '+05:00'")
    try:
        write(place.a_sink(), spark.sql("select timestamp'2026-01-02 03:04:05 UTC' as at"), a_batch(0))
    finally:
        place.run("set global time_zone = 'SYSTEM'")
    assert place.run("select unix_timestamp(at) from t") == [(1767323045,)]


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_that_differ_in_case_or_in_spaces_are_two_keys(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink(mode="upsert", keys=["k"])
    write(sink, totals(spark, {"a": 1, "A": 2, "a ": 3, "ä": 4}), a_batch(0))
    write(sink, totals(spark, {"a ": 5}), a_batch(1))
    assert place.content() == [("A", 2), ("a", 1), ("a ", 5), ("ä", 4)]


@pytest.mark.parametrize(
    ("made", "line"),
    [
        ("k varchar(9) primary key, n bigint", "has the collation utf8mb4_general_ci"),
        ("k varchar(9) collate utf8mb4_bin primary key, n bigint", "has the collation utf8mb4_bin"),
        ("k char(9) collate utf8mb4_nopad_bin primary key, n bigint", "is char, which rounds or pads"),
        ("k varchar(9) collate utf8mb4_nopad_bin, n bigint, unique (k(3))", "has no unique index over exactly k"),
        ("k varchar(9) collate utf8mb4_nopad_bin primary key, n bigint unique", "has the unique index 'n'"),
        ("k varchar(9) collate utf8mb4_nopad_bin primary key, n bigint, unique (k, n)", ""),
        ("i int auto_increment primary key, k varchar(9) collate utf8mb4_nopad_bin unique, n bigint", ""),
    ],
)
def test_a_table_that_would_take_two_keys_for_one_is_refused(
    place: Place, spark: SparkSession, made: str, line: str
) -> None:
    place.run(f"create table t ({made}) default character set utf8mb4 collate utf8mb4_general_ci")
    sink, rows = place.a_sink(mode="upsert", keys=["k"]), totals(spark, {"a": 1, "b": 1})
    if line:
        with pytest.raises(UsageError, match=line):
            sink.check_rows(rows)
    else:
        sink.check_rows(rows)
        for number in range(2):
            assert write(sink, rows, a_batch(number)) == Written(repeated=False)
        assert sorted(place.run("select k, n from t")) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize(
    ("made", "rows", "line"),
    [
        ("v datetime", "timestamp'2026-01-01 00:00:00.7' as v", r"is datetime\(0\), which rounds datetime\(6\)"),
        ("v date", "timestamp'2026-01-01 00:00:00.7' as v", "is date, which rounds"),
        ("v int", "1.5D as v", "is int, which rounds double"),
        ("v int", "1.5 as v", "is int, which rounds decimal"),
        ("v int", "1 as v, 2 as V", "columns 'v' and 'V' are one name"),
        ("v int) engine=MyISAM comment=('')", "1 as v", "t is MyISAM, which has no transactions"),
    ],
)
def test_a_table_that_rounds_or_has_no_transactions_is_refused(
    place: Place, spark: SparkSession, made: str, rows: str, line: str
) -> None:
    place.run(f"create table t ({made})".replace(" comment=(''))", ""))
    case = spark.conf.get("spark.sql.caseSensitive")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(UsageError, match=line):
            place.a_sink().check_rows(spark.sql(f"select {rows}"))
    finally:
        spark.conf.set("spark.sql.caseSensitive", str(case))


def test_a_ledger_without_transactions_is_refused(place: Place, spark: SparkSession) -> None:
    write(place.a_sink(), numbers(spark, [1]), a_batch(0))
    place.run("alter table tenure_ledger engine=Aria")
    with pytest.raises(UsageError, match="tenure_ledger is Aria, which has no transactions"):
        write(place.a_sink(), numbers(spark, [2]), a_batch(1))
    assert place.content() == [(1,)]


# --- transactions ----------------------------------------------------------------------------------------------------


def staged_row(place: Place) -> MySqlTable:
    """A staging table `s` with a row."""
    database: MySqlTable = place.make()
    database.make(COLUMNS, keys=())
    database.make_staging("s", COLUMNS, limit=SOON)
    place.run("insert into s (n, tenure_partition, tenure_attempt) values (1, 0, 7)")
    return database


def moved(database: MySqlTable, *, sent: bool = False) -> bool:
    claim = Claim("s", "q", "q-1", 0, 1, sent)
    return database.move(claim, Staged("s", [(0, 7)], 1), COLUMNS, keys=(), limit=SOON)


def test_two_leaders_that_begin_a_ledger_at_once_wait_for_each_other(place: Place) -> None:
    """A lock on a row that is not there would be a lock of a gap, by which both would fail."""
    first, second = staged_row(place), place.make()
    with first.connected(limit=timedelta(minutes=1)) as connection, first.transaction(connection):
        assert first._claim(connection, Claim("s", "q", "q-1", 0, 1)).moves
        with pytest.raises(StorageError, match="Lock wait timeout"):
            moved(second)
    assert place.content() == []


def test_a_lock_that_was_waited_for_in_vain_leaves_nothing_behind(place: Place) -> None:
    """MySQL rolls back the statement alone, and the transaction would go on."""
    database = staged_row(place)
    place.run("create table other (n int)")
    place.run("create trigger t_waits before insert on t for each row update other set n = 1")
    place.run("insert into other values (0)")
    with place.server.connect() as holder, holder.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("update other set n = 2")
        with pytest.raises(StorageError, match="Lock wait timeout"):
            moved(database)
        cursor.execute("rollback")
    assert place.content() == place.content("tenure_ledger") == []
    assert moved(database) is False


def test_a_drop_that_has_to_wait_does_not_hide_the_commit(place: Place) -> None:
    """A task of a dead executor may still write into the staging table."""
    database = staged_row(place)
    with place.server.connect() as late, late.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("insert into s (n) values (9)")
        with pytest.raises(StorageError, match="Lock wait timeout"):
            moved(database)
        cursor.execute("rollback")
    assert place.content() == [(1,)]
    assert moved(database, sent=True) is False
    assert place.content() == [(1,)]


@pytest.mark.parametrize(
    ("number", "kind"), [(1213, StorageError), (1290, StorageError), (1366, QueryFailed), (1142, QueryFailed)]
)
def test_an_error_whose_cause_passes_is_trouble_of_the_storage(
    place: Place, number: int, kind: type[TenureError]
) -> None:
    database = place.make()
    with pytest.raises(kind, match="in words"), database.connected():
        raise pymysql.err.OperationalError(number, "in words")


@pytest.mark.parametrize("right", ["create", "drop", "select", "insert", "update"])
def test_a_doctor_asks_for_each_right_and_writes_nothing(place: Place, right: str) -> None:
    rest = {"create", "drop", "select", "insert", "update"} - {right}
    place.run("create or replace user reader@'%' identified by 'x'")
    place.run(f"grant {', '.join(rest)} on {place.schema}.* to reader@'%'")
    with patch.dict("os.environ", {"MYSQL_PWD": "x"}):
        sink = place.sink(place.url.replace("tenure@", "reader@"), "t")
        with pytest.raises(UsageError, match=f"user 'reader' has no right to {right} in 'outputs'"):
            sink.ask()
        place.run(f"grant {right} on {place.schema}.* to reader@'%'")
        sink.ask()
    assert place.tables() == set()


def test_warnings_of_a_task_fail_it(place: Place) -> None:
    with place.server.connect() as connection, connection.cursor() as cursor, suppress(pymysql.Error):
        cursor.execute("set sql_mode = ''")
        cursor.execute("create table w (v varchar(1))")
        cursor.execute("insert into w values ('long')")
        with pytest.raises(ValueError, match="MySQL would change a value: Data truncated"):
            inserting.refuse_warnings(cursor)


# --- the line to the server ------------------------------------------------------------------------------------------


def test_a_host_that_is_gone_is_noticed_and_a_statement_has_no_limit(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No packet tells of it. Linux looks after two hours of silence by itself."""
    monkeypatch.setattr(inserting, "GREETED_S", 1)
    with place.make().connected() as connection:
        line = connection._sock
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 5
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 4
        assert place.make().execute(connection, "select sleep(2)").fetchall() == ((0,),)


def test_a_server_that_takes_connections_and_says_nothing_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inserting, "GREETED_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        table = MySqlTable(f"mysql://u@127.0.0.1:{port}/d", "t")
        with pytest.raises(StorageError, match="timed out"), table.connected():
            pass
