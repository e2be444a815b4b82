"""How a task of Spark copies its rows into a staging table of PostgreSQL.

This module travels to the executors by value, so it imports nothing of Tenure. The executors need psycopg and pyarrow.

Promise: the rows of a task are in the staging table all at once, or not at all, with the number of the task's attempt.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as pa_csv


def copier(
    parameters: Mapping[str, Any], before: Sequence[str], copy: str, *, keep: bool
) -> Callable[[Iterator[pa.RecordBatch], int, int], int]:
    """A function that copies the rows of a task. `parameters`: of the connection. `before`: statements that come first.
    `copy`: the COPY statement, whose last two columns are partition and attempt. `keep`: whether the rows stay."""

    def run(batches: Iterator[pa.RecordBatch], partition: int, attempt: int) -> int:
        rows = 0
        with psycopg.connect(**parameters) as connection, connection.cursor() as cursor:
            for statement in before:
                cursor.execute(statement, ())  # `%%` is `%`
            with cursor.copy(copy) as stream:
                for batch in batches:
                    stream.write(as_csv(batch, partition, attempt))
                    rows += batch.num_rows
            if not keep:
                connection.rollback()
        return rows

    return run


def as_csv(batch: pa.RecordBatch, partition: int, attempt: int) -> bytes:
    """The rows as PostgreSQL reads CSV: null is nothing, the empty text is two quotes."""
    columns = [_readable(column) for column in batch.columns]
    count = batch.num_rows
    columns += [pa.repeat(pa.scalar(number, pa.int64()), count) for number in (partition, attempt)]
    table = pa.table(columns, names=[str(number) for number in range(len(columns))])
    written = io.BytesIO()
    pa_csv.write_csv(table, written, pa_csv.WriteOptions(include_header=False))
    return written.getvalue()


def _readable(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if one is None else f"\\x{one.hex()}" for one in column.to_pylist()], pa.string())
    if pa.types.is_decimal(kind):
        return column.cast(pa.string())
    return column
