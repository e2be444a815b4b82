"""The part of a database's sink that runs in Spark's tasks, the same for each database: each task copies its rows,
and says how many. This module travels to the executors by value, so it imports nothing of Tenure.

Promise: the answer of a task names its partition and its attempt. A task that ran twice leaves two sets of rows; each
answer names its own, and Spark takes one answer. A task without rows makes no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext

ANSWER = "partition int, attempt bigint, rows bigint"
"""The schema of the answers of tasks."""

Copy = Callable[[Iterator[pa.RecordBatch], int, int], int]
"""Copies rows, all or none, with the numbers of their partition and attempt; returns how many."""


def answering(copy: Copy) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        partition, attempt, rows = task.partitionId(), task.taskAttemptId(), 0
        some = (batch for batch in batches if batch.num_rows)
        first = next(some, None)
        if first is not None:
            rows = copy(chain([first], some), partition, attempt)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([partition], pa.int32()),
                "attempt": pa.array([attempt], pa.int64()),
                "rows": pa.array([rows], pa.int64()),
            }
        )

    return run
