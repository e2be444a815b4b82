"""The errors of Spark and of its gateway, in one line for people.

Promise: the sentence that matters, without frames of Java, also when the JVM does not answer.
"""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tenure.wording import sentence

SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""The errors of a call into the JVM: of Spark, of the gateway, and OSError when the JVM is gone."""


def one_line(error: BaseException) -> str:
    """The sentence that matters of a Spark or Python error."""
    message = sentence(words_of(error))
    if message and isinstance(error, (PySparkException, Py4JJavaError)):
        return message
    return ": ".join(filter(None, (type(error).__name__, message)))


def words_of(error: BaseException) -> str:
    """The message of an error, also when the JVM does not answer. `str` of PySpark's and py4j's errors asks the JVM,
    and then fails or adds a stack."""
    description = getattr(error, "_desc", None) if isinstance(error, PySparkException) else None
    if isinstance(description, str):
        return description
    try:
        return str(error)
    except (Py4JError, OSError):
        return str(getattr(error, "errmsg", ""))
