"""Distributes the work of a sweep: Spark's tasks, whose failure is one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tenure.errors import QueryFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def run_tasks(
    spark: SparkSession, work: Callable[[T], R], items: Sequence[T], *, what: str, tasks: int | None = None
) -> list[R]:
    """The results for these items, in so many tasks; None: a task for each. Raises QueryFailed for Spark's errors."""
    from tenure.spark.errors import SPARK_ERRORS, one_line  # a small tree is swept without Spark

    try:
        return spark.sparkContext.parallelize(items, tasks or len(items)).map(work).collect()
    except SPARK_ERRORS as error:
        raise QueryFailed(f"the sweep's {what} failed: {one_line(error)}") from error
