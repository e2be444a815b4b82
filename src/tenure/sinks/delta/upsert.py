"""Update mode: the rows of a batch replace the rows of the table with the same key.

Promise: a batch in which a key stands twice is refused. A null in a key column equals a null, as in Spark's grouping.
The batch is read into the driver's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyarrow import compute as pc
from pyarrow import parquet as pq

from tenure.errors import QueryFailed
from tenure.sinks.delta.staged_files import StagedFile

SOURCE = "batch"
TARGET = "target"


def read_rows(filesystem: Any, files: Sequence[StagedFile]) -> Any:
    """The staged rows as one Arrow table."""
    return pq.read_table([file.path for file in files], filesystem=filesystem, partitioning=None)


def refuse_duplicates(rows: Any, *, key: Sequence[str], batch: int, where: str) -> None:
    """Raise QueryFailed when a key stands twice in the batch: the sink cannot know the right row."""
    counted = rows.group_by(list(key)).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1))
    if twice.num_rows:
        first = {name: twice[name][0].as_py() for name in key}
        raise QueryFailed(
            f"batch {batch} for {where} has the key {first} {twice['count_all'][0].as_py()} times",
            fix="make the key name one row, or aggregate by it",
        )


def match(rows: Any, *, key: Sequence[str]) -> str:
    """The merge's predicate. A column with nulls in this batch is compared null-safely; the other columns by equality,
    which delta-rs can hash."""
    terms = []
    for name in key:
        quoted = '"' + name.replace('"', '""') + '"'
        mine, theirs = f"{SOURCE}.{quoted}", f"{TARGET}.{quoted}"
        equal = f"{theirs} = {mine}"
        terms.append(f"({equal} OR ({theirs} IS NULL AND {mine} IS NULL))" if rows[name].null_count else equal)
    return " AND ".join(terms)
