"""Update mode: the rows of a batch replace the rows of the table with the same key.

Each file of the table with such a row is copied without it, and the rows of the batch are written behind the copies.
One commit removes the old files and adds the new ones. Promise: a batch in which a key stands twice is refused. A null
in a key column equals a null, as in Spark's grouping. The driver's memory has the keys of half a million rows of the
batch at a time, some hundred thousand keys or rows of the table, and a bit for each row of each file that may have a
key of the batch. Columns are found by the names of the table's columns, never by a path. Raises `FAILURES`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Final

import pyarrow as pa
from deltalake import Schema
from pyarrow import compute as pc

from tenure.errors import QueryFailed
from tenure.sinks.delta.rows_of_files import RowsOfFile, Writer
from tenure.sinks.delta.staged_files import INDEXED, StagedFile, written_file
from tenure.sinks.delta.table_files import Bounds, TableFile, may_have

FAILURES: Final = (OSError, ValueError, pa.ArrowException)
"""What a merge raises when files cannot be read or written."""
PART: Final = 500_000
"""Keys of a batch that are in memory at a time."""
_READERS: Final = 2
_ROW: Final = "row"


def arrow_schema(columns: Mapping[str, Any]) -> pa.Schema:
    """The schema of a table in Arrow's types, from Delta's JSON."""
    return pa.schema(Schema.from_json(json.dumps(columns)).to_arrow())


@dataclass(frozen=True, slots=True)
class Merged:
    """The files of a commit."""

    added: Sequence[StagedFile]
    removed: Sequence[TableFile]


class Upsert:
    """The staged rows of a batch, by their keys. `schema`: of the table; `key`: names of its columns."""

    def __init__(self, filesystem: Any, files: Sequence[StagedFile], schema: pa.Schema, *, key: Sequence[str]) -> None:
        self._filesystem = filesystem
        self._schema = schema
        self._key = key
        self._staged = [RowsOfFile(filesystem, file.path, schema, file.partition_values) for file in files]

    def refuse_duplicates(self, *, batch: int, where: str) -> None:
        """Raise QueryFailed when a key stands twice in the batch: the sink cannot know the right row."""
        for number, part in enumerate(self._parts()):
            counted = part.group_by(part.column_names).aggregate([([], "count_all")])
            twice = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, 1)
            later = (part.filter(_matches(part, other)) for other in islice(self._parts(), number + 1, None))
            for found in (twice, *(some.slice(0, 1) for some in later)):
                if found.num_rows:
                    first = {name: found[place][0].as_py() for place, name in enumerate(self._key)}
                    times = found["count_all"][0].as_py() if "count_all" in found.column_names else "several"
                    raise QueryFailed(
                        f"batch {batch} for {where} has the key {first} {times} times",
                        fix="make the key name one row, or aggregate by it",
                    )

    def merge(
        self,
        adds: pa.Table,
        directory: str,
        *,
        columns: Mapping[str, Any],
        partition_by: Sequence[str],
        indexed: int = INDEXED,
    ) -> Merged:
        """Write the files of a commit below `directory`. `adds`: the files of the snapshot, as delta-rs lists them.
        `columns`: the Delta type of each column. `indexed`: how many of them can have statistics."""
        hits = self._hits(list(may_have(adds, self._bounds())))
        groups: dict[tuple[str | None, ...], list[Iterator[pa.RecordBatch]]] = {}
        for file, hit in hits:
            groups.setdefault(_values(file, partition_by), []).append(_without(self._rows(file), hit))
        for rows in self._staged:
            groups.setdefault(_values(rows, partition_by), []).append(rows.all())
        inside = pa.schema([field for field in self._schema if field.name not in partition_by])
        kinds = {name: kind for name, kind in columns.items() if name not in partition_by}
        added: list[StagedFile] = []
        for values, sources in groups.items():
            with Writer(self._filesystem, f"{directory}/{uuid.uuid4().hex}", inside) as writer:
                for chunk in chain.from_iterable(sources):
                    writer.write(chunk)
            of = dict(zip(partition_by, values, strict=True))
            added += [
                written_file(self._filesystem, path, footer, columns=kinds, partition_values=of, indexed=indexed)
                for path, footer in writer.written
            ]
        return Merged(added, [file for file, _ in hits])

    def _rows(self, file: TableFile) -> RowsOfFile:
        return RowsOfFile(self._filesystem, file.path, self._schema, file.partition_values)

    def _parts(self) -> Iterator[pa.Table]:
        """The keys of the batch, at most `PART` rows at a time. The columns have the numbers of the key's."""
        some: list[pa.RecordBatch] = []
        for rows in self._staged:
            for chunk in rows.columns(self._key):
                some.append(chunk)
                while sum(one.num_rows for one in some) >= PART:
                    whole = pa.Table.from_batches(some)
                    yield whole.slice(0, PART)
                    some = whole.slice(PART).to_batches()
        if some:
            yield pa.Table.from_batches(some)

    def _bounds(self) -> dict[str, Bounds | None]:
        """The least and the greatest value of each key column; None: there are nulls."""
        found: dict[str, list[pa.Scalar]] = {name: [] for name in self._key}
        nulls = set()
        for part in self._parts():
            for place, name in enumerate(self._key):
                some = pc.min_max(part[place])
                found[name] += [some["min"], some["max"]]
                nulls |= {name} if part[place].null_count else set()
        both = {name: pc.min_max(pa.array(some, self._schema.field(name).type)) for name, some in found.items()}
        return {name: None if name in nulls else (some["min"], some["max"]) for name, some in both.items()}

    def _hits(self, files: Sequence[TableFile]) -> list[tuple[TableFile, pa.ChunkedArray]]:
        """The files that have a key of the batch, and whether a row has, for each row."""
        hits: dict[str, list[pa.Array]] = {}
        for part in self._parts():
            with ThreadPoolExecutor(_READERS, thread_name_prefix="tenure-delta") as pool:

                def of_file(file: TableFile, part: pa.Table = part) -> list[pa.Array]:
                    chunks = self._rows(file).columns(self._key)
                    return [_matches(pa.Table.from_batches([chunk]), part) for chunk in chunks]

                for file, found in zip(files, pool.map(of_file, files), strict=True):
                    before = hits.get(file.path, [None] * len(found))
                    hits[file.path] = [
                        one if other is None else pc.or_(one, other) for one, other in zip(found, before, strict=True)
                    ]
        masks = ((file, pa.chunked_array(hits[file.path], pa.bool_())) for file in files)
        return [(file, mask) for file, mask in masks if pc.any(mask, min_count=0).as_py()]


