"""The errors of Spark and of its gateway, in one line for people.

Promise: the sentence that matters, without a frame of Java's, whether the JVM still answers or not.
"""

from __future__ import annotations

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from tenure.wording import sentence

SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""What a call into the JVM can raise: an error of Spark, an error of the gateway, and OSError when the JVM is gone."""


def one_line(error: BaseException) -> str:
    """The sentence that matters of a Spark or Python error."""
    said = sentence(words_of(error))
    if said and isinstance(error, (PySparkException, Py4JJavaError)):
        return said
    return ": ".join(filter(None, (type(error).__name__, said)))


def words_of(error: BaseException) -> str:
    """What an error says, with a JVM that answers or without: to tell more, PySpark's and py4j's errors ask it, and
    then fail themselves, or add a stack that nobody has asked for."""
    said = getattr(error, "_desc", None) if isinstance(error, PySparkException) else None
    if isinstance(said, str):
        return said
    try:
        return str(error)
    except (Py4JError, OSError):
        return str(getattr(error, "errmsg", ""))
