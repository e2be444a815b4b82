"""Columns were found by their names in text. A Parquet file names the field `b` of a struct `a` as it names a column
`a.b`, so the statistics of a batch took both for one column: a TypeError, or bounds and nulls of the other column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tenure.errors import UsageError
from tenure.sinks.delta.schema import columns_of
from tenure.sinks.delta.staged_files import staged_files
from tests.unit.sinks.staged_tables import puts_below

NO_STORAGE: Any = None
STRUCT = {"type": "struct", "fields": [{"name": "b", "type": "long", "nullable": True, "metadata": {}}]}


def statistics_of(folder: Path, rows: pa.Table, columns: dict[str, Any]) -> dict[str, Any]:
    pq.write_table(rows, folder / "part-0.parquet")
    (file,) = staged_files(NO_STORAGE, "staged", puts_below(folder), columns=columns, partition_by=[])
    found: dict[str, Any] = json.loads(file.stats)
    return found


@pytest.mark.parametrize("struct_first", [True, False])
@pytest.mark.parametrize("values", [["x", None, "y"], [7, None, 9]])
def test_a_column_is_not_the_field_of_a_struct(tmp_path: Path, values: list[Any], struct_first: bool) -> None:
    struct = pa.array([{"b": 1}, {"b": None}, None], pa.struct({"b": pa.int64()}))
    kind = "string" if isinstance(values[0], str) else "long"
    both = [("a", struct, STRUCT), ("a.b", pa.array(values), kind)]
    both = both if struct_first else both[::-1]
    rows = pa.table({name: column for name, column, _ in both})
    found = statistics_of(tmp_path, rows, {name: kind for name, _, kind in both})
    assert found["nullCount"] == {"a.b": 1}
    assert found["minValues"] == {"a.b": values[0]}
    assert found["maxValues"] == {"a.b": values[2]}


def test_a_column_behind_nested_columns_has_its_own_statistics(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "m": pa.array([[("k", {"b": 5})]], pa.map_(pa.string(), pa.struct({"b": pa.int64()}))),
            "l": pa.array([[{"b": 6}]], pa.list_(pa.struct({"b": pa.int64()}))),
            "n": pa.array([7]),
        }
    )
    list_of = {"type": "array", "elementType": STRUCT, "containsNull": True}
    map_of = {"type": "map", "keyType": "string", "valueType": STRUCT, "valueContainsNull": True}
    found = statistics_of(tmp_path, rows, {"m": map_of, "l": list_of, "n": "long"})
    assert found["minValues"] == found["maxValues"] == {"n": 7}


def test_a_file_with_other_columns_has_no_statistics(tmp_path: Path) -> None:
    found = statistics_of(tmp_path, pa.table({"x": [1], "n": [7]}), {"n": "long"})
    assert (found["minValues"], found["nullCount"]) == ({}, {})


def rows_with(*fields: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    made = [{"name": name, "type": "string", "nullable": True, "metadata": metadata} for name, metadata in fields]
    return {"type": "struct", "fields": made}


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(UsageError, match="columns Key and key differ in case only"):
        columns_of(rows_with(("Key", {}), ("key", {})))
    nested = {"type": "struct", "fields": [{"name": "s", "type": rows_with(("A", {}), ("a", {})), "metadata": {}}]}
    with pytest.raises(UsageError, match=r"columns s\.A and s\.a differ in case only"):
        columns_of(nested)


def test_text_that_compares_by_a_collation_is_refused() -> None:
    """Spark's JSON calls such a column `string`; two keys that are one to Spark were two rows of the table."""
    with pytest.raises(UsageError, match=r"column k has the collation spark\.UTF8_LCASE") as raised:
        columns_of(rows_with(("k", {"__COLLATIONS": {"k": "spark.UTF8_LCASE"}})))
    assert "collate(k, 'UTF8_BINARY')" in str(raised.value)
