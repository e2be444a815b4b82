"""The sinks for databases, on real servers: each batch once, zombies refused by the database, nobody kept waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession

from tenure.clock import SystemClock
from tenure.errors import Fenced, QueryFailed, StorageError
from tenure.retry import retry
from tenure.sinks.sink import Attempts, Written
from tenure.sinks.sql.ledger_rules import Claim, Staged
from tenure.sinks.sql.sink import RETRY
from tenure.sinks.sql.staged_tables import staging_name
from tenure.sinks.sql.table import SqlTable
from tests.kit.waiting import NEVER_S, wait_until
from tests.spark.sinks.sql_places import Place, struck
from tests.spark.sinks.support import QUICK, Paused, a_batch, numbers, totals, write

pytestmark = pytest.mark.spark

SOON = timedelta(seconds=2)


def test_each_batch_is_added_once(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink()
    assert write(sink, numbers(spark, [1, 2]), a_batch(0)) == Written(repeated=False)
    assert write(sink, numbers(spark, [3]), a_batch(1)) == Written(repeated=False)
    assert write(place.a_sink(), numbers(spark, [3]), a_batch(1, epoch=2)) == Written(repeated=True)
    assert write(sink, numbers(spark, []), a_batch(2, epoch=2)) == Written(repeated=False)
    assert place.content() == [(1,), (2,), (3,)]
    assert place.tables() == {"t", "tenure_ledger"}


def test_a_row_replaces_the_row_with_its_keys(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink(mode="upsert", keys=["k"])
    write(sink, totals(spark, {"a": 1, "b": 1}), a_batch(0))
    write(sink, totals(spark, {"a": 2, "c": 1}), a_batch(1))
    assert place.content() == [("a", 2), ("b", 1), ("c", 1)]


def test_two_queries_share_a_table(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink()
    for query_id in ("q-1", "q-2"):
        write(sink, numbers(spark, [1]), a_batch(0, query_id=query_id))
    assert place.content() == [(1,), (1,)]


@pytest.mark.parametrize("epoch", [1, 9])
def test_a_copy_that_two_scopes_have_adopted_loses_no_rows_in_silence(
    place: Place, spark: SparkSession, epoch: int
) -> None:
    for number in (0, 1):
        write(place.a_sink(), numbers(spark, [number]), a_batch(number, epoch=2))
    again = replace(a_batch(1, epoch=epoch), scope="again")
    with pytest.raises(QueryFailed, match=r"has batch 1 of query .* from scope 'flights': two scopes have adopted"):
        write(place.a_sink(), numbers(spark, [7]), again)
    assert place.content() == [(0,), (1,)]


@pytest.mark.parametrize("epoch", [1, 9])
def test_a_scope_that_another_has_moved_to_goes_on(place: Place, spark: SparkSession, epoch: int) -> None:
    """Each scope counts its epochs from 1."""
    write(place.a_sink(), numbers(spark, [0]), a_batch(0, epoch=5))
    moved = replace(a_batch(1, epoch=epoch), scope="again")
    assert write(place.a_sink(), numbers(spark, [1]), moved) == Written(repeated=False)
    assert write(place.a_sink(), numbers(spark, [1]), moved) == Written(repeated=True)
    assert place.content() == [(0,), (1,)]


@contextmanager
def lost_replies(place: Place, replies: int) -> Iterator[list[bool]]:
    """So many transactions are committed without a word to the client. Yields what each call has learnt."""
    move, calls = SqlTable.move, list[bool]()

    def lost(*arguments: Any, **named: Any) -> bool:
        calls.append(move(*arguments, **named))
        if len(calls) <= replies:
            raise StorageError("the line broke")
        return calls[-1]

    with patch.object(SqlTable, "move", lost):
        yield calls


# --- zombies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_leader_that_was_paused_before_its_transaction_is_refused(
    place: Place, spark: SparkSession, ahead: int
) -> None:
    write(place.a_sink(), numbers(spark, [0]), a_batch(0))
    zombie = Paused(place.a_sink(), numbers(spark, [1]), a_batch(1, epoch=1)).start()
    for number in range(1, 2 + ahead):
        write(place.a_sink(), numbers(spark, [number]), a_batch(number, epoch=2))
    with pytest.raises(Fenced, match="has seen a higher epoch than 1"):
        zombie.go_on()
    assert place.content() == [(number,) for number in range(2 + ahead)]


def test_a_leader_that_is_paused_inside_its_transaction_is_thrown_out(place: Place, spark: SparkSession) -> None:
    write(place.a_sink(), numbers(spark, [0]), a_batch(0))
    zombie, successor = place.make(), place.a_sink(retry_policy=RETRY)

    def be_silent() -> None:
        """From its claim on, until the successor has written."""
        with zombie.connected(limit=timedelta(seconds=1)) as connection, zombie.transaction(connection):
            zombie._claim(connection, Claim("flights", "hourly", "q-1", 1, 1))
            assert write(successor, numbers(spark, [1]), replace(a_batch(1, epoch=2), ttl=SOON)) == Written(
                repeated=False
            )
            zombie.execute(connection, "select 1")

    with pytest.raises(StorageError, match=place.thrown_out):
        be_silent()
    assert place.content() == [(0,), (1,)]


def test_two_leaders_that_race_are_judged_one_after_the_other(place: Place) -> None:
    """The second waits for the lock of the ledger's row, and reads what the first has written."""
    first, second = place.make(), place.make()
    first.make({"n": "bigint"}, keys=())

    def late(batch: int) -> bool:
        claim = Claim("s", "q", "q-1", batch, 1)
        return bool(second.move(claim, Staged("none", [], 0), {"n": "bigint"}, keys=(), limit=timedelta(minutes=1)))

    assert late(0) is False
    with ThreadPoolExecutor(1) as pool:
        with first.connected(limit=timedelta(minutes=1)) as connection, first.transaction(connection):
            assert first._claim(connection, Claim("s", "q", "q-1", 1, 2)).moves
            written = pool.submit(late, 1)
            wait_until(lambda: place.run(place.waiting)[0][0], what="the second leader to wait")
        with pytest.raises(Fenced, match="has seen a higher epoch than 1"):
            written.result()


