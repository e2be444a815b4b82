"""Update mode without Spark: the rows of batches replace rows by their keys, in one commit, as a dictionary would."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import compute as pc

from tenure.errors import QueryFailed
from tenure.sinks.delta import rows_of_files, upsert
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import DeltaLog, app_id_of
from tenure.sinks.delta.staged_files import StagedFile, staged_files
from tenure.sinks.delta.upsert import Merged, Upsert
from tenure.sinks.staging.stage import StagingPath
from tests.properties import examples
from tests.unit.sinks.staged_tables import puts_below

Rows = Sequence[dict[str, Any]]


def delta_columns(**kinds: Any) -> Any:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return {"type": "struct", "fields": fields}


class Table:
    """A table into which batches are merged as a leader does it."""

    def __init__(
        self, path: Path, kinds: dict[str, Any], *, key: Sequence[str], partition_by: Sequence[str] = ()
    ) -> None:
        self.path = path
        self.kinds = kinds
        self.key = key
        self.partition_by = partition_by
        self.columns = delta_columns(**kinds)
        self.schema = upsert.arrow_schema(self.columns)
        self.location = Location.of(path)
        self.log = DeltaLog(self.location, app_id=app_id_of("rows", "copy", "id"), storage_options={})
        self.log.refresh()
        if not self.log.exists:
            self.log.create(self.columns, partition_by=partition_by, name=None)
        self._batch = 0

    def stage(self, rows: Rows, attempt: str, *, files: int = 2) -> list[StagedFile]:
        """Files as Spark's tasks put them: without the partition's columns, which are in the directories."""
        for number in range(files):
            groups: dict[str, list[dict[str, Any]]] = {}
            for row in rows[number::files]:
                groups.setdefault("".join(f"{_folder(name, row[name])}/" for name in self.partition_by), []).append(row)
            for folder, some in groups.items():
                inside = pa.schema([field for field in self.schema if field.name not in self.partition_by])
                made = pa.Table.from_pylist([{f.name: row[f.name] for f in inside} for row in some], inside)
                path = self.path / attempt / "rows" / f"{folder}part-{number}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(made, path, row_group_size=2, store_schema=False)
        puts = puts_below(self.path / attempt / "rows")
        filesystem = self.location.filesystem({})
        return staged_files(
            filesystem, f"{attempt}/rows", puts, columns=self.kinds, partition_by=tuple(self.partition_by)
        )

    def merge(self, rows: Rows) -> Merged:
        attempt = str(StagingPath("rows", "copy", "id", 1, self._batch, os.urandom(16).hex()))
        by_key = Upsert(self.location.filesystem({}), self.stage(rows, attempt), self.schema, key=self.key)
        by_key.refuse_duplicates(batch=self._batch, where="t")
        self.log.refresh()
        merged = by_key.merge(self.log.files(), attempt, columns=self.kinds, partition_by=self.partition_by)
        self.log.add(merged.added, mode="append", batch=self._batch, attempt=attempt, removed=merged.removed)
        self._batch += 1
        return merged

    def rows(self) -> list[dict[str, Any]]:
        found = QueryBuilder().register("t", DeltaTable(str(self.path))).execute("select * from t").read_all()
        rows: list[dict[str, Any]] = pa.table(found).to_pylist()
        return rows

    def content(self) -> dict[Any, dict[str, Any]]:
        rows = self.rows()
        found = {tuple(row[name] for name in self.key): row for row in rows}
        assert len(found) == len(rows), "a key stands twice"
        return found


def _folder(name: str, value: Any) -> str:
    return f"{quote(name, safe='')}=" + ("__HIVE_DEFAULT_PARTITION__" if value is None else quote(str(value), safe=""))


KEYS = st.tuples(st.sampled_from(["a", "b", "é", "", None]), st.one_of(st.none(), st.integers(-2, 2)))
BATCHES = st.lists(st.lists(KEYS, unique=True, min_size=1, max_size=8), min_size=1, max_size=4)


@pytest.mark.parametrize(("part", "partition_by"), [(2, []), (1_000_000, ["p"]), (2, ["p", "k.1"])])
@settings(max_examples=examples(12))
@given(batches=BATCHES)
def test_batches_replace_rows_by_keys(
    tmp_path_factory: pytest.TempPathFactory, part: int, partition_by: list[str], batches: list[list[Any]]
) -> None:
    kinds = {"k.1": "long", "v`": "long", "k": delta_columns(**{"1": "long"}), ".k": "string", "p": "string"}
    table = Table(tmp_path_factory.mktemp("t"), kinds, key=[".k", "k.1"], partition_by=partition_by)
    model: dict[Any, dict[str, Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upsert, "PART", part)
        for number, keys in enumerate(batches):
            rows = [
                {".k": text, "k.1": whole, "v`": number, "k": {"1": number}, "p": f"{'x/y'[number % 3]}%"}
                for text, whole in keys
            ]
            model.update({(row[".k"], row["k.1"]): row for row in rows})
            table.merge(rows)
            assert table.content() == model


NEW_YEAR = dt.datetime(2024, 1, 1, 0, 0, 0, 999, tzinfo=dt.UTC)


@pytest.mark.parametrize("with_null", [False, True])
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("byte", [-128, 0, 127]),
        ("short", [-1, 0, 1]),
        ("integer", [-1, 0, 1]),
        ("long", [-(2**63), 0, 2**63 - 1]),
        ("boolean", [False, True]),
        ("string", ["", "a" * 100, "\U0001f600"]),
        ("binary", [b"", b"\x00", b"\xff"]),
        ("date", [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
        ("timestamp", [NEW_YEAR, dt.datetime(1500, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
        ("timestamp_ntz", [NEW_YEAR.replace(tzinfo=None)]),
        ("decimal(38,3)", [Decimal("-1.500"), Decimal("0.000"), Decimal(10**30)]),
    ],
)
def test_each_type_of_a_key(tmp_path: Path, kind: str, values: list[Any], with_null: bool) -> None:
    table = Table(tmp_path, {"k": kind, "n": "long"}, key=["k"])
    keys = values + [None] * with_null
    table.merge([{"k": key, "n": 0} for key in keys])
    for number, key in enumerate(keys, start=1):
        before = table.content()
        table.merge([{"k": key, "n": number}])
        assert table.content() == {**before, (key,): {"k": key, "n": number}}


def test_files_without_a_key_of_the_batch_stay(tmp_path: Path) -> None:
    table = Table(tmp_path, {"k": "long", "n": "long"}, key=["k"])
    for first in (0, 10, 20):
        table.merge([{"k": key, "n": 0} for key in range(first, first + 10)])
    before = set(pa.table(table.log.files())["path"].to_pylist())
    merged = table.merge([{"k": 13, "n": 1}, {"k": 99, "n": 1}])
    assert [file.path for file in merged.removed] == [path for path in before if "/b000000000001/" in path]
    assert sum(file.rows for file in merged.added) == 11
    (added,) = merged.added
    assert json.loads(added.stats)["maxValues"] == {"k": 99, "n": 1}


def test_the_files_of_other_writers_are_read_as_the_table_has_them(tmp_path: Path) -> None:
    """Columns that came later are missing in older files, the order is another, times have nanoseconds."""
    at = dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    older = pa.table({"t": pa.array([at, at.replace(second=2)], pa.timestamp("us", tz="UTC")), "k": ["a", "b"]})
    write_deltalake(tmp_path, older)
    write_deltalake(tmp_path, pa.table({"n": [7], "k": pa.array(["c"]), "t": [at]}), mode="append", schema_mode="merge")
    for uri in DeltaTable(str(tmp_path)).file_uris():
        rows = pq.read_table(uri, partitioning=None)
        place = rows.column_names.index("t")
        finer = rows.set_column(place, "t", rows["t"].cast(pa.timestamp("ns", tz="UTC")))
        pq.write_table(finer, uri)
    table = Table(tmp_path, {"t": "timestamp", "k": "string", "n": "long"}, key=["k"])
    table.merge([{"t": at, "k": "b", "n": 1}, {"t": at, "k": "c", "n": 2}])
    assert {row["k"]: (row["n"], row["t"]) for row in table.rows()} == {"a": (None, at), "b": (1, at), "c": (2, at)}


def test_a_null_is_looked_for_in_each_file(tmp_path: Path) -> None:
    table = Table(tmp_path, {"k": "long", "n": "long"}, key=["k"])
    table.merge([{"k": None, "n": 0}, {"k": 1, "n": 0}])
    table.merge([{"k": None, "n": 1}, {"k": 50, "n": 1}])
    assert {key: row["n"] for (key,), row in table.content().items()} == {None: 1, 1: 0, 50: 1}


def test_a_time_that_another_writer_has_cut_is_found(tmp_path: Path) -> None:
    """Spark's own writer of Delta cuts the bounds of times to milliseconds."""
    table = Table(tmp_path, {"k": "timestamp", "n": "long"}, key=["k"])
    table.merge([{"k": NEW_YEAR, "n": 0}])
    log = tmp_path / "_delta_log" / f"{1:020d}.json"
    log.write_text(log.read_text().replace("00:00:00.000999Z", "00:00:00.000Z"))
    table.log.refresh()
    table.merge([{"k": NEW_YEAR, "n": 1}])
    assert table.content() == {(NEW_YEAR,): {"k": NEW_YEAR, "n": 1}}


