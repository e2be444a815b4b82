"""What a table's log will say of a staged file, read from the file."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from tenure.sinks.delta.staged_files import staged_files
from tenure.sinks.staging.stage import partition_values, strays
from tests.unit.sinks.staged_tables import puts_below

NO_STORAGE: Any = None
"""Nothing is read."""
NEW_YEAR = dt.datetime(2024, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)
UTC_TIME = pa.timestamp("us", tz="UTC")


def described(tmp_path: Path, kind: str, values: list[Any], arrow: pa.DataType, **options: Any) -> dict[str, Any]:
    (tmp_path / "staged").mkdir(exist_ok=True)
    pq.write_table(pa.table({"c": pa.array(values, arrow)}), tmp_path / "staged" / "part-0.parquet", **options)
    root = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    puts = puts_below(tmp_path / "staged")
    (file,) = staged_files(NO_STORAGE, "staged", puts, columns={"c": kind}, partition_by=[])
    puts = puts_below(tmp_path / "staged", sent=False)
    assert staged_files(root, "staged", puts, columns={"c": kind}, partition_by=[]) == [file]
    assert file.path == "staged/part-0.parquet"
    assert file.size == (tmp_path / file.path).stat().st_size
    assert file.modified_ms == (tmp_path / file.path).stat().st_mtime_ns // 1_000_000
    assert file.rows == len(values)
    found: dict[str, Any] = json.loads(file.stats)
    assert found["numRecords"] == len(values)
    return found


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "bounds"),
    [
        ("long", pa.int64(), [3, None, -5], (-5, 3)),
        ("byte", pa.int8(), [3, -5], (-5, 3)),
        ("string", pa.string(), ["é", "b", "A"], ("A", "é")),
        ("date", pa.date32(), [dt.date(2024, 2, 29), dt.date(1, 1, 1)], ("0001-01-01", "2024-02-29")),
        (
            "timestamp",
            UTC_TIME,
            [dt.datetime(2024, 1, 1, microsecond=1, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, tzinfo=dt.UTC)],
            ("1969-12-31T00:00:00.000000Z", "2024-01-01T00:00:00.000001Z"),
        ),
        ("timestamp_ntz", pa.timestamp("us"), [NEW_YEAR], ("2024-01-01T00:00:00.000000",) * 2),
    ],
)
def test_bounds(tmp_path: Path, kind: str, arrow: Any, values: list[Any], bounds: tuple[Any, Any]) -> None:
    for group in (1, 100):
        found = described(tmp_path, kind, values, arrow, row_group_size=group)
        assert (found["minValues"], found["maxValues"]) == ({"c": bounds[0]}, {"c": bounds[1]})
        assert found["nullCount"] == {"c": values.count(None)}


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        ("double", pa.float64(), [1.0, float("nan")]),
        ("string", pa.string(), ["short", "x" * 100]),
        ("long", pa.int64(), [None, None]),
        ({"type": "array", "elementType": "long", "containsNull": True}, pa.list_(pa.int64()), [[1], [2]]),
    ],
)
def test_no_bounds_where_they_are_not_certain_or_not_cheap(
    tmp_path: Path, kind: Any, arrow: Any, values: list[Any]
) -> None:
    found = described(tmp_path, kind, values, arrow)
    assert (found["minValues"], found["maxValues"]) == ({}, {})


def test_no_bounds_without_statistics_in_the_file(tmp_path: Path) -> None:
    found = described(tmp_path, "long", [1, 2], pa.int64(), write_statistics=False)
    assert found == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {}}


@pytest.mark.parametrize(("indexed", "names"), [(0, []), (2, ["a"]), (3, ["a", "z"]), (32, ["a", "z"])])
def test_the_first_columns_have_statistics_nested_ones_counted(tmp_path: Path, indexed: int, names: list[str]) -> None:
    struct = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    pq.write_table(pa.table({"a": [1], "s": [{"x": 2}], "z": [3]}), tmp_path / "part-0.parquet")
    columns = {"p": "string", "a": "long", "s": struct, "z": "long"}
    (file,) = staged_files(
        NO_STORAGE, "staged", puts_below(tmp_path), columns=columns, partition_by=["p"], indexed=indexed
    )
    assert list(json.loads(file.stats)["minValues"]) == names


def test_the_files_are_those_of_the_tasks_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("part-1.parquet", "part-0.parquet", "part-0-of-a-lost-task.parquet"):
        (tmp_path / "staged").mkdir(exist_ok=True)
        pq.write_table(pa.table({"c": [1]}), tmp_path / "staged" / name)
    (tmp_path / "staged" / ".part-0.parquet.crc").write_bytes(b"sums")
    root = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    puts = [put for put in reversed(puts_below(tmp_path / "staged")) if "lost" not in put.path]
    found = staged_files(NO_STORAGE, "staged", puts, columns={"c": "long"}, partition_by=[])
    assert [file.path for file in found] == ["staged/part-0.parquet", "staged/part-1.parquet"]
    assert strays(root, "staged", {file.path for file in found}) == ["staged/part-0-of-a-lost-task.parquet"]
    assert strays(root, "elsewhere", ()) == []


def test_partition_values_come_from_directories() -> None:
    path = "p=a b%2Fc%3Dd%25/q=__HIVE_DEFAULT_PARTITION__/part-0.parquet"
    assert partition_values(path, ["p", "q"]) == {"p": "a b/c=d%", "q": None}
    assert partition_values("part-0.parquet", []) == {}
    assert partition_values("a%3Db=1/x=y.parquet", ["a=b"]) == {"a=b": "1"}


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1), st.integers(1, 5))
def test_bounds_enclose_every_value(tmp_path_factory: pytest.TempPathFactory, values: list[Any], group: int) -> None:
    found = described(tmp_path_factory.mktemp("t"), "long", values, pa.int64(), row_group_size=group)
    whole = [value for value in values if value is not None]
    assert found["minValues"] == ({"c": min(whole)} if whole else {})
    assert found["maxValues"] == ({"c": max(whole)} if whole else {})
    assert found["nullCount"] == {"c": values.count(None)}
