"""Why Spark did not start, where only an error of its JVM says it."""

from __future__ import annotations

from tenure.errors import UsageError
from tenure.spark.not_started import NotStarted, not_started


def test_a_java_that_is_too_new_for_spark_is_named() -> None:
    """So end Spark 3.5 and 4.0 on Java 25."""
    error = not_started(
        NotStarted("getSubject is not supported", None, said="", where=" on master 'local[1]'", log="l")
    )
    assert type(error) is UsageError
    assert str(error) == "the installed Java is too new for Spark's Hadoop; set JAVA_HOME to Java 17 or 21"
