"""Delta against zombies: whoever pauses wherever, the table takes each batch once (I3).

The stale leader and its successor are two sinks on two threads; the pause is a plan that waits, or a commit that waits.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyspark.sql import DataFrame, SparkSession

from tenure.errors import StorageError, UsageError
from tenure.sinks.delta.log import DeltaLog
from tenure.sinks.delta.sink import Delta
from tenure.sinks.sink import OutputMode, Written
from tests.kit.waiting import NEVER_S
from tests.spark.sinks.support import (
    Paused,
    a_batch,
    a_sink,
    named,
    rows_of,
    staged,
    totals,
    visible,
    write,
)

pytestmark = pytest.mark.spark

MODES: list[OutputMode] = ["append", "complete", "update"]


def sink_for(table: Path, mode: OutputMode) -> Delta:
    return a_sink(table, mode, key=["k"] if mode == "update" else [])


def rows_for(spark: SparkSession, number: int) -> DataFrame:
    """Batch `number`: the stale leader and its successor write the same rows, as they have the same plan."""
    return totals(spark, {"a": number, f"b{number}": number})


def expected(mode: OutputMode, last: int) -> list[tuple[str, int]]:
    batches = [[("a", number), (f"b{number}", number)] for number in range(last + 1)]
    if mode == "complete":
        return sorted(batches[-1])
    rows = [row for batch in batches for row in batch]
    return sorted(rows if mode == "append" else {**dict(rows)}.items())


def content(table: Path) -> list[tuple[str, int]]:
    return sorted((row["k"], row["n"]) for row in rows_of(table))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_zombie_that_opened_its_snapshot_before_is_refused(
    spark: SparkSession, table: Path, mode: OutputMode, ahead: int
) -> None:
    write(sink_for(table, mode), rows_for(spark, 0), a_batch(0))
    zombie = Paused(sink_for(table, mode), rows_for(spark, 1), a_batch(1, epoch=1)).start()
    successor = sink_for(table, mode)
    for number in range(1, 2 + ahead):
        assert write(successor, rows_for(spark, number), a_batch(number, epoch=2)) == Written(repeated=False)
    before = named(table)
    assert zombie.go_on() == Written(repeated=True)
    assert zombie.seen.names() == ["WriteRefused"]
    assert content(table) == expected(mode, 1 + ahead)
    assert named(table) == before
    assert not [path for path in staged(table) if "/e00000001/b000000000001/" in str(path)]


@pytest.mark.parametrize("mode", MODES)
def test_a_zombie_that_commits_first_has_written_the_batch(spark: SparkSession, table: Path, mode: OutputMode) -> None:
    write(sink_for(table, mode), rows_for(spark, 0), a_batch(0))
    zombie = Paused(sink_for(table, mode), rows_for(spark, 1), a_batch(1, epoch=1)).start()
    successor = Paused(sink_for(table, mode), rows_for(spark, 1), a_batch(1, epoch=2)).start()
    assert zombie.go_on() == Written(repeated=False)
    before = named(table)
    assert successor.go_on() == Written(repeated=True)
    assert content(table) == expected(mode, 1)
    assert named(table) == before
    assert write(sink_for(table, mode), rows_for(spark, 2), a_batch(2, epoch=2)) == Written(repeated=False)
    assert content(table) == expected(mode, 2)


@pytest.mark.parametrize("mode", MODES)
def test_the_first_batch_of_a_new_table(spark: SparkSession, table: Path, mode: OutputMode) -> None:
    zombie = Paused(sink_for(table, mode), rows_for(spark, 0), a_batch(0, epoch=1)).start()
    assert write(sink_for(table, mode), rows_for(spark, 0), a_batch(0, epoch=2)) == Written(repeated=False)
    assert zombie.go_on() == Written(repeated=True)
    assert content(table) == expected(mode, 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_zombie_that_pauses_between_its_look_and_its_commit(
    spark: SparkSession, table: Path, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The narrowest gap: the table was just looked at, and the commit is the next instruction."""
    write(sink_for(table, mode), rows_for(spark, 0), a_batch(0))
    zombie = Paused(sink_for(table, mode), rows_for(spark, 1), a_batch(1, epoch=1))
    whose = threading.local()
    properties = DeltaLog._properties

    def pausing(log: DeltaLog, batch: int, attempt: str) -> Any:
        if "/e00000001/" in attempt and not getattr(whose, "paused", False):
            whose.paused = True
            zombie.stop()
        return properties(log, batch, attempt)

    monkeypatch.setattr(DeltaLog, "_properties", pausing)
    zombie.planned = lambda: None
    zombie.start()
    assert write(sink_for(table, mode), rows_for(spark, 1), a_batch(1, epoch=2)) == Written(repeated=False)
    assert zombie.go_on() == Written(repeated=True)
    assert content(table) == expected(mode, 1)


