"""What a manifest says of the files of an attempt: bounds that hold for each row, or none."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs
from pyarrow import parquet as pq
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from tenure.errors import QueryFailed
from tenure.sinks.iceberg.layout import Layout
from tenure.sinks.iceberg.location import DataFolder
from tenure.sinks.iceberg.partitions import PartitionTerm
from tenure.sinks.iceberg.schema import numbered, without_docs
from tenure.sinks.iceberg.staged_files import Describing
from tenure.sinks.staging.stage import PutFile

KINDS = {
    "n": ("long", pa.int64()),
    "i": ("int", pa.int32()),
    "s": ("string", pa.string()),
    "d": ("date", pa.date32()),
    "at": ("timestamptz", pa.timestamp("us", "UTC")),
    "ntz": ("timestamp", pa.timestamp("us")),
    "x": ("double", pa.float64()),
    "dec": ("decimal(5, 2)", pa.decimal128(5, 2)),
    "bin": ("binary", pa.binary()),
    "b": ("boolean", pa.bool_()),
}


def layout_of(columns: dict[str, Any], parts: Sequence[PartitionTerm] = ()) -> Layout:
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    table = without_docs(numbered({"type": "struct", "fields": fields}))
    return Layout("uuid", DataFolder("file:///t/data"), table, 0, tuple(parts), 0, {"fields": []})


def written(layout: Layout, *groups: pa.Table) -> bytes:
    """A Parquet file with the layout's ids, of some row groups."""
    ids = {field["name"]: field["id"] for field in layout.columns["fields"]}
    schema = pa.schema([field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in groups[0].schema])
    out = io.BytesIO()
    with pq.ParquetWriter(out, schema) as writer:
        for group in groups:
            writer.write_table(group.cast(schema))
    return out.getvalue()


def described(layout: Layout, content: bytes, columns: Sequence[str], **properties: str) -> DataFile:
    end = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    puts = [PutFile("part-0.parquet", len(content), 0, end)]
    describing = Describing(layout, Schema.model_validate(layout.columns), properties)
    (file,) = describing.staged(None, "attempt", puts, columns=columns, derived=())
    return file


