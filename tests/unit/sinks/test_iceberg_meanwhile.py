"""Iceberg: what happens to the table between any two steps of a writer (I3).

The writer is stopped at a step, and the others work there: it is a leader that is paused, and wakes up afterwards. Then
a later leader runs the batch again, and the next.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from tenure.errors import Fenced, QueryFailed, UsageError
from tenure.sinks.sink import OutputMode, Written
from tests.unit.sinks.iceberg_tables import (
    GAPS,
    NAME,
    STEPS,
    Lake,
    emptied,
    foreign_append,
    newest,
    numbers,
    outcome,
    rolled_back,
    seen,
    stopped_at,
)

Meanwhile = Callable[[Lake], None]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake.on_disk(tmp_path / "a lake+1%", monkeypatch)


# --- other leaders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "ahead"), [("append", 0), ("append", 2), ("complete", 1)])
@pytest.mark.parametrize("step", STEPS)
def test_a_successor_at_each_step(lake: Lake, step: str, ahead: int, mode: OutputMode) -> None:
    zombie, successor = lake.writer(mode=mode), lake.writer(mode=mode, epoch=2)
    zombie.write(0, numbers(0))
    written: list[Written] = []

    def meanwhile() -> None:
        written.extend(successor.write(batch, numbers(batch)) for batch in range(1, 2 + ahead))

    stopped_at(zombie, step, meanwhile)
    result = outcome(lambda: zombie.write(1, numbers(1)))
    landed = step in ("committed", "lost")
    assert written == [Written(repeated=landed), *[Written(repeated=False)] * ahead]
    if landed:
        assert result == (Fenced if ahead and step == "lost" else Written(repeated=False))
    else:
        assert result is Fenced
    rows = list(range(2 + ahead))
    assert lake.numbers() == (rows if mode == "append" else rows[-1:])
    assert lake.writer(mode=mode, epoch=3).write(1 + ahead, numbers(1 + ahead)) == Written(repeated=True)
    assert seen(lake) == (rows if mode == "append" else rows[-1:])


@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_a_successor_at_each_step_of_the_first_batch(lake: Lake, step: str, time: int) -> None:
    """There is no table yet, and then one without a snapshot: the first commit is one without files."""
    zombie, successor = lake.writer(), lake.writer(epoch=2)
    stopped_at(zombie, step, lambda: successor.write(0, numbers(0)), time=time)
    result = outcome(lambda: zombie.write(0, numbers(0)))
    landed = (step in ("committed", "lost") and time == 2) or (step == "planned" and time == 2)
    assert result == (Written(repeated=False) if landed else Fenced)
    assert seen(lake) == [0]


@pytest.mark.parametrize("step", STEPS)
def test_an_equal_epoch_at_each_step(lake: Lake, step: str) -> None:
    """No two leaders have one; a process that was restored from a snapshot of its machine has."""
    one, other = lake.writer(), lake.writer()
    one.write(0, numbers(0))
    stopped_at(one, step, lambda: other.write(1, numbers(1)))
    landed = step in ("committed", "lost")
    assert one.write(1, numbers(1)) == Written(repeated=not landed)
    assert one.names() == (["WriteRefused"] if step in ("looked", "planned", "commit") else [])
    assert seen(lake) == [0, 1]
    assert lake.staged() == lake.named(), "what the loser staged is gone, and only that"


# --- other writers ----------------------------------------------------------------------------------------------------


def compacted(lake: Lake) -> None:
    lake.table().overwrite(lake.table().scan().to_arrow())


def expired(lake: Lake) -> None:
    """And another commit is the newest."""
    compacted(lake)
    lake.table().maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()
    assert len(lake.table().snapshots()) == 1


def expired_at_once(lake: Lake) -> None:
    lake.table().maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()


def property_set(lake: Lake) -> None:
    with lake.table().transaction() as change:
        change.set_properties({"owner": "anna"})


def rolled_back_and_forth(lake: Lake) -> None:
    before = newest(lake)
    foreign_append(lake)
    rolled_back(lake, before)


@pytest.mark.parametrize(
    "meanwhile", [foreign_append, compacted, expired, expired_at_once, property_set, rolled_back_and_forth]
)
@pytest.mark.parametrize("step", GAPS)
def test_other_writers_at_each_step_are_no_obstacle(lake: Lake, step: str, meanwhile: Meanwhile) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    stopped_at(writer, step, lambda: meanwhile(lake))
    assert writer.write(1, numbers(1)) == Written(repeated=False)
    rows = [0, 1, 100] if meanwhile is foreign_append else [0, 1]
    assert lake.numbers() == rows
    assert lake.writer(epoch=2).write(1, numbers(1)) == Written(repeated=True)
    assert lake.writer(epoch=2).write(2, numbers(2)) == Written(repeated=False)
    assert seen(lake) == sorted([*rows, 2])


@pytest.mark.parametrize("step", GAPS[:3])
def test_a_batch_that_an_operator_has_rolled_back_does_not_come_again(lake: Lake, step: str) -> None:
    """The branch is at the very snapshot in which the zombie looked."""
    zombie, successor = lake.writer(), lake.writer(epoch=2)
    zombie.write(0, numbers(0))
    before = newest(lake)

    def meanwhile() -> None:
        successor.write(1, numbers(1))
        rolled_back(lake, before)
        assert lake.numbers() == [0]

    stopped_at(zombie, step, meanwhile)
    assert outcome(lambda: zombie.write(1, numbers(1))) is Fenced
    assert lake.numbers() == [0]
    assert successor.write(1, numbers(1)) == Written(repeated=True)
    assert successor.write(2, numbers(2)) == Written(repeated=False)
    assert seen(lake) == [0, 2]


@pytest.mark.parametrize("step", GAPS[:3])
def test_a_late_first_batch_does_not_enter_a_table_that_was_replaced(lake: Lake, step: str) -> None:
    """A snapshot without a parent is taken by a catalog whatever was there before."""
    zombie, successor = lake.writer(), lake.writer(epoch=2)

    def meanwhile() -> None:
        successor.write(0, numbers(0))
        emptied(lake)

    stopped_at(zombie, step, meanwhile)
    assert outcome(lambda: zombie.write(0, numbers(0))) is Fenced
    assert lake.numbers() == []
    assert successor.write(1, numbers(1)) == Written(repeated=False)
    assert seen(lake) == [1]


# --- changes of the table ---------------------------------------------------------------------------------------------


def column_added(lake: Lake) -> None:
    with lake.table().update_schema() as change:
        change.add_column("m", StringType())


def column_renamed(lake: Lake) -> None:
    with lake.table().update_schema() as change:
        change.rename_column("n", "m")


@pytest.mark.parametrize(
    ("meanwhile", "column", "words"),
    [
        (column_added, "n", "the table has m, which the rows lack"),
        (column_renamed, "m", "the rows have n, which the table lacks and the table has m, which the rows lack"),
    ],
)
@pytest.mark.parametrize("step", GAPS)
def test_columns_that_change_meanwhile_are_refused(
    lake: Lake, step: str, meanwhile: Meanwhile, column: str, words: str
) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    stopped_at(writer, step, lambda: meanwhile(lake))
    landed = step in ("committed", "lost")
    if landed:
        assert writer.write(1, numbers(1)) == Written(repeated=False)
    for batch in (1, 2):
        if batch == 2 or not landed:
            with pytest.raises(UsageError, match=words):
                writer.write(batch, numbers(batch))
    assert lake.numbers(column) == ([0, 1] if landed else [0])


def spec_changed(lake: Lake) -> None:
    with lake.table().update_spec() as change:
        change.add_identity("n")


def column_replaced(lake: Lake) -> None:
    """By another column of the same name and type."""
    with lake.table().update_schema(allow_incompatible_changes=True) as change:
        change.add_column("other", LongType())
        change.delete_column("n")
    with lake.table().update_schema(allow_incompatible_changes=True) as change:
        change.add_column("n", LongType())
        change.delete_column("other")


def dropped_and_created(lake: Lake) -> None:
    schema = lake.table().schema()
    lake.catalog().drop_table(NAME)
    lake.catalog().create_table(NAME, Schema(*schema.fields))


def moved_away(lake: Lake) -> None:
    lake.catalog().rename_table(NAME, "n.old")


@pytest.mark.parametrize(
    ("meanwhile", "before"),
    [(spec_changed, [0]), (column_replaced, [None]), (dropped_and_created, []), (moved_away, [])],
)
@pytest.mark.parametrize("step", GAPS[:3])
def test_a_table_that_becomes_another_lets_the_batch_run_again(
    lake: Lake, step: str, meanwhile: Meanwhile, before: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    stopped_at(writer, step, lambda: meanwhile(lake))
    with pytest.raises(QueryFailed, match=r"has changed since batch 1 was staged|has gone"):
        writer.write(1, numbers(1))
    assert lake.numbers() == before
    if meanwhile is spec_changed:
        partitioned(monkeypatch)
    for again in (writer, lake.writer(epoch=2)):
        assert again.write(1, numbers(1)) == Written(repeated=again is not writer)
    assert seen(lake) == sorted([*before, 1], key=lambda one: (one is None, one))
    if meanwhile is spec_changed:
        table: Table = lake.table()
        assert [task.file.partition[0] for task in table.scan("n = 1").plan_files()] == [1]


def partitioned(patch: pytest.MonkeyPatch) -> None:
    """The stand-in of Spark writes one file of one number, for a partition by the number."""
    from tenure.sinks.iceberg import layout, staged_files

    prepared = layout.prepared
    patch.setattr(layout, "prepared", lambda rows, now: (prepared(rows, now)[0], ["p"]))
    patch.setattr(staged_files, "partition_values", lambda path, derived: {"p": "1"})