def test_each_part_of_a_batch_replaces_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upsert, "PART", 3)
    table = Table(tmp_path, {"k": "long", "n": "long"}, key=["k"])
    table.merge([{"k": key, "n": 0} for key in range(20)])
    table.merge([{"k": key, "n": 1} for key in range(5, 15)])
    assert {key: row["n"] for (key,), row in table.content().items()} == {key: int(5 <= key < 15) for key in range(20)}


@pytest.mark.parametrize("part", [1, 2, 1_000_000])
def test_a_key_that_stands_twice_is_refused(tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upsert, "PART", part)
    table = Table(tmp_path, {"k": "string", "n": "long"}, key=["k"])
    with pytest.raises(QueryFailed, match=r"batch 0 for t has the key \{'k': None\} (2|several) times"):
        table.merge([{"k": key, "n": 0} for key in ("a", None, "b", "c", None)])
    assert table.rows() == []


def test_large_output_is_cut_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of_files, "_GROUP", 100)
    monkeypatch.setattr(rows_of_files, "_FILE", 1000)
    monkeypatch.setattr(rows_of_files, "_ROWS", 10)
    table = Table(tmp_path, {"k": "long", "n": "long"}, key=["k"])
    table.merge([{"k": key, "n": 0} for key in range(200)])
    merged = table.merge([{"k": 5, "n": 1}])
    assert len(merged.added) > 1
    assert table.content() == {(key,): {"k": key, "n": int(key == 5)} for key in range(200)}


def test_a_file_of_another_table_is_refused(tmp_path: Path) -> None:
    table = Table(tmp_path, {"k": "long", "n": "long"}, key=["k"])
    table.merge([{"k": 1, "n": 0}])
    table.log.refresh()
    listed = table.log.files()
    elsewhere = pa.array(["s3://other/part.parquet"])
    listed = listed.set_column(listed.column_names.index("path"), "path", elsewhere)
    attempt = str(StagingPath("rows", "copy", "id", 1, 9, os.urandom(16).hex()))
    by_key = Upsert(table.location.filesystem({}), table.stage([{"k": 1, "n": 1}], attempt), table.schema, key=["k"])
    with pytest.raises(QueryFailed, match="another table"):
        by_key.merge(listed, attempt, columns=table.kinds, partition_by=())
    assert pc.sum(pa.array([row["n"] for row in table.rows()])).as_py() == 0