def _values(file: TableFile | RowsOfFile, partition_by: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(file.partition_values.get(name) for name in partition_by)


def _without(rows: RowsOfFile, hit: pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    """The rows of a file that have no key of the batch."""
    first = 0
    for chunk in rows.all():
        mask = hit.slice(first, chunk.num_rows).combine_chunks()
        first += chunk.num_rows
        yield chunk.filter(pc.invert(mask))
    assert first == len(hit), "the file has changed"


def _matches(rows: pa.Table, keys: pa.Table) -> pa.Array:
    """For each row, whether its key is among `keys`. Null equals null."""
    names = keys.column_names
    flagged = [name for name in names if keys[name].null_count]
    found = _comparable(rows, flagged).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    # A join has its right side in a hash table: the rows of a chunk, and not all the keys.
    both = _comparable(keys, flagged).join(found, keys=[*names, *map(_flag, flagged)], join_type="right semi")
    return pc.is_in(found[_ROW], value_set=both[_ROW].combine_chunks()).combine_chunks()


def _comparable(keys: pa.Table, flagged: Iterable[str]) -> pa.Table:
    """The keys with each null as a value and a flag: a join takes no null for equal to another."""
    for name in flagged:
        column = keys[name]
        keys = keys.append_column(_flag(name), pc.is_null(column))
        place = keys.column_names.index(name)
        keys = keys.set_column(place, name, pc.fill_null(column, _zero(column.type)))
    return keys


def _flag(name: str) -> str:
    return f"{name} is null"


def _zero(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.scalar(b"").cast(kind)
    if pa.types.is_boolean(kind):
        return pa.scalar(False)
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)
