"""The SparkSession of the command line's tests, for the pipelines of the pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import start
from tests.jvm import SharedJvm


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm) -> Iterator[SparkSession]:
    with jvm.lent(start) as session:
        yield session
