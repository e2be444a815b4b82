"""Whether planned inputs are there is asked of a JVM that may be gone by then."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from tenure.inputs.input_files import missing_files


class GoneJvm:
    """What is left of a JVM that was killed."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


@pytest.mark.parametrize(
    "error", [Py4JError("py4j does not exist in the JVM"), Py4JNetworkError("broken"), ConnectionRefusedError("111")]
)
def test_a_jvm_that_is_gone_is_no_failure_of_the_storage(error: Exception) -> None:
    class Session:
        _jvm = GoneJvm(error)

    spark: Any = Session()
    with pytest.raises(type(error)) as raised:
        missing_files(spark, ["file:/in/a.json"])
    assert raised.value is error, "the driver takes it for the end of its JVM, and is replaced"
