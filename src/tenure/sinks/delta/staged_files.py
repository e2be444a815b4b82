"""The Parquet files of one attempt, as the table's log will describe them.

Promise: every file that a task of the attempt committed, with its size, its partition values and its statistics.
Statistics are bounds: a reader that skips files by them never misses a row. A column without certain and cheap bounds
has none. The storage is asked only for a footer that is too long to be sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

from tenure.sinks.staging.stage import PutFile, partition_values

INDEXED: Final = 32
"""The columns of a file that have statistics, unless the table's properties say how many."""
_LONGEST_BOUND = 64
_READERS = 8


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file. `path` is relative to the table; a partition value None is null."""

    path: str
    size: int
    modified_ms: int
    partition_values: Mapping[str, str | None]
    rows: int
    stats: str


def staged_files(
    filesystem: Any,
    directory: str,
    puts: Sequence[PutFile],
    *,
    columns: Mapping[str, Any],
    partition_by: Sequence[str],
    indexed: int = INDEXED,
) -> list[StagedFile]:
    """The files that tasks put below `directory`. `columns`: the Delta type of each column of the rows, in order."""
    inside = {name: kind for name, kind in columns.items() if name not in partition_by}

    def describe(put: PutFile) -> StagedFile:
        path = f"{directory}/{put.path}"
        footer = (
            pq.read_metadata(pa.BufferReader(put.end)) if put.end else pq.read_metadata(path, filesystem=filesystem)
        )
        values = partition_values(put.path, partition_by)
        return StagedFile(path, put.size, put.modified_ms, values, footer.num_rows, statistics(footer, inside, indexed))

    found = sorted(puts, key=lambda put: put.path)
    if sum(not put.end for put in found) <= 2:  # a thread costs more than reading two footers
        return [describe(put) for put in found]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(describe, found))


def written_file(
    filesystem: Any,
    path: str,
    footer: Any,
    *,
    columns: Mapping[str, Any],
    partition_values: Mapping[str, str | None],
    indexed: int = INDEXED,
) -> StagedFile:
    """A file that this process has written. `columns`: the Delta type of each column of the file, in their order."""
    (info,) = filesystem.get_file_info([path])
    modified_ms = info.mtime_ns // 1_000_000
    stats = statistics(footer, columns, indexed)
    return StagedFile(path, info.size, modified_ms, partition_values, footer.num_rows, stats)


def statistics(footer: Any, columns: Mapping[str, Any], indexed: int = INDEXED) -> str:
    """Delta's statistics of one file as JSON; from its footer alone. `columns`: the Delta type of each column of the
    file, in their order. `indexed`: the number of columns that can have statistics, nested ones counted."""
    places = {name: place for name, place in leaves(columns).items() if place < indexed}
    if footer.num_columns != sum(map(_width, columns.values())):
        places = {}  # Spark has written other columns
    bounds = {name: _Bounds() for name in places}
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for name, place in places.items():
            bounds[name].take(row_group.column(place))
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    for name, found in bounds.items():
        least, most = _SHOWN[columns[name]](found.low), _SHOWN[columns[name]](found.high)
        if found.certain and least is not None and most is not None:
            low[name], high[name] = least, most
    nulls = {name: found.nulls for name, found in bounds.items() if found.certain}
    return json.dumps({"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def leaves(columns: Mapping[str, Any]) -> dict[str, int]:
    """The columns that can have statistics -> the place of each among the columns of a Parquet file. A file names the
    field `b` of a struct `a` as it names a column `a.b`, so that a name finds neither for certain."""
    found, place = {}, 0
    for name, kind in columns.items():
        if isinstance(kind, str) and kind in _SHOWN:
            found[name] = place
        place += _width(kind)
    return found


def _width(kind: Any) -> int:
    """The number of a Parquet file's columns that hold one column of this Delta type."""
    match kind:
        case {"type": "struct", "fields": fields}:
            return sum(_width(field["type"]) for field in fields)
        case {"type": "array", "elementType": element}:
            return _width(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            return _width(key) + _width(value)
        case _:
            return 1


class _Bounds:
    """Least and greatest value of one column in one file, and its nulls; meaningless unless `certain`."""

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.nulls = 0
        self.certain = True

    def take(self, chunk: Any) -> None:
        """Widen the bounds by a column chunk."""
        found = chunk.statistics
        if found is None or not found.has_null_count:
            self.certain = False
            return
        self.nulls += found.null_count
        if found.null_count == chunk.num_values:
            return
        try:
            low, high = (found.min, found.max) if found.has_min_max else (None, None)
        except (OverflowError, ValueError):  # a date that Python's calendar does not have
            low, high = None, None
        if low is None or high is None:
            self.certain = False
            return
        self.low = low if self.low is None else min(low, self.low)
        self.high = high if self.high is None else max(high, self.high)


def _whole(value: object) -> object:
    return value if isinstance(value, int) else None


def _text(value: object) -> object:
    return value if isinstance(value, str) and len(value) <= _LONGEST_BOUND else None


def _day(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else None


def _instant(value: object) -> object:
    if not isinstance(value, datetime):
        return None
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat(timespec="microseconds") + "Z"


def _local(value: object) -> object:
    return value.replace(tzinfo=None).isoformat(timespec="microseconds") if isinstance(value, datetime) else None


# No bounds for floating point (NaN has no order), decimals, binaries and nested columns.
_SHOWN: dict[str, Callable[[object], object]] = {
    "byte": _whole,
    "short": _whole,
    "integer": _whole,
    "long": _whole,
    "string": _text,
    "date": _day,
    "timestamp": _instant,
    "timestamp_ntz": _local,
}
