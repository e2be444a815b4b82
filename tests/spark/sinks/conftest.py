"""A small SparkSession far from UTC, which the modules of a worker share, and the places that sinks write to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.jvm import SharedJvm
from tests.spark.sinks.sql_places import PLACES, Place, a_place


def start() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's workers would take whatever `python3` is
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm) -> Iterator[SparkSession]:
    with jvm.lent(start) as session:
        yield session


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Where a table may be made. Blanks and signs in the path must not matter."""
    return tmp_path / "a table+1%"


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A server without tables."""
    return a_place(PLACES[request.param], request.getfixturevalue(request.param), monkeypatch)
