"""Update mode: the rows of a batch replace the rows of the table with the same key.

Each file of the table with such a row is copied without it. One commit removes these files, and adds the copies and the
files of the batch. Promise: a batch in which a key stands twice is refused. A null in a key column equals a null, as in
Spark's grouping. The driver's memory has the keys of the batch, and the rows of one file of the table at a time. A file
is passed over only by its bounds and partitions. Raises the errors of pyiceberg and pyarrow; UsageError: a file has
another partition spec than the table.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from tenure.errors import QueryFailed, UsageError
from tenure.sinks.iceberg.layout import Layout
from tenure.sinks.iceberg.schema import NAME_MAPPING, name_mapping
from tenure.sinks.iceberg.staged_files import Describing

_NULL: Final = "-"
"""Stands for a null in a key; a value begins with the number of its characters."""


@dataclass(frozen=True, slots=True)
class CopiedFiles:
    """The files of a commit, beside those of the batch."""

    added: Sequence[DataFile]
    removed: Sequence[DataFile]


class KeyedRows:
    """The rows of a batch, by their keys."""

    def __init__(self, table: Table, files: Sequence[DataFile], *, key: Sequence[str]) -> None:
        """Read the keys. `files`: of the batch, which were staged for the table."""
        self._key = key
        self._rows = _read(table, files, key)
        self._texts = _texts(self._rows)

    def refuse_duplicates(self, *, batch: int, where: str) -> None:
        """Raise QueryFailed when a key stands twice in the batch: the sink cannot know the right row."""
        counted = pa.table({"key": self._texts}).group_by("key").aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, 1)
        if twice.num_rows:
            place = pc.index(self._texts, twice["key"][0]).as_py()
            first = {name: self._rows[name][place].as_py() for name in self._key}
            raise QueryFailed(
                f"batch {batch} for {where} has the key {first} {twice['count_all'][0].as_py()} times",
                fix="make the key name one row, or aggregate by it",
            )

    def merge(self, table: Table, layout: Layout, describing: Describing, *, directory: str, where: str) -> CopiedFiles:
        """Write the copies below `directory`, in the folder of the table's data."""
        filesystem = layout.location.filesystem(table.io.properties)
        added, removed = [], []
        for file in self._candidates(table):
            hit = self._matches(_read(table, [file], self._key))
            if not pc.any(hit, min_count=0).as_py():
                continue
            if file.spec_id != layout.spec_id:
                raise UsageError(
                    f"{where} has files of an earlier partition spec, such as {file.file_path}",
                    fix="rewrite its data files, or use another table",
                )
            removed.append(file)
            rows = _read(table, [file], [field.name for field in table.schema().fields])
            assert rows.num_rows == len(hit), "the file has changed"
            rows = rows.filter(pc.invert(hit))
            if rows.num_rows:
                path = f"{directory}/{uuid.uuid4().hex}.parquet"
                size, footer = _write(filesystem, path, rows, table.schema())
                added.append(describing.copied(path, size, footer, file))
        return CopiedFiles(added, removed)

    def _candidates(self, table: Table) -> Iterator[DataFile]:
        """The files of the table that may have a key of the batch."""
        for task in table.scan(row_filter=_bounds(self._rows)).plan_files():
            yield task.file

    def _matches(self, rows: pa.Table) -> pa.Array:
        """For each row, whether its key is among those of the batch."""
        return pc.is_in(_texts(rows), value_set=self._texts)


def _read(table: Table, files: Sequence[DataFile], columns: Sequence[str]) -> pa.Table:
    """These columns of files, in the types of the table, one row after the other."""
    metadata = table.metadata
    if NAME_MAPPING not in metadata.properties:  # the commit sets it, where files have no ids
        mapping = json.dumps(name_mapping(metadata.schema().model_dump(mode="json")))
        metadata = metadata.model_copy(update={"properties": {**metadata.properties, NAME_MAPPING: mapping}})
    scan = ArrowScan(metadata, table.io, table.schema().select(*columns), AlwaysTrue())
    return scan.to_table([FileScanTask(file) for file in files])


def _bounds(rows: pa.Table) -> BooleanExpression:
    """What each row with a key of the batch fulfils."""
    found: BooleanExpression = AlwaysTrue()
    for name in rows.column_names:
        column = rows[name]
        if column.null_count or not len(column):
            continue
        both = pc.min_max(column)
        try:
            low, high = both["min"].as_py(), both["max"].as_py()
        except (OverflowError, ValueError):  # a date that Python's calendar does not have
            continue
        found = And(found, GreaterThanOrEqual(term=name, value=low), LessThanOrEqual(term=name, value=high))
    return found


def _texts(keys: pa.Table) -> pa.Array:
    """Each key as a text of its own."""
    parts = []
    for name in keys.column_names:
        column = keys[name]
        if pa.types.is_temporal(column.type):  # whose text would need the machine's table of time zones
            column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
        text = column.cast(pa.large_string())
        length = pc.utf8_length(text).cast(pa.large_string())
        part = pc.binary_join_element_wise(length, text, pa.scalar(":", pa.large_string()))
        parts.append(pc.fill_null(part, _NULL))
    joined = pc.binary_join_element_wise(*parts, pa.scalar(",", pa.large_string()))
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _write(filesystem: Any, path: str, rows: pa.Table, schema: Schema) -> tuple[int, Any]:
    """Write a file with field ids; its size, and its footer."""
    footers: list[Any] = []
    of_file = schema_to_pyarrow(schema)
    with filesystem.open_output_stream(path) as out:
        with pq.ParquetWriter(out, of_file, store_schema=False, metadata_collector=footers) as writer:
            writer.write_table(rows.cast(of_file))
        size = out.tell()
    return size, footers[0]
