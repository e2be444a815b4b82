"""Delta in complete and update mode: what a reader sees after each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from tenure.errors import QueryFailed, UsageError
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import DeltaLog
from tenure.sinks.delta.sink import Delta
from tenure.sinks.sink import OutputMode, Written
from tests.spark.sinks.support import Seen, a_batch, a_sink, named, numbers, rows_of, staged, totals, visible, write

pytestmark = pytest.mark.spark


def content(table: Path) -> dict[str | None, int]:
    rows = rows_of(table)
    found = {row["k"]: row["n"] for row in rows}
    assert len(found) == len(rows), "a key stands twice in the table"
    return found


def test_complete_replaces_the_table_in_one_commit(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "complete")
    write(sink, numbers(spark, [1, 2]), a_batch(0))
    version = DeltaTable(str(table)).version()
    write(sink, numbers(spark, [5]), a_batch(1))
    assert visible(table) == [5]
    assert DeltaTable(str(table)).version() == version + 1
    assert write(a_sink(table, "complete"), numbers(spark, [5]), a_batch(1, epoch=2)) == Written(repeated=True)


def test_complete_without_rows_empties_the_table(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "complete")
    write(sink, numbers(spark, []), a_batch(0))
    assert visible(table) == []
    write(sink, numbers(spark, [1]), a_batch(1))
    assert write(sink, numbers(spark, []), a_batch(2)) == Written(repeated=False)
    assert visible(table) == []
    assert write(a_sink(table, "complete"), numbers(spark, [1]), a_batch(1)) == Written(repeated=True)
    assert visible(table) == []


def test_update_replaces_by_key(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "update", key=["k"])
    write(sink, totals(spark, {"a": 1, "b": 1}), a_batch(0))
    write(sink, totals(spark, {"b": 2, "c": 2}), a_batch(1))
    assert content(table) == {"a": 1, "b": 2, "c": 2}
    again = write(a_sink(table, "update", key=["k"]), totals(spark, {"b": 1}), a_batch(0, epoch=2))
    assert again == Written(repeated=True)
    assert content(table) == {"a": 1, "b": 2, "c": 2}
    assert write(sink, totals(spark, {"a": 0}).where("false"), a_batch(2)) == Written(repeated=False)
    assert content(table) == {"a": 1, "b": 2, "c": 2}


def test_update_leaves_no_staging(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "update", key=["k"])
    write(sink, totals(spark, {"a": 1, "b": 1}), a_batch(0))
    write(sink, totals(spark, {"b": 2, "c": 2}), a_batch(1))
    written = {str(path.relative_to(table)) for path in staged(table)}
    assert named(table) <= written
    assert not [path for path in written if "/rows/" in path]
    assert written == {str(path) for path in named(table) | removed(table)}


def removed(table: Path) -> set[str]:
    """The files that the table has lost, relative to it."""
    return set(DeltaTable(str(table)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True))


def test_update_begins_again_on_top_of_another_writer_s_commit(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer has rewritten the very files that the batch was merged with."""
    sink = a_sink(table, "update", key=["k"])
    write(sink, totals(spark, {"a": 1, "b": 1}), a_batch(0))
    properties, commits = DeltaLog._properties, []

    def another_first(log: DeltaLog, batch: int, attempt: str) -> Any:
        commits.append(batch)
        if len(commits) < 3:
            DeltaTable(str(table)).delete(f"n = {len(commits)}")
            write_deltalake(str(table), pa.table({"k": ["c"], "n": [len(commits) + 1]}), mode="append")
        return properties(log, batch, attempt)

    monkeypatch.setattr(DeltaLog, "_properties", another_first)
    assert write(sink, totals(spark, {"a": 9, "c": 9}), a_batch(1)) == Written(repeated=False)
    assert commits == [1, 1, 1]
    assert content(table) == {"a": 9, "c": 9}
    batch = [path for path in staged(table) if "/b000000000001/" in str(path)]
    assert {str(path.relative_to(table)) for path in batch} == named(table)


