"""Iceberg, update mode: each row replaces the row with its key, in one snapshot, whatever others do meanwhile."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tenure.errors import Fenced, QueryFailed, UsageError
from tenure.sinks.iceberg import upsert
from tenure.sinks.sink import Written
from tests.unit.sinks.iceberg_tables import (
    GAPS,
    NAME,
    Lake,
    Rows,
    Writer,
    emptied,
    outcome,
    seen,
    stopped_at,
)

Key = str | None


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake.on_disk(tmp_path / "a lake+1%", monkeypatch)


def writer(lake: Lake, *, epoch: int = 1) -> Writer:
    return lake.writer(mode="update", key=["k"], epoch=epoch)


def totals(values: dict[Key, int]) -> Rows:
    return Rows(k=pa.array(list(values), pa.string()), n=list(values.values()))


def content(lake: Lake) -> dict[Key, int]:
    rows = lake.table().scan().to_arrow().to_pylist()
    found = {row["k"]: row["n"] for row in rows}
    assert len(found) == len(rows), "a key stands once"
    return found


def test_rows_replace_those_of_their_keys(lake: Lake) -> None:
    sink = writer(lake)
    assert sink.write(0, totals({"a": 1, "b": 1, None: 1})) == Written(repeated=False)
    assert sink.write(1, totals({"b": 2, "c": 2})) == Written(repeated=False)
    assert sink.write(2, totals({None: 3, "": 3})) == Written(repeated=False)
    assert content(lake) == {"a": 1, "b": 2, "c": 2, None: 3, "": 3}
    assert writer(lake, epoch=2).write(2, totals({None: 3, "": 3})) == Written(repeated=True)
    assert sink.write(3, totals({})) == Written(repeated=False)
    assert content(lake) == {"a": 1, "b": 2, "c": 2, None: 3, "": 3}


def test_as_a_dictionary_would(lake: Lake) -> None:
    chance = random.Random(7)
    sink, expected = writer(lake), {}
    keys: list[Key] = [None, "", "-", ",", "1:a,", *map(str, range(12)), "é", "a" * 40]
    for batch in range(14):
        rows = dict.fromkeys(chance.sample(keys, chance.randint(1, 6)), batch)
        sink.write(batch, totals(rows))
        expected.update(rows)
        if batch == 7:
            lake.table().overwrite(lake.table().scan().to_arrow())
        assert content(lake) == expected
    seen(lake)


def test_files_without_a_key_of_the_batch_stay(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = writer(lake)
    for batch, key in enumerate(("a", "m", "z")):
        sink.write(batch, totals({key: 0, f"{key}x": 0}))
    before = {task.file.file_path for task in lake.table().scan().plan_files()}
    read: list[str] = []
    reading = upsert._read

    def noted(table: Any, files: Any, columns: Any) -> Any:
        read.extend(file.file_path for file in files)
        return reading(table, files, columns)

    monkeypatch.setattr(upsert, "_read", noted)
    sink.write(3, totals({"m": 1}))
    after = {task.file.file_path for task in lake.table().scan().plan_files()}
    assert len(before - after) == 1
    assert len(after - before) == 2
    assert len(before & set(read)) == 1, "by their bounds"
    assert content(lake) == {"a": 0, "ax": 0, "m": 1, "mx": 0, "z": 0, "zx": 0}
    snapshot = lake.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["total-records"] == "6"
    assert snapshot.summary["total-data-files"] == "4"


KEYS = {
    "boolean": pa.array([True, False, None]),
    "int": pa.array([1, -1, None], pa.int32()),
    "date": pa.array([dt.date(1969, 12, 31), dt.date(9999, 12, 31), None]),
    "late date": pa.array([2_932_897, 0, None], pa.int32()).cast(pa.date32()),
    "timestamp": pa.array([dt.datetime(1600, 1, 1, 0, 0, 0, 1, dt.UTC), None], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([0, -1, None], pa.int64()).cast(pa.timestamp("us")),
    "decimal": pa.array([Decimal("1.10"), Decimal("-0.01"), None], pa.decimal128(9, 2)),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_each_type(lake: Lake, kind: str) -> None:
    keys = KEYS[kind]
    sink = writer(lake)
    for batch in range(2):
        for place in range(len(keys)):
            rows = Rows(k=keys.slice(place, 1), n=[batch])
            assert sink.write(batch * len(keys) + place, rows) == Written(repeated=False)
    assert lake.numbers() == [1] * len(keys)


def test_a_key_of_more_columns(lake: Lake) -> None:
    sink = lake.writer(mode="update", key=["k", "m"])
    sink.write(0, Rows(k=["a", "a", None, "1:b"], m=["b", None, "b", "c"], n=[1, 2, 3, 4]))
    sink.write(1, Rows(k=["a", None, "1"], m=[None, "b", "b,1:c"], n=[20, 30, 50]))
    assert lake.numbers() == [1, 4, 20, 30, 50]
    with pytest.raises(QueryFailed, match=r"has the key {'k': 'x', 'm': None} 2 times; make the key name one row"):
        sink.write(2, Rows(k=["x", "y", "x"], m=pa.nulls(3, pa.string()), n=[1, 2, 3]))
    assert lake.numbers() == [1, 4, 20, 30, 50]


def test_files_of_an_earlier_partition_spec_are_refused(lake: Lake) -> None:
    schema = Schema(NestedField(1, "k", StringType()), NestedField(2, "n", LongType()))
    lake.catalog().create_table(
        NAME, schema, partition_spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "k"))
    )
    lake.table().append(pa.table({"k": ["a"], "n": [1]}))
    with lake.table().update_spec() as change:
        change.remove_field("k")
    sink = writer(lake)
    with pytest.raises(UsageError, match="has files of an earlier partition spec, such as file:"):
        sink.write(0, totals({"a": 2}))
    assert sink.write(0, totals({"b": 2})) == Written(repeated=False)
    assert content(lake) == {"a": 1, "b": 2}


def test_columns_that_were_renamed_and_widened_are_copied_right(lake: Lake) -> None:
    schema = Schema(NestedField(1, "key", StringType()), NestedField(2, "n", LongType()))
    lake.catalog().create_table(NAME, schema)
    lake.table().append(pa.table({"key": ["a", "b"], "n": [1, 1]}))
    with lake.table().update_schema() as change:
        change.rename_column("key", "k")
        change.add_column("m", StringType())
    sink = writer(lake)
    sink.write(0, Rows(k=["a", "c"], n=[2, 2], m=["new", "new"]))
    rows = sorted(lake.table().scan().to_arrow().to_pylist(), key=lambda row: str(row["k"]))
    assert rows == [
        {"k": "a", "n": 2, "m": "new"},
        {"k": "b", "n": 1, "m": None},
        {"k": "c", "n": 2, "m": "new"},
    ]


# --- others meanwhile -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("step", GAPS)
def test_a_successor_at_each_step(lake: Lake, step: str, ahead: int) -> None:
    zombie, successor = writer(lake), writer(lake, epoch=2)
    zombie.write(0, totals({"a": 0, "b": 0}))

    def meanwhile() -> None:
        for batch in range(1, 2 + ahead):
            successor.write(batch, totals({"a": batch, f"b{batch}": batch}))

    stopped_at(zombie, step, meanwhile)
    result = outcome(lambda: zombie.write(1, totals({"a": 1, "b1": 1})))
    assert result == (Written(repeated=False) if step == "committed" or (step == "lost" and not ahead) else Fenced)
    assert content(lake) == {"a": 1 + ahead, "b": 0, **{f"b{batch}": batch for batch in range(1, 2 + ahead)}}
    assert not [path for path in lake.staged() if "/e00000001/b000000000001/" in path] or step in ("committed", "lost")


def foreign(lake: Lake) -> None:
    """A row with a key of the batch, in a file of its own."""
    lake.table().append(totals({"c": 100}).table)


def compacted(lake: Lake) -> None:
    lake.table().overwrite(lake.table().scan().to_arrow())


@pytest.mark.parametrize("meanwhile", [foreign, compacted])
@pytest.mark.parametrize("step", GAPS)
def test_other_writers_at_each_step(lake: Lake, step: str, meanwhile: Any) -> None:
    sink = writer(lake)
    sink.write(0, totals({"a": 0, "b": 0}))
    stopped_at(sink, step, lambda: meanwhile(lake))
    assert sink.write(1, totals({"a": 1, "c": 1})) == Written(repeated=False)
    if meanwhile is foreign and step in ("committed", "lost"):
        assert lake.numbers() == [0, 1, 1, 100]
        return
    assert content(lake) == {"a": 1, "b": 0, "c": 1}
    files = [task.file.file_path for task in lake.table().scan().plan_files()]
    there = {str(path) for path in lake.data.rglob("tenure-*/**/e00000001/b000000000001/*/*.parquet")}
    if meanwhile is foreign:
        assert there == {path.removeprefix("file://") for path in files if "/b000000000001/" in path}, "no lost copies"


@pytest.mark.parametrize("twice", [False, True])
def test_a_lost_reply_and_a_commit_that_arrives_twice(lake: Lake, twice: bool) -> None:
    sink = writer(lake)
    sink.twice = twice
    sink.write(0, totals({"a": 0, "b": 0}))
    if not twice:
        stopped_at(sink, "lost", lambda: None)
    assert sink.write(1, totals({"a": 1})) == Written(repeated=False)
    assert content(lake) == {"a": 1, "b": 0}


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_table_with_files_of_deletions_is_refused(lake: Lake, mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg writes none; other engines do."""
    from pyiceberg.manifest import ManifestContent, ManifestFile

    lake.writer(mode=mode, key=["n"] if mode == "update" else ()).write(0, Rows(n=[1]))
    monkeypatch.setattr(ManifestFile, "content", ManifestContent.DELETES)
    sink = lake.writer(mode=mode, key=["n"] if mode == "update" else ())
    with pytest.raises(UsageError, match="has files of deletions, which this mode does not read"):
        sink.write(1, Rows(n=[2]))


def test_a_table_that_was_emptied(lake: Lake) -> None:
    sink = writer(lake)
    sink.write(0, totals({"a": 0}))
    emptied(lake)
    assert sink.write(1, totals({"a": 1})) == Written(repeated=False)
    assert content(lake) == {"a": 1}
