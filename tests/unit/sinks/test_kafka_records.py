"""Staged rows as records of Kafka: values, nulls and order, read from a folder, and rows that are no records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tenure.errors import QueryFailed, StorageError
from tenure.sinks.kafka.records import records_of, remove, staged_records
from tenure.sinks.staging.stage import PutFile

TYPES = {
    "key": pa.string(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def rows(**columns: Sequence[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values, TYPES[name]) for name, values in columns.items()})


def test_a_row_is_a_record() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC)
    headers = [{"key": "a", "value": b"\xff"}, {"key": "a", "value": None}, {"key": "b", "value": b""}]
    batch = rows(
        key=["k", None, ""],
        value=[b"\x00\xff", None, b""],
        topic=["t", "u", "t"],
        partition=[2, None, 0],
        timestamp=[at, None, at],
        headers=[headers, None, []],
    )
    millis = 1767323045678
    assert list(records_of(batch, topic=None)) == [
        ("t", b"\x00\xff", b"k", 2, millis, [("a", b"\xff"), ("a", None), ("b", b"")]),
        ("u", None, None, -1, 0, None),
        ("t", b"", b"", 0, millis, []),
    ]


def test_the_topic_of_the_sink_goes_before_that_of_the_rows() -> None:
    assert list(records_of(rows(value=[b"v"], topic=[None]), topic="t")) == [("t", b"v", None, -1, 0, None)]


def test_text_goes_as_its_bytes() -> None:
    """Spark casts any bytes to text."""
    odd = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\x00"]).buffers())
    batch = pa.RecordBatch.from_arrays([odd, odd], ["key", "value"])
    assert list(records_of(batch, topic="t")) == [("t", b"\xff\x00", b"\xff\x00", -1, 0, None)]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"topic": [None]}, "a row has no topic; filter such rows"),
        ({"partition": [-1]}, "a row has partition -1"),
        ({"timestamp": [datetime(1969, 12, 31, tzinfo=UTC)]}, "a timestamp of 86400000 ms before 1970"),
        ({"timestamp": [datetime(1970, 1, 1, tzinfo=UTC)]}, "which Kafka cannot keep"),
        ({"headers": [[{"key": None, "value": b"v"}]]}, "a row has a header without a key"),
        ({"headers": [[None]]}, "a row has a header without a key"),
    ],
)
def test_rows_that_are_no_records_are_refused(columns: dict[str, Any], line: str) -> None:
    batch = rows(value=[b"v"], **{"topic": ["t"], **columns})
    with pytest.raises(QueryFailed, match=line):
        list(records_of(batch, topic=None))


def put(folder: Path, name: str, values: Sequence[bytes], **options: Any) -> PutFile:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_batches([rows(value=values)]), folder / name, **options)
    return PutFile(name, (folder / name).stat().st_size, 0, b"")


def test_files_are_read_in_the_order_of_their_tasks(tmp_path: Path) -> None:
    folder = tmp_path / "a folder+1%"
    puts = [
        put(folder, "part-00001.parquet", [b"c", b"d"]),
        put(folder, "part-00000.parquet", [b"a", b"b"], row_group_size=1),
    ]
    put(folder, "part-00002.parquet", [b"of a task that was lost"])
    found = staged_records(f"file://{folder}", puts, topic="t")
    assert [record[1] for record in found] == [b"a", b"b", b"c", b"d"]
    remove(f"file://{folder}")
    remove(f"file://{folder}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b"", b"PAR1 no file of Parquet"])
def test_a_file_that_cannot_be_read_is_trouble_of_the_storage(tmp_path: Path, content: bytes | None) -> None:
    puts = [put(tmp_path / "b", "part-0.parquet", [b"v"])]
    file = tmp_path / "b" / "part-0.parquet"
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(StorageError, match=r"cannot read the staged rows in .*/b/part-0\.parquet"):
        list(staged_records(f"file://{tmp_path}/b", puts, topic="t"))