def bounds(name: str, *groups: Sequence[Any], **properties: str) -> tuple[Any, Any] | None:
    kind, arrow = KINDS[name]
    layout = layout_of({name: kind})
    tables = [pa.table({name: pa.array(list(values), arrow)}) for values in groups]
    file = described(layout, written(layout, *tables), [name], **properties)
    if 1 not in file.lower_bounds:
        assert 1 not in file.upper_bounds
        return None
    of: Any = Schema.model_validate(layout.columns).fields[0].field_type
    return from_bytes(of, file.lower_bounds[1]), from_bytes(of, file.upper_bounds[1])


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("n", [[1, 5], [-7]], (-7, 5)),
        ("n", [[1, None], [None]], (1, 1)),
        ("n", [[None], [None]], None),
        ("i", [[2**31 - 1], [-(2**31)]], (-(2**31), 2**31 - 1)),
        ("d", [[dt.date(1500, 2, 28)], [dt.date(1969, 12, 31)]], (-171606, -1)),
        (
            "at",
            [[dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC)], [dt.datetime(1600, 1, 1, tzinfo=dt.UTC)]],
            (-11676096000000000, -1),
        ),
        ("ntz", [[dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")]], (-1, -1)),
        ("s", [["b"], ["a", None]], ("a", "b")),
        ("s", [["x" * 40], ["a" * 16]], ("a" * 16, "x" * 15 + "y")),
        ("s", [["é" * 20]], ("é" * 16, "é" * 15 + "ê")),
        ("s", [["a" * 15 + "\U0010ffff" * 3]], ("a" * 15 + "\U0010ffff", "a" * 14 + "b")),
        ("s", [["\U0010ffff" * 17]], None),
        ("s", [["a" * 15 + "\ud7ff" + "z"]], ("a" * 15 + "\ud7ff", "a" * 15 + "\ue000")),
        ("s", [[""]], ("", "")),
        ("x", [[1.0], [2.0]], None),
        ("dec", [[Decimal("1.00")]], None),
        ("bin", [[b"x"]], None),
        ("b", [[True]], None),
    ],
)
def test_bounds(name: str, groups: list[list[Any]], expected: tuple[Any, Any] | None) -> None:
    assert bounds(name, *groups) == expected


def test_days_that_python_s_calendar_does_not_have() -> None:
    layout = layout_of({"d": "date"})
    days = pa.array([2_932_897, -720_000], pa.int32()).cast(pa.date32())
    file = described(layout, written(layout, pa.table({"d": days})), ["d"])
    assert file.upper_bounds[1] == (2_932_897).to_bytes(4, "little", signed=True)


def test_a_group_without_bounds_takes_those_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark keeps none of a text that is too long: what the other groups have would hide its rows."""
    layout = layout_of({"s": "string"})
    content = written(layout, pa.table({"s": ["b"]}), pa.table({"s": ["z"]}))
    for place, groups in ((0, 2), (1, 2)):
        footer = _Footer(pq.read_metadata(pa.BufferReader(content)), without=place)
        describing = Describing(layout, Schema.model_validate(layout.columns), {})
        file = describing.described("f", len(content), footer, ids=[1], values=[])
        assert file.record_count == groups
        assert (file.lower_bounds, file.upper_bounds) == ({}, {})
        assert file.null_value_counts == {1: 0}


class _Footer:
    """A footer one of whose groups has no bounds."""

    def __init__(self, footer: Any, *, without: int) -> None:
        self._footer, self._without = footer, without

    def __getattr__(self, name: str) -> Any:
        return getattr(self._footer, name)

    def row_group(self, number: int) -> Any:
        group = self._footer.row_group(number)
        return (
            _Without(group, column=lambda place: _Without(group.column(place), statistics=_NO_BOUNDS))
            if (number == self._without)
            else group
        )


class _Without:
    def __init__(self, real: Any, **instead: Any) -> None:
        self._real, self._instead = real, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead[name] if name in self._instead else getattr(self._real, name)


class _NoBounds:
    has_null_count = True
    null_count = 0
    has_min_max = False


_NO_BOUNDS = _NoBounds()


def test_counts_and_sizes() -> None:
    layout = layout_of({"n": "long", "s": "string"})
    table = pa.table({"n": pa.array([1, None, 3], pa.int64()), "s": ["a", "b", "c"]})
    content = written(layout, table, table)
    file = described(layout, content, ["n", "s"])
    assert file.file_path == "file:///t/data/attempt/part-0.parquet"
    assert (file.record_count, file.file_size_in_bytes) == (6, len(content))
    assert (file.value_counts, file.null_value_counts) == ({1: 6, 2: 6}, {1: 2, 2: 0})
    assert sum(file.column_sizes.values()) < len(content)
    assert file.split_offsets is not None
    assert file.split_offsets[0] == 4
    assert len(file.split_offsets) == 2


def test_the_table_says_which_columns_have_bounds() -> None:
    text = ["x" * 40]
    assert bounds("s", text, **{"write.metadata.metrics.default": "full"}) == (text[0], text[0])
    assert bounds("s", text, **{"write.metadata.metrics.column.s": "truncate(2)"}) == ("xx", "xy")
    assert bounds("n", [1], **{"write.metadata.metrics.default": "counts"}) is None
    assert bounds("n", [1], **{"write.metadata.metrics.column.n": "none"}) is None


def test_files_without_the_table_s_ids_are_refused() -> None:
    """Readers would find no rows, or null in each column."""
    layout = layout_of({"n": "long"})
    out = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), out)
    with pytest.raises(QueryFailed, match="with other field ids than the table's"):
        described(layout, out.getvalue(), ["n"])
    nested = layout_of({"n": "long", "a": {"type": "list", "element": "long"}})
    out = io.BytesIO()
    ids = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table({"n": [1], "a": [[1]]}).cast(pa.schema([ids, ("a", pa.list_(pa.int64()))])), out)
    with pytest.raises(QueryFailed, match="with other field ids than the table's"):
        described(nested, out.getvalue(), ["n", "a"])


@pytest.mark.parametrize("files", [1, 5])
def test_a_footer_that_was_too_long_is_read(tmp_path: Any, files: int) -> None:
    layout = layout_of({"n": "long"}, [PartitionTerm("n", "identity")])
    (tmp_path / "attempt").mkdir()
    puts = []
    for number in range(files):
        folder = tmp_path / "attempt" / f"p={number}"
        folder.mkdir()
        content = written(layout, pa.table({"n": [number]}))
        (folder / "part-0.parquet").write_bytes(content)
        puts.append(PutFile(f"p={number}/part-0.parquet", len(content), 0, b""))
    describing = Describing(layout, Schema.model_validate(layout.columns), {})
    filesystem = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    found = describing.staged(filesystem, "attempt", puts, columns=["n"], derived=["p"])
    assert [file.partition[0] for file in found] == list(range(files))
