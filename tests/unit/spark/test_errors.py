"""Errors of Spark and py4j ask the JVM for more when they are told, though it may have ended."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import AnalysisException, CapturedException

from tenure.spark.errors import one_line


class NoGateway:
    """Where the JVM was."""

    def send_command(self, command: str) -> str:
        raise Py4JNetworkError("Answer from Java side is empty")


class OfJava:
    _target_id = "o7"
    _gateway_client = NoGateway()


def test_a_java_error_of_a_jvm_that_has_ended() -> None:
    error = Py4JJavaError("An error occurred while calling o7.parquet.\n", OfJava())
    assert one_line(error) == "An error occurred while calling o7.parquet."


@pytest.mark.parametrize("jvm", [object(), None], ids=["that does not answer", "that was shut down"])
def test_a_spark_error_of_a_jvm(monkeypatch: pytest.MonkeyPatch, jvm: Any) -> None:
    """PySpark adds its stack to all that it says then."""
    monkeypatch.setattr(CapturedException, "_log_exception", lambda self: None, raising=False)
    monkeypatch.setattr(SparkContext, "_jvm", object())
    error = AnalysisException(desc="no such column\n'Project ['nope]", stackTrace="X: no\n\tat a.B.c(D.java:7)")
    monkeypatch.setattr(SparkContext, "_jvm", jvm)
    assert one_line(error) == "no such column"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no\nluck"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (KeyError("k"), "KeyError: 'k'"),
        (
            Py4JError("java.lang.Integer.nope does not exist in the JVM"),
            "Py4JError: java.lang.Integer.nope does not exist in the JVM",
        ),
        (
            RuntimeError("An error occurred while calling o7.x.\n: a.B: no\n\tat a.B.c(D.java:7)\n"),
            "RuntimeError: a.B: no",
        ),
    ],
)
def test_an_error_of_python_has_its_kind(error: BaseException, line: str) -> None:
    assert one_line(error) == line
