"""Which of our errors an error of a query is: a JVM that has ended is no fault of the query."""

from __future__ import annotations

from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkValueError
from pyspark.sql import SparkSession

from tenure.errors import DriverDied, QueryFailed, TenureError
from tenure.spark import failures

SPARK = cast(SparkSession, object())


def raised(*, cause: BaseException | None = None, context: BaseException | None = None) -> BaseException:
    """What pyspark raises in place of another error, or while it handles one."""
    error = PySparkValueError(errorClass="CANNOT_PARSE_DATATYPE", messageParameters={"msg": "calling o7.schema"})
    error.__context__ = context
    if cause is not None:
        error.__cause__ = cause  # hides the context
    return error


def told(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, code: int | None) -> TenureError:
    def exit_code(spark: Any, *, patience_s: float) -> int | None:
        return code

    monkeypatch.setattr(failures, "jvm_exit_code", exit_code)
    return failures.told("q", error, spark=SPARK, log="spark.log")


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("no answer"),
        ConnectionRefusedError(111, "refused"),
        raised(cause=Py4JNetworkError("no answer")),
        raised(context=raised(cause=ConnectionRefusedError(111, "refused"))),
    ],
)
def test_what_came_of_a_jvm_that_has_ended(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    died = told(monkeypatch, error, code=-9)
    assert isinstance(died, DriverDied)
    assert "Spark's JVM ended with exit code -9" in str(died)
    assert isinstance(told(monkeypatch, error, code=None), QueryFailed)


def test_what_came_of_nothing_else_is_the_query_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = raised(context=Py4JNetworkError("no answer"))
    hidden.__suppress_context__ = True
    for error in (raised(), hidden, ValueError("7")):
        assert isinstance(told(monkeypatch, error, code=-9), QueryFailed)