def test_a_scope_does_not_take_the_batch_of_another_for_its_own(place: Place, spark: SparkSession) -> None:
    """Nobody knows whether its transaction was committed; the other scope's was, under the same epoch."""
    other, move, calls = replace(a_batch(1), scope="again"), SqlTable.move, list[int]()

    def lost(*arguments: Any, **named: Any) -> bool:
        calls.append(0)
        if len(calls) == 1:
            raise StorageError("the line broke")
        if len(calls) == 2:
            with patch.object(SqlTable, "move", move):
                write(place.a_sink(), numbers(spark, [7]), other)
        return move(*arguments, **named)

    write(place.a_sink(), numbers(spark, [0]), a_batch(0))
    with patch.object(SqlTable, "move", lost), pytest.raises(QueryFailed, match="two scopes have adopted"):
        write(place.a_sink(), numbers(spark, [1]), a_batch(1))
    assert place.content() == [(0,), (7,)]


@pytest.mark.parametrize("replies", [1, 3])
def test_a_commit_whose_reply_is_lost_counts_once(place: Place, spark: SparkSession, replies: int) -> None:
    """The transaction is sent again, also more than once, and the ledger knows it."""
    with lost_replies(place, replies) as calls:
        assert write(place.a_sink(), numbers(spark, [1]), a_batch(0)) == Written(repeated=False)
    assert calls == [False] * (replies + 1)
    assert place.content() == [(1,)]


# --- staged rows -----------------------------------------------------------------------------------------------------


@contextmanager
def staged_rows(place: Place, *rows: tuple[int, int, int]) -> Iterator[SqlTable]:
    """A staging table `s` with these rows: n, partition, attempt."""
    database: SqlTable = place.make()
    database.make({"n": "bigint"}, keys=())
    database.make_staging("s", {"n": "bigint"}, limit=SOON)
    if rows:
        place.run("insert into s (n, tenure_partition, tenure_attempt) values (%s, %s, %s)", rows)
    yield database


def moved(database: SqlTable, accepted: list[tuple[int, int]], *, rows: int) -> bool:
    staged = Staged("s", accepted, rows)
    return database.move(Claim("s", "q", "q-1", 0, 1), staged, {"n": "bigint"}, keys=(), limit=SOON)


def test_the_rows_of_a_task_that_ran_twice_count_once(place: Place) -> None:
    with staged_rows(place, (1, 0, 7), (2, 1, 8), (2, 1, 9)) as database:
        assert moved(database, [(0, 7), (1, 9)], rows=2) is False
    assert place.content() == [(1,), (2,)]


