"""A small SparkSession as `tenure run` starts it, which the modules of a worker share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.spark.session import start_session
from tests.cli.support import Place
from tests.jvm import SharedJvm
from tests.unit.rundirs.made_by_hand import a_run_directory


def start() -> SparkSession:
    os.environ.pop("PYSPARK_PYTHON", None)
    return start_session(name="test", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"}, log=os.devnull)


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm) -> Iterator[SparkSession]:
    with jvm.lent(start) as session:
        yield session


@pytest.fixture(autouse=True)
def no_other_session(jvm: SharedJvm) -> None:
    """A command must not find a session that another folder's modules share."""
    jvm.only(start)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """The checkpoint of a plain query with two sources and state, whose newest batch is done."""
    a_run_directory(str(tmp_path / "plain"))
    return tmp_path / "plain"
