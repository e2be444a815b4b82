"""Loads a pipeline file that uses Spark at its top level, such as `F.col` or `@udf`: with the session there.

Promise: a file that needs no session is loaded before Spark takes its seconds to start, so its errors come at once. A
file that asks for a session is stopped at that line, and is loaded anew, as a whole, when the session is there: it gets
the member's own session, also by `SparkSession.builder.getOrCreate()`. Not promised: that the lines above run once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeVar

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tenure.errors import PipelineFileError
from tenure.spark.session import replaced

Loaded = TypeVar("Loaded")

_PYSPARK: Final = os.path.dirname(os.path.abspath(pyspark.__file__)) + os.sep


class _SessionNeeded(BaseException):
    """The file asked for a session. No Exception: the file's own `except Exception` does not catch it."""


def load_with_session(
    load: Callable[[], Loaded], *, start: Callable[[], SparkSession], end: Callable[[SparkSession], None]
) -> tuple[Loaded, SparkSession | None]:
    """What `load` makes of the file, and the session that was started for it by `start`; None: it needs none yet.
    Raises PipelineFileError, and the errors of `start`."""
    try:
        with _stopped_at_the_first_use():
            return load(), None
    except _SessionNeeded:
        pass
    except PipelineFileError as error:
        if not _lacked_a_session(error.__cause__):
            raise
    session = start()
    try:
        return load(), session
    except BaseException:
        end(session)
        raise


@contextmanager
def _stopped_at_the_first_use() -> Iterator[None]:
    """In the block, a question for the session, and the start of a context, raise _SessionNeeded. Does nothing where a
    context is there."""

    def stop(*given: Any, **named: Any) -> NoReturn:
        raise _SessionNeeded

    if SparkContext._active_spark_context is not None:
        yield
        return
    with replaced(SparkContext, "__init__", stop), replaced(SparkSession, "getActiveSession", stop):
        yield


def _lacked_a_session(error: BaseException | None) -> bool:
    """Whether PySpark raised the error for want of a context: where it asks for the context, it says so by an
    AssertionError, or by an error of its own at run time."""
    if not isinstance(error, AssertionError | RuntimeError) or SparkContext._active_spark_context is not None:
        return False
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and os.path.abspath(place.tb_frame.f_code.co_filename).startswith(_PYSPARK)
