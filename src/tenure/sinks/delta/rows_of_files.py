"""The rows of Parquet files, chunk by chunk in the types of a table, and a writer of such files.

Promise: a column of the file is found by its name as a whole, upper and lower case alike; a column that the file lacks
is null, and a partition's column has the partition's value. The memory has some chunks of rows. Not promised: that
files with a deletion vector are read as their readers do. Raises OSError and the errors of pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

_ROWS: Final = 2**15
_KEYS: Final = 2**18
"""Rows of a chunk: of whole rows, and of their keys."""
_GROUP: Final = 32 * 2**20
_FILE: Final = 128 * 2**20
"""Bytes of a row group in memory, and of a file."""


class RowsOfFile:
    """The rows of a file of a table, or of a file that was staged for it. `schema`: the table's."""

    def __init__(
        self, filesystem: Any, path: str, schema: pa.Schema, partition_values: Mapping[str, str | None]
    ) -> None:
        self._filesystem = filesystem
        self._path = path
        self._schema = schema
        self.partition_values = partition_values

    def all(self) -> Iterator[pa.RecordBatch]:
        """All columns but the partition's, by the names of the table, in its order."""
        names = [name for name in self._schema.names if name not in self.partition_values]
        yield from self._read(names, names, _ROWS)

    def columns(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns, by their numbers: `0`, `1` and so on."""
        yield from self._read(names, [str(number) for number in range(len(names))], _KEYS)

    def _read(self, names: Sequence[str], called: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        types = [self._schema.field(name).type for name in names]
        schema = pa.schema([pa.field(name, kind) for name, kind in zip(called, types, strict=True)])
        with self._opened() as file:
            there = {name.lower(): name for name in file.schema_arrow.names}
            wanted = [there[name.lower()] for name in names if name.lower() in there]
            if not wanted:
                counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
                yield from (self._batch({}, names, schema, count) for count in counts)
                return
            # A name selects nested columns of the same path, too: those are left out below.
            for found in file.iter_batches(batch_size=rows, columns=wanted):
                columns = {name.lower(): found.column(place) for place, name in enumerate(found.schema.names)}
                yield self._batch(columns, names, schema, found.num_rows)

    def _batch(
        self, columns: Mapping[str, pa.Array], names: Sequence[str], schema: pa.Schema, count: int
    ) -> pa.RecordBatch:
        arrays = []
        for name, field in zip(names, schema, strict=True):
            if name in self.partition_values:
                value = self.partition_values[name]
                arrays.append(pa.repeat(pa.scalar(value, pa.string()).cast(field.type), count))
            elif name.lower() in columns:
                arrays.append(_as(columns[name.lower()], field.type))
            else:
                arrays.append(pa.nulls(count, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        with (
            self._filesystem.open_input_file(self._path) as source,
            pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file,
        ):
            yield file


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    # Delta's times have microseconds, also where another writer's file has more.
    return column.cast(kind, safe=not pa.types.is_timestamp(kind))


class Writer:
    """Writes rows into one file after the other below a path. Use it in `with`."""

    def __init__(self, filesystem: Any, stem: str, schema: pa.Schema) -> None:
        self._filesystem = filesystem
        self._stem = stem
        self._schema = schema
        self._rows: list[pa.RecordBatch] = []
        self._bytes = 0
        self._sink: Any = None  # None: no file is open
        self._writer: Any = None
        self._footers: list[list[Any]] = []
        self.paths: list[str] = []
        """The files, also a last file that an error has interrupted."""

    @property
    def written(self) -> list[tuple[str, Any]]:
        """The path of each file, and its footer."""
        return [(path, footer) for path, (footer,) in zip(self.paths, self._footers, strict=True)]

    def __enter__(self) -> Writer:
        return self

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        if rows.num_rows:
            self._rows.append(rows)
            self._bytes += rows.nbytes
        if self._bytes >= _GROUP:
            self._flush()

    def _flush(self) -> None:
        if not self._rows:
            return
        if self._writer is None:
            path = f"{self._stem}-{len(self.paths):05d}.snappy.parquet"
            self.paths.append(path)
            self._footers.append([])
            self._sink = self._filesystem.open_output_stream(path)
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, store_schema=False, metadata_collector=self._footers[-1]
            )
        self._writer.write_table(pa.Table.from_batches(self._rows, self._schema))
        self._rows, self._bytes = [], 0
        if self._sink.tell() >= _FILE:
            self._close()

    def _close(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._sink.close()
        self._writer = self._sink = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
            self._close()
        elif self._sink is not None:
            self._sink.close()
