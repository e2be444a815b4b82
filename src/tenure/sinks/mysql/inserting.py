"""How a task of Spark writes its rows into a staging table of MySQL: inserts of many rows, in one transaction.

This module travels to the executors by value, so it imports nothing of Tenure. The executors need PyMySQL and pyarrow.

Promise: the rows of a task are in the staging table all at once, or not at all, with the number of the task's attempt.
A value that MySQL cannot hold fails the task by name: NaN, an infinity, a row that is longer than a packet, and each
value of which the server warns.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

STATEMENT = 1 << 20
"""About so many bytes has an insert, unless the server takes less."""


GREETED_S = 30
"""For how long a server may say nothing while a connection begins."""

SILENT_LINE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4))
"""A host that does not answer for half a minute is gone. Linux waits for two hours by itself."""


def connect(parameters: Mapping[str, Any]) -> Any:
    """A connection in autocommit, whose statements may take any time while the host of the server is there. Raises
    pymysql.Error, RuntimeError, OSError."""
    connection = pymysql.connect(**parameters, autocommit=True, read_timeout=GREETED_S)
    connection._read_timeout = None  # PyMySQL has one limit for each read, and a statement may work for hours
    if connection._sock.family != socket.AF_UNIX:
        for option, value in SILENT_LINE:
            connection._sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection


def inserter(
    parameters: Mapping[str, Any], before: Sequence[str], insert: str, *, names: Sequence[str], keep: bool
) -> Callable[[Iterator[pa.RecordBatch], int, int], int]:
    """A function that writes the rows of a task. `parameters`: of the connection. `before`: statements that come first.
    `insert`: the statement up to its rows, whose last two columns are partition and attempt. `names`: of the columns,
    for people. `keep`: whether the rows stay."""

    def run(batches: Iterator[pa.RecordBatch], partition: int, attempt: int) -> int:
        rows = 0
        connection = connect(parameters)
        try:
            with connection.cursor() as cursor:
                for statement in before:
                    cursor.execute(statement, ())  # `%%` is `%`
                cursor.execute("select @@max_allowed_packet")
                most = int(cursor.fetchone()[0]) - 1024
                cursor.execute("begin")
                for batch in batches:
                    texts = rows_of(batch, names, f",{partition},{attempt})")
                    for values in packets(texts, most=most - len(insert.encode())):
                        cursor.execute(insert.encode() + values)
                        refuse_warnings(cursor)
                    rows += batch.num_rows
                cursor.execute("commit" if keep else "rollback")
        finally:
            connection.close()
        return rows

    return run


def refuse_warnings(cursor: Any) -> None:
    """MySQL warns of a value that it has changed, and goes on."""
    if cursor.warning_count:
        cursor.execute("show warnings")
        raise ValueError(f"MySQL would change a value: {cursor.fetchone()[2]}")


def packets(texts: Iterator[bytes], *, most: int) -> Iterator[bytes]:
    """The rows with commas, in parts that a server takes. `most`: bytes of a part."""
    part, size, wanted = list[bytes](), 0, min(STATEMENT, most)
    for text in texts:
        if len(text) > most:
            raise ValueError(f"a row has {len(text)} bytes, and max_allowed_packet of the server is for {most}")
        if part and size + len(text) > wanted:
            yield b",".join(part)
            part, size = [], 0
        part.append(text)
        size += len(text) + 1
    if part:
        yield b",".join(part)


def rows_of(batch: pa.RecordBatch, names: Sequence[str], end: str) -> Iterator[bytes]:
    """Each row as MySQL reads it, from its bracket to `end`."""
    columns = [as_text(column, name) for column, name in zip(batch.columns, names, strict=True)]
    joined = pc.binary_join_element_wise(
        *columns, pa.scalar(",", pa.large_string()), null_handling="replace", null_replacement="NULL"
    )
    tail = end.encode()
    return (b"(" + text.encode() + tail for text in joined.to_pylist())


def as_text(column: pa.Array, name: str) -> pa.Array:
    """The values of a column as MySQL reads them; null stays null. Raises ValueError."""
    kind, text = column.type, pa.large_string()
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(text)
    if pa.types.is_integer(kind):
        return column.cast(text)
    if pa.types.is_floating(kind):
        if not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise ValueError(f"column {name!r} has NaN or an infinity, which MySQL does not have: make it null")
        digits = column.cast(pa.float64()).cast(text)
        # Without an exponent it were a decimal number to MySQL.
        return pc.if_else(pc.match_substring(digits, "e"), digits, _joined(digits, "e0"))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if one is None else f"x'{one.hex()}'" for one in column.to_pylist()], text)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        escaped = pc.replace_substring(column.cast(text), "\\", "\\\\")
        return _joined("'", pc.replace_substring(escaped, "'", "\\'"), "'")
    if pa.types.is_timestamp(kind):  # the wall clock of UTC
        column = column.cast(pa.timestamp("us"))
    return _joined("'", column.cast(text), "'")


def _joined(*parts: Any) -> pa.Array:
    texts = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string()))
