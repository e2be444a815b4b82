"""One small SparkSession a module, as `tenure run` starts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.spark.session import end_session, start_session
from tenure.testing.waiting import NEVER_S
from tests.cli.support import Place


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYSPARK_PYTHON", raising=False)
        log = tmp_path_factory.mktemp("spark") / "spark.log"
        conf = {"spark.sql.shuffle.partitions": "2"}
        session = start_session(name="test", master="local[2]", conf=conf, log=str(log))
        try:
            yield session
        finally:
            end_session(session, patience_s=NEVER_S)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
