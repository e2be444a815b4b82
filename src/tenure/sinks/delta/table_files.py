"""The files of a table's snapshot, and those that may have a key: by their statistics, as delta-rs lists them.

Promise: no file with a key of the batch is passed over. Statistics may be bounds that were cut: text at some character,
a time at its millisecond. Columns of other types, without statistics or with nulls in the batch pass over nothing.
Raises QueryFailed: the table has files of another table (a shallow clone).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import compute as pc

from tenure.errors import QueryFailed

Bounds = tuple[pa.Scalar, pa.Scalar]
"""The least and the greatest value of a column."""
_CUT: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of the snapshot. `path` is relative to the table; a partition value None is null."""

    path: str
    size: int
    partition_values: Mapping[str, str | None]


def may_have(adds: pa.Table, bounds: Mapping[str, Bounds | None]) -> Iterator[TableFile]:
    """The files that may have a row within the bounds. A column whose bounds are None can have any value."""
    for name, both in bounds.items():
        if both is not None and adds.num_rows:
            adds = adds.filter(pc.fill_null(_meets(adds, name, both), True))
    partition = adds["partition"].to_pylist() if "partition" in adds.column_names else [{}] * adds.num_rows
    for path, size, values in zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), partition, strict=True):
        if "://" in path or path.startswith("/"):
            raise QueryFailed(f"the table has the file {path} of another table", fix="copy the table, files and all")
        yield TableFile(unquote(path), size, {name: in_text(value) for name, value in values.items()})


def in_text(value: object) -> str | None:
    """A partition's value as Delta's log has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else None if value is None else str(value)


def _meets(adds: pa.Table, name: str, both: Bounds) -> Any:
    """Whether the files have a value of a column within the bounds; null: nobody knows."""
    low, high = both
    least, most = _of(adds, "partition", name), _of(adds, "partition", name)
    if least is None:
        least, most = _of(adds, "min", name), _of(adds, "max", name)
    if least is None or most is None or least.type != low.type or not _has_bounds(low.type):
        return pa.nulls(adds.num_rows, pa.bool_())
    if pa.types.is_timestamp(low.type):
        low = pc.subtract(low, pa.scalar(_CUT))
    return pc.and_kleene(pc.greater_equal(most, low), pc.less_equal(least, high))


def _of(adds: pa.Table, kind: str, name: str) -> Any:
    """The column `name` of the statistics or the partition; None: there is none."""
    if kind not in adds.column_names:
        return None
    place = adds.schema.field(kind).type.get_field_index(name)
    return None if place < 0 else pc.struct_field(adds[kind], [place])


def _has_bounds(kind: pa.DataType) -> bool:
    return any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_timestamp)
    )