def test_staged_rows_that_went_are_no_empty_batch(place: Place) -> None:
    """A server that crashes empties unlogged tables."""
    with staged_rows(place) as database:
        with pytest.raises(QueryFailed, match="2 rows were staged, and 0 are there"):
            moved(database, [(0, 7)], rows=2)
        assert place.content("tenure_ledger") == []
    assert place.content() == []


# --- the end at any step ---------------------------------------------------------------------------------------------

STEPS = 8
"""More than the statements of a transaction and of the drop after it, in any database."""


def the_batch(place: Place, *, epoch: int = 1, sent: bool = False, limit: timedelta = timedelta(minutes=1)) -> bool:
    """Move the row of a batch, whose staging table is there."""
    claim, staged = Claim("s", "q", "q-1", 0, epoch, sent), Staged(f"s{epoch}", [(0, 7)], 1)
    return bool(place.make().move(claim, staged, {"n": "bigint"}, keys=(), limit=limit))


def stage(place: Place, *epochs: int) -> None:
    """The staging tables of attempts of these epochs, with the same row each."""
    database = place.make()
    database.make({"n": "bigint"}, keys=())
    for epoch in epochs:
        database.make_staging(f"s{epoch}", {"n": "bigint"}, limit=SOON)
        place.run(f"insert into s{epoch} (n, tenure_partition, tenure_attempt) values (1, 0, 7)")


@pytest.mark.parametrize(
    ("step", "is_known"), [*((step, False) for step in range(STEPS)), *((step, True) for step in (2, 3))]
)
def test_a_leader_that_is_paused_at_any_step_adds_its_batch_once(place: Place, step: int, is_known: bool) -> None:
    """A successor does the batch meanwhile; the server throws out who is silent and has locks. `is_known`: the ledger
    has a row of the query, so that only the look at it locks it."""
    stage(place, 1, 2)
    if is_known:
        named = f"query_id, scope, query, batch, epoch, {place.quoted('before')}"
        place.run(f"insert into tenure_ledger ({named}) values ('q-1', 's', 'q', -1, 1, -1)")
    did = list[bool]()

    def succeed(_: Any) -> None:
        did.append(retry(lambda: the_batch(place, epoch=2), policy=RETRY, on=StorageError, clock=SystemClock()))

    with struck(place, step, succeed), suppress(StorageError, Fenced):
        the_batch(place, limit=timedelta(seconds=1))
    assert place.content() == [(1,)]
    with pytest.raises(Fenced) if did else nullcontext():
        the_batch(place, sent=True)
    assert place.content() == [(1,)]


@pytest.mark.parametrize("step", range(STEPS))
def test_a_connection_that_ends_at_any_step_leaves_all_or_nothing(place: Place, step: int) -> None:
    stage(place, 1)
    with struck(place, step, place.kill), suppress(StorageError):
        the_batch(place)
    assert len(place.content()) == len(place.content("tenure_ledger"))
    assert the_batch(place, sent=True) is False
    assert place.content() == [(1,)]


@pytest.mark.parametrize("step", [3, 4, 5, 6, 7])
def test_a_server_that_is_killed_around_its_commit_has_all_or_nothing(place: Place, step: int) -> None:
    stage(place, 1)
    try:
        with struck(place, step, lambda _: place.server.nodes[0].kill()), suppress(StorageError):
            the_batch(place)
    finally:
        place.server.start()
    has_all_or_nothing(place)


def test_a_server_that_is_killed_in_the_middle_of_its_commit_has_all_or_nothing(place: Place) -> None:
    """The commit is on its way, and nobody knows what became of it."""
    stage(place, 1)
    try:
        with place.killed_in_commit(), suppress(StorageError):
            the_batch(place)
    finally:
        place.server.start()
    has_all_or_nothing(place)


def has_all_or_nothing(place: Place) -> None:
    had = place.content()
    assert len(had) == len(place.content("tenure_ledger"))
    if place.keeps_staged or had:
        assert the_batch(place, sent=True) is False
        assert place.content() == [(1,)]


def test_a_reader_sees_each_batch_whole(place: Place) -> None:
    stage(place, 1)
    seen = list[Any]()

    def look(_: Any) -> None:
        seen.append((len(place.content()), len(place.content("tenure_ledger"))))

    for step in range(STEPS):
        with struck(place, step, look):
            the_batch(place, sent=step > 0)
    assert set(seen) == {(0, 0), (1, 1)}


