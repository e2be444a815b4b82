"""A small SparkSession as `tenure run` starts it, with the connector of Kafka, which the modules of a worker share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tenure.spark.connectors import connectors_of, with_connectors
from tenure.spark.hadoop import use_own_local_files
from tenure.spark.session import start_session
from tenure.spark.submit import Submit
from tests.jvm import SharedJvm
from tests.kit.servers import installed
from tests.kit.servers.connectors import ivy_folder


def start() -> SparkSession:
    os.environ.pop("PYSPARK_PYTHON", None)
    settings = {"spark.sql.shuffle.partitions": "2", "spark.jars.ivy": str(ivy_folder())}
    submit = Submit(tuple(with_connectors([], list(settings.items()), connectors_of(["kafka"]))))
    session = start_session(name="kafka", master="local[2]", conf=settings, log=os.devnull, submit=submit)
    use_own_local_files(session)  # else each file of Spark costs a process
    return session


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm) -> Iterator[SparkSession]:
    with installed(), jvm.lent(start) as session:
        yield session
