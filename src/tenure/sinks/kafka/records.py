"""The staged rows of a batch, as records of Kafka.

Promise: each row is one record, in the order of the tasks and of the rows in each. Text goes as its bytes, whether they
are UTF-8 or not; null stays null, and empty stays empty. Memory holds a row group of a file. Not promised: that a file
is read before the transaction begins; a storage that fails meanwhile ends the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

from tenure.errors import QueryFailed, StorageError
from tenure.sinks.staging.stage import PutFile
from tenure.storage.reach import reach
from tenure.storage.storage import reason

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[str, bytes | None, bytes | None, int, int, Headers | None]
"""Topic, value, key, partition, timestamp in milliseconds, headers. Partition -1: by the key. Timestamp 0: now."""

_AT_ONCE: Final = 8192
_ANY_PARTITION: Final = -1
_NOW: Final = 0


def staged_records(scratch: str, puts: Sequence[PutFile], *, topic: str | None) -> Iterator[Record]:
    """The rows of these files of a folder. `topic`: of all records; None: the rows name it. Raises StorageError: a file
    cannot be read; QueryFailed: a row is no record."""
    above, _, name = scratch.rstrip("/").rpartition("/")
    storage = reach(above)
    for put in sorted(puts, key=lambda put: put.path):
        path = f"{name}/{put.path}"
        try:
            with storage.open(path) as file:
                for rows in pq.ParquetFile(file).iter_batches(_AT_ONCE):
                    yield from records_of(rows, topic=topic)
        except (*storage.errors, pa.ArrowException) as error:
            raise StorageError(
                f"cannot read the staged rows in {storage.where(path)}: {reason(error)}",
                fix="check the storage and its permissions",
            ) from error


def remove(scratch: str) -> None:
    """Remove a folder of staged rows. Raises StorageError."""
    above, _, name = scratch.rstrip("/").rpartition("/")
    reach(above).remove(name)


def records_of(rows: pa.RecordBatch, *, topic: str | None) -> Iterator[Record]:
    """The records of some rows. Raises QueryFailed: a row is no record."""
    values = _bytes_of(rows["value"])
    keys = _bytes_of(rows["key"]) if "key" in rows.schema.names else repeat(None)
    topics = repeat(topic) if topic is not None else _topics_of(rows["topic"])
    partitions = _partitions_of(rows["partition"]) if "partition" in rows.schema.names else repeat(_ANY_PARTITION)
    times = _times_of(rows["timestamp"]) if "timestamp" in rows.schema.names else repeat(_NOW)
    headers = _headers_of(rows["headers"]) if "headers" in rows.schema.names else repeat(None)
    return zip(topics, values, keys, partitions, times, headers, strict=False)  # as many as there are values


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _topics_of(column: pa.Array) -> Iterator[str]:
    for name in _bytes_of(column):
        if name is None:
            raise QueryFailed("a row has no topic", fix="filter such rows, or write Kafka(servers, topic)")
        yield _text(name, what="topic")


def _partitions_of(column: pa.Array) -> Iterator[int]:
    for number in column.to_pylist():
        if number is not None and number < 0:
            raise QueryFailed(f"a row has partition {number}", fix="give a number from 0, or null")
        yield _ANY_PARTITION if number is None else number


def _times_of(column: pa.Array) -> Iterator[int]:
    for micros in column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist():
        millis = _NOW if micros is None else micros // 1000
        if micros is not None and millis <= 0:
            raise QueryFailed(
                f"a row has a timestamp of {-millis} ms before 1970, which Kafka cannot keep",
                fix="give a later, or null",
            )
        yield millis


def _headers_of(column: pa.Array) -> Iterator[Headers | None]:
    for found in column.to_pylist():
        yield None if found is None else [_header_of(one) for one in found]


def _header_of(found: Any) -> tuple[str, str | bytes | None]:
    if found is None or found["key"] is None:
        raise QueryFailed("a row has a header without a key", fix="give each header a key")
    return found["key"], found["value"]


def _text(found: bytes, *, what: str) -> str:
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise QueryFailed(f"a row has a {what} that is no text: {found[:40]!r}", fix="give text in UTF-8") from error