@pytest.mark.parametrize(
    ("rows", "line"),
    [("'a' as k, 1 as n union all select 'a', 2", "two rows with the same k"), ("null as k, 1 as n", "has no k")],
)
def test_rows_that_no_key_tells_apart_are_refused(place: Place, spark: SparkSession, rows: str, line: str) -> None:
    sink = place.a_sink(mode="upsert", keys=["k"])
    with pytest.raises(QueryFailed, match=line):
        write(sink, spark.sql(f"select cast(k as string) k, n from (select {rows})"), a_batch(0))


def test_staging_tables_of_earlier_terms_are_swept(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink()
    for epoch in (1, 2, 3):
        paused = Paused(sink, numbers(spark, [1]), a_batch(0, epoch=epoch))
        paused.planned = lambda: (_ for _ in ()).throw(StorageError("dead"))
        with pytest.raises(StorageError):
            paused.start().go_on()
    names = [staging_name(a_batch(0, epoch=epoch)) for epoch in (1, 2, 3)]
    swept = sink.staged(Attempts("flights", "hourly", lambda: ["q-1", "other"], epoch=3))
    assert swept.find() == names[:2]
    for name in swept.find():
        swept.remove(None, name)  # type: ignore[arg-type] # no term is asked for
    assert place.tables() == {"t", "tenure_ledger", names[2]}
    assert sink.staged(Attempts("flights", "hourly", lambda: ["q-1"])).find() == names[2:]


def test_a_rehearsal_leaves_nothing(place: Place, spark: SparkSession) -> None:
    place.a_sink().rehearse(numbers(spark, [1, 2]), "")
    assert place.tables() == set()


# --- servers and copies ----------------------------------------------------------------------------------------------


def test_a_server_that_is_away_is_asked_at_the_first_batch(spark: SparkSession, place: Place) -> None:
    sink = place.sink(place.nowhere, "t", retry_policy=QUICK)
    sink.check(output_mode="append")
    rows: DataFrame = numbers(spark, [1])
    sink.check_rows(rows)
    named = rf"table {place.schema}\.t of {place.table.product} at 127\.0\.0\.1/\w+: .*refused"
    with pytest.raises(StorageError, match=named):
        write(sink, rows, a_batch(0))


def test_a_repeated_batch_whose_reply_is_lost_is_still_a_repeated_one(place: Place, spark: SparkSession) -> None:
    """A query with state, whose batch is short, must know that the table has the batch."""
    write(place.a_sink(), numbers(spark, [1]), a_batch(0))
    with lost_replies(place, 1):
        assert write(place.a_sink(), numbers(spark, [1]), a_batch(0, epoch=2)) == Written(repeated=True)


def test_a_database_that_was_restored_from_an_older_copy_is_refused(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink()
    for number in range(2):
        write(sink, numbers(spark, [number]), a_batch(number))
    with pytest.raises(QueryFailed, match="has query 'hourly' up to batch 1, and batch 3 is next: the database was"):
        write(sink, numbers(spark, [3]), a_batch(3))
    assert place.content() == [(0,), (1,)]
    assert write(sink, numbers(spark, [2]), a_batch(2)) == Written(repeated=False)


def test_a_server_that_starts_anew_is_waited_for(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink(retry_policy=RETRY)
    write(sink, numbers(spark, [1]), a_batch(0))
    missed = threading.Event()
    client = import_module(place.client)
    connect = client.connect

    def connected(*arguments: Any, **named: Any) -> Any:
        try:
            return connect(*arguments, **named)
        except client.OperationalError:
            missed.set()
            raise

    place.server.nodes[0].kill()
    try:
        with patch.object(client, "connect", connected), ThreadPoolExecutor(1) as pool:
            written = pool.submit(write, sink, numbers(spark, [2]), a_batch(1))
            assert missed.wait(NEVER_S)
            place.server.start()
            assert written.result() == Written(repeated=False)
    finally:
        place.server.start()
    assert place.content() == [(1,), (2,)]


def test_a_task_that_cannot_reach_the_server_is_trouble_of_the_storage(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink()
    sink._parameters = {**sink._database.parameters(), "port": 1}
    with pytest.raises(StorageError, match=rf"table {place.schema}\.t .*: a task could not copy its rows: .*refused"):
        write(sink, numbers(spark, [1]), a_batch(0))
    assert place.content() == []


def test_no_password_is_shown(place: Place, spark: SparkSession) -> None:
    sink = place.a_sink()
    write(sink, numbers(spark, [1]), a_batch(0))
    assert (*place.environment.values(),)[0] not in f"{sink!r} {sink._database} {vars(sink._database)}"
