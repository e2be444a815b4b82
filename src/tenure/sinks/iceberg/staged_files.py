"""The Parquet files of one attempt, as a manifest of the table will describe them.

Promise: every file that a task of the attempt committed, with its size, its partition and its statistics. Bounds are
bounds: a reader that skips files by them never misses a row. A column without certain and cheap bounds has none. The
storage is asked only for a footer that is too long to be sent.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq
from pyiceberg.io.pyarrow import MetricModeTypes, compute_statistics_plan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from tenure.errors import QueryFailed
from tenure.sinks.iceberg.layout import Layout, leaf_ids
from tenure.sinks.iceberg.partitions import values_of
from tenure.sinks.staging.stage import PutFile, partition_values

_LONGEST_BOUND: Final = 4096
"""Of text, where the table keeps it whole."""
_READERS: Final = 8


class Describing:
    """Describes the files of one layout. `schema` and `properties`: the table's."""

    def __init__(self, layout: Layout, schema: Schema, properties: Mapping[str, str]) -> None:
        self._layout = layout
        self._kinds = {field.field_id: str(field.field_type) for field in schema.fields}
        plan = compute_statistics_plan(schema, dict(properties))
        self._modes = {number: one.mode for number, one in plan.items()}

    def staged(
        self,
        filesystem: Any,
        directory: str,
        puts: Sequence[PutFile],
        *,
        columns: Sequence[str],
        derived: Sequence[str],
    ) -> list[DataFile]:
        """The files that tasks put below `directory`. `columns`: of the rows, in order. `derived`: those by which the
        tasks split the rows."""
        ids = leaf_ids(self._layout.columns, columns)

        def describe(put: PutFile) -> DataFile:
            path = f"{directory}/{put.path}"
            footer = (
                pq.read_metadata(pa.BufferReader(put.end)) if put.end else pq.read_metadata(path, filesystem=filesystem)
            )
            texts = partition_values(put.path, derived)
            values = values_of(self._layout.parts, self._layout.columns, [texts[name] for name in derived])
            return self.described(path, put.size, footer, ids=ids, values=values)

        found = sorted(puts, key=lambda put: put.path)
        if sum(not put.end for put in found) <= 2:  # a thread costs more than reading two footers
            return [describe(put) for put in found]
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(describe, found))

    def described(
        self, path: str, size: int, footer: Any, *, ids: Sequence[int | None], values: Sequence[Any]
    ) -> DataFile:
        """A file that a task has put below the table's folder of data. `ids`: of its columns in their order; `values`:
        of its partition. Raises QueryFailed: readers would not find its columns."""
        if _ids_in(footer.schema.to_arrow_schema()) != (list(ids) if self._layout.has_ids else [None] * len(ids)):
            raise QueryFailed(
                f"Spark has written {path} with other field ids than the table's",
                fix="report this, with the query's plan (rows.explain())",
            )
        order_id = self._layout.order_id if self._layout.sorted_by else None
        return self._file(path, size, footer, ids=ids, partition=Record(*values), order_id=order_id)

    def copied(self, path: str, size: int, footer: Any, file: DataFile) -> DataFile:
        """A file that this process has written with all columns of the table, beside `file`, of whose partition it
        is."""
        ids = leaf_ids(self._layout.columns, [field["name"] for field in self._layout.columns["fields"]])
        return self._file(path, size, footer, ids=ids, partition=file.partition, order_id=None)

    def _file(
        self,
        path: str,
        size: int,
        footer: Any,
        *,
        ids: Sequence[int | None],
        partition: Record,
        order_id: int | None,
    ) -> DataFile:
        arguments: dict[str, Any] = self._statistics(footer, ids)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._layout.location.named(path),
            file_format=FileFormat.PARQUET,
            partition=partition,
            record_count=footer.num_rows,
            file_size_in_bytes=size,
            sort_order_id=order_id,
            equality_ids=None,
            key_metadata=None,
            split_offsets=sorted(map(_offset, _groups(footer))),
            **arguments,
        )
        file.spec_id = self._layout.spec_id
        return file

    def _statistics(self, footer: Any, ids: Sequence[int | None]) -> dict[str, dict[int, Any]]:
        places = {number: place for place, number in enumerate(ids) if number is not None}
        if footer.num_columns != len(ids):
            places = {}  # the file has other columns
        sizes: dict[int, int] = {}
        counts: dict[int, int] = {}
        nulls: dict[int, int] = {}
        low: dict[int, bytes] = {}
        high: dict[int, bytes] = {}
        for number, place in places.items():
            chunks = [group.column(place) for group in _groups(footer)]
            mode = self._modes[number]
            sizes[number] = sum(chunk.total_compressed_size for chunk in chunks)
            if mode.type is MetricModeTypes.NONE:
                continue
            counts[number] = sum(chunk.num_values for chunk in chunks)
            found = _ColumnBounds.of(chunks)
            if found is None:
                continue
            nulls[number] = found.nulls
            bounds = _SHOWN.get(self._kinds.get(number, ""), _none)
            if mode.type is not MetricModeTypes.COUNTS and found.certain:
                both = bounds(found.low, found.high, mode.length)
                if both is not None:
                    low[number], high[number] = both
        return {
            "column_sizes": sizes,
            "value_counts": counts,
            "null_value_counts": nulls,
            "nan_value_counts": {},
            "lower_bounds": low,
            "upper_bounds": high,
        }