def test_update_takes_null_as_a_key(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "update", key=["k"])
    write(sink, totals(spark, {"a": 1, None: 1}), a_batch(0))
    write(sink, totals(spark, {"a": 2}), a_batch(1))
    assert content(table) == {"a": 2, None: 1}
    write(sink, totals(spark, {"b": 3, None: 3}), a_batch(2))
    assert content(table) == {"a": 2, "b": 3, None: 3}


def test_update_by_several_columns_of_any_name(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "update", key=["Day of", 'the "Week"', "x`y", ".k", "a.b"])
    query = """select date'2024-02-29' + cast(d as int) as `Day of`, d as `the "Week"`, v as total, 'y' as `x``y`,
               array(map('m', named_struct('b', v))) as a, d as `.k`, 'é' as `a.b`
               from values (0, {0}), (1, {0}) as t(d, v)"""
    write(sink, spark.sql(query.format(1)), a_batch(0))
    write(sink, spark.sql(query.format(2)).where("`Day of` > date'2024-02-29'"), a_batch(1))
    found = sorted(rows_of(table), key=lambda row: row["total"])
    assert [(row["total"], row["a"]) for row in found] == [(1, [[("m", {"b": 1})]]), (2, [[("m", {"b": 2})]])]


def test_update_of_a_table_with_deletion_vectors_is_refused(spark: SparkSession, table: Path) -> None:
    settings = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(table), pa.table({"k": ["a"], "n": [1]}), configuration=settings)
    with pytest.raises(UsageError, match="has deletion vectors"):
        write(a_sink(table, "update", key=["k"]), totals(spark, {"a": 2}), a_batch(0))
    assert staged(table) == []


def test_update_of_a_partitioned_table(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "update", key=["k"], partition_by=["p"])
    query = "select cast(k as string) as k, n, cast(p as string) as p from values {} as t(k, n, p)"
    write(sink, spark.sql(query.format("('a', 1, 'x'), ('b', 1, null), ('c', 1, 'y/z')")), a_batch(0))
    write(sink, spark.sql(query.format("('a', 2, 'x'), ('b', 2, null), ('c', 2, 'w')")), a_batch(1))
    assert {row["k"]: (row["n"], row["p"]) for row in rows_of(table)} == {"a": (2, "x"), "b": (2, None), "c": (2, "w")}
    assert len(rows_of(table)) == 3


def test_a_key_that_stands_twice_in_a_batch_is_refused(spark: SparkSession, table: Path) -> None:
    sink = a_sink(table, "update", key=["k"])
    write(sink, totals(spark, {"a": 1}), a_batch(0))
    twice = totals(spark, {"b": 1}).union(totals(spark, {"b": 2}))
    with pytest.raises(QueryFailed, match=r"batch 1 for .* has the key \{'k': 'b'\} 2 times"):
        write(sink, twice, a_batch(1))
    nulls = totals(spark, {None: 1}).union(totals(spark, {None: 2}))
    with pytest.raises(QueryFailed, match=r"has the key \{'k': None\} 2 times"):
        write(sink, nulls, a_batch(1))
    assert content(table) == {"a": 1}


@pytest.mark.parametrize("mode", ["append", "update"])
def test_files_are_found_and_removed_through_the_object_store_s_own_interface(
    spark: SparkSession, tmp_path: Path, mode: OutputMode
) -> None:
    """The way of a table in an object store, with a directory in the place of the bucket."""
    table = tmp_path / "bucket"
    table.mkdir()

    def remote() -> Delta:
        sink = a_sink(table, mode, key=["k"] if mode == "update" else [])
        sink._location = Location(f"file://{table}", disk=None)
        return sink

    sink = remote()
    write(sink, totals(spark, {"a": 1}), a_batch(0))
    write(sink, totals(spark, {"b": 2, None: 2}), a_batch(1))
    before = staged(table)
    seen = Seen()
    assert write(remote(), totals(spark, {"b": 2, None: 2}), a_batch(1, epoch=2), seen=seen) == Written(repeated=True)
    assert content(table) == {"a": 1, "b": 2, None: 2}
    assert staged(table) == before
    assert seen.names() == []