def race(spark: SparkSession, sinks: dict[int, Delta], number: int) -> list[Written]:
    """Let every sink write the batch, and all commit at the same moment."""
    gate = threading.Barrier(len(sinks), timeout=NEVER_S)
    results: list[Written] = []

    def planned() -> None:
        gate.wait()

    def lead(epoch: int) -> None:
        results.append(write(sinks[epoch], rows_for(spark, number), a_batch(number, epoch=epoch), planned=planned))

    threads = [threading.Thread(target=lead, args=(epoch,)) for epoch in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER_S)
    return results


@pytest.mark.parametrize("mode", MODES)
def test_two_leaders_race_for_the_same_batch(spark: SparkSession, table: Path, mode: OutputMode) -> None:
    rounds = 50 if mode == "append" else 8
    sinks = {epoch: sink_for(table, mode) for epoch in (1, 2)}
    for number in range(rounds):
        results = race(spark, sinks, number)
        assert sorted(written.repeated for written in results) == [False, True], f"batch {number}"
    assert content(table) == expected(mode, rounds - 1)


def test_an_unrelated_writer_between_look_and_commit_is_no_obstacle(spark: SparkSession, table: Path) -> None:
    write(a_sink(table), rows_for(spark, 0), a_batch(0))
    write(a_sink(table), rows_for(spark, 1), a_batch(1))
    paused = Paused(a_sink(table), rows_for(spark, 2), a_batch(2)).start()
    DeltaTable(str(table)).optimize.compact()
    assert paused.go_on() == Written(repeated=False)
    assert paused.seen.names() == []
    assert content(table) == expected("append", 2)


def test_a_table_that_changed_its_columns_meanwhile_is_refused(spark: SparkSession, table: Path) -> None:
    write(a_sink(table), rows_for(spark, 0), a_batch(0))
    paused = Paused(a_sink(table), rows_for(spark, 1), a_batch(1)).start()
    DeltaTable(str(table)).alter.add_columns([Field("new", PrimitiveType("string"))])
    with pytest.raises(UsageError, match="the table has new, which the rows lack"):
        paused.go_on()
    assert content(table) == expected("append", 0)


def test_a_writer_that_never_stops_ends_in_one_clear_line(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(a_sink(table), rows_for(spark, 0), a_batch(0))
    properties = DeltaLog._properties

    def another_first(log: DeltaLog, batch: int, attempt: str) -> Any:
        DeltaTable(str(table)).alter.set_table_properties({"delta.appendOnly": "false"})
        return properties(log, batch, attempt)

    monkeypatch.setattr(DeltaLog, "_properties", another_first)
    with pytest.raises(StorageError, match=r"cannot commit batch 1 to .*other writers"):
        write(a_sink(table), rows_for(spark, 1), a_batch(1))
    assert content(table) == expected("append", 0)


def test_the_rule_survives_log_checkpoint_and_clean_up(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table)
    write(sink, rows_for(spark, 0), a_batch(0))
    zombie = Paused(a_sink(table), rows_for(spark, 1), a_batch(1)).start()
    write(sink, rows_for(spark, 1), a_batch(1, epoch=2))
    log = DeltaTable(str(table))
    log.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    write(sink, rows_for(spark, 2), a_batch(2, epoch=2))
    log = DeltaTable(str(table))
    log.create_checkpoint()
    log.cleanup_metadata()
    left = sorted(path.name for path in (table / "_delta_log").glob("*.json"))
    assert f"{1:020d}.json" not in left, "the commits that named the batches are gone"
    assert zombie.go_on() == Written(repeated=True)
    # Nobody can tell any more whose commit it was: the staged files stay, and that is said.
    assert zombie.seen.names() == ["WriteRefused", "BlobLeft"]
    assert [path for path in staged(table) if "/e00000001/b000000000001/" in str(path)]
    assert write(a_sink(table), rows_for(spark, 2), a_batch(2, epoch=3)) == Written(repeated=True)
    assert content(table) == expected("append", 2)
    assert all((table / path).exists() for path in named(table))


def test_the_log_is_checkpointed_by_itself(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table)
    write(sink, rows_for(spark, 0), a_batch(0))
    DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "3"})
    for number in range(1, 4):
        write(sink, rows_for(spark, number), a_batch(number))
    # The table's version 5 is batch 3; version 2 was the alteration, which is not the sink's commit.
    assert (table / "_delta_log" / f"{5:020d}.checkpoint.parquet").exists()
    assert write(a_sink(table), rows_for(spark, 3), a_batch(3)) == Written(repeated=True)
    assert [n for n in visible(table) if n == 3] == [3, 3]