def _ids_in(inside: Any) -> list[int | None]:
    """The field ids of the columns of a Parquet file, from its schema in Arrow's types; None: a column has none."""
    found: list[int | None] = []
    for place in range(inside.num_fields if isinstance(inside, pa.DataType) else len(inside)):
        field = inside.field(place)
        if pa.types.is_nested(field.type):
            found += _ids_in(field.type)
        else:
            text = (field.metadata or {}).get(b"PARQUET:field_id")
            found.append(None if text is None else int(text))
    return found


def _groups(footer: Any) -> list[Any]:
    return [footer.row_group(number) for number in range(footer.num_row_groups)]


def _offset(group: Any) -> int:
    """Where a row group begins."""
    column = group.column(0)
    data, dictionary = int(column.data_page_offset), column.dictionary_page_offset
    return min(data, int(dictionary)) if column.has_dictionary_page and dictionary else data


class _ColumnBounds:
    """Least and greatest value of one column in one file, as its footer has them; meaningless unless `certain`."""

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.nulls = 0
        self.certain = True

    @classmethod
    def of(cls, chunks: Sequence[Any]) -> _ColumnBounds | None:
        """None: a chunk does not count its nulls."""
        bounds = cls()
        for chunk in chunks:
            found = chunk.statistics
            if found is None or not found.has_null_count:
                return None
            bounds.nulls += found.null_count
            if found.null_count == chunk.num_values:
                continue
            if not found.has_min_max:  # NaN, or a text that is too long: a bound of the other chunks would be none
                bounds.certain = False
                continue
            low, high = found.min_raw, found.max_raw  # also where Python's calendar does not have the day
            bounds.low = low if bounds.low is None else min(low, bounds.low)
            bounds.high = high if bounds.high is None else max(high, bounds.high)
        bounds.certain = bounds.certain and bounds.low is not None
        return bounds


Both = tuple[bytes, bytes]


def _none(low: Any, high: Any, length: int | None) -> Both | None:
    return None


def _packed(code: str) -> Callable[[Any, Any, int | None], Both | None]:
    def both(low: Any, high: Any, length: int | None) -> Both | None:
        if not isinstance(low, int) or not isinstance(high, int):
            return None
        return struct.pack(code, low), struct.pack(code, high)

    return both


def _text(low: Any, high: Any, length: int | None) -> Both | None:
    if not isinstance(low, bytes) or not isinstance(high, bytes):
        return None
    most = _LONGEST_BOUND if length is None else length
    try:
        least, greatest = low.decode()[:most], _above(high.decode(), most)
    except UnicodeDecodeError:
        return None
    return None if greatest is None else (least.encode(), greatest.encode())


def _above(text: str, length: int) -> str | None:
    """The text, or a shorter text that is greater; None: there is none."""
    if len(text) <= length:
        return text
    for place in range(length - 1, -1, -1):
        following = ord(text[place]) + 1
        if following == 0xD800:  # no characters until there
            following = 0xE000
        if following <= 0x10FFFF:
            return text[:place] + chr(following)
    return None


# No bounds for floating point (NaN has no order), decimals, binaries and columns within others.
_SHOWN: Final[Mapping[str, Callable[[Any, Any, int | None], Both | None]]] = {
    "int": _packed("<i"),
    "date": _packed("<i"),
    "long": _packed("<q"),
    "timestamp": _packed("<q"),
    "timestamptz": _packed("<q"),
    "string": _text,
}
