"""What a Spark job of a sweep fails with, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenure.errors import QueryFailed


@contextmanager
def job_errors(what: str) -> Iterator[None]:
    """Raise QueryFailed for what Spark raises in the block."""
    from tenure.spark.errors import SPARK_ERRORS, one_line  # a small tree is swept without Spark

    try:
        yield
    except SPARK_ERRORS as error:
        raise QueryFailed(f"the sweep's {what} failed: {one_line(error)}") from error
