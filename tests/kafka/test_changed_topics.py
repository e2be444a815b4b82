"""A query of Kafka by Spark's plan, and one that an operator lets go on with another topic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.checkpoints.source import KAFKA
from tenure.inputs.kafka_records import LOSS
from tenure.spark.errors import words_of
from tenure.spark.source_plans import sources_of
from tests.kafka.scene import Scene
from tests.kit.servers import KafkaServer


@pytest.fixture
def scene(request: pytest.FixtureRequest, spark: SparkSession, kafka: KafkaServer, tmp_path: Path) -> Scene:
    topic = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:200].strip("-")
    for name in (topic, f"{topic}-new"):
        kafka.make_topic(name)
    return Scene(spark, kafka, tmp_path, topic)


def test_a_source_of_kafka_is_known_by_its_topics_and_not_by_its_brokers(scene: Scene) -> None:
    (source,) = sources_of(scene.rows(subscribe="b, a", **{"kafka.bootstrap.servers": "elsewhere:1"}))
    assert (source.folder, source.kind, source.told) == ("0", KAFKA, "kafka subscribe=a,b")
    assert (source,) == sources_of(scene.rows(subscribe="a,b", failOnDataLoss="false"))
    assert (source,) != sources_of(scene.rows(subscribe="a"))


@pytest.mark.parametrize("tolerant", [False, True])
def test_another_topic_ends_the_run_or_is_read_from_its_start(scene: Scene, kafka: KafkaServer, tolerant: bool) -> None:
    scene.send(1, 2)
    assert scene.lead(scene.rows(), scene.table()) is None
    kafka.send(f"{scene.topic}-new", ["11", "12", "13"])
    rows = scene.rows(subscribe=f"{scene.topic}-new", failOnDataLoss=str(not tolerant).lower())
    failure = scene.lead(rows, scene.table())
    if tolerant:
        assert failure is None
        assert scene.output("id") == [1, 2, 11, 12, 13]
    else:
        assert failure is not None
        assert LOSS in words_of(failure), "the driver takes it for records that are gone"
        assert scene.output("id") == [1, 2]
