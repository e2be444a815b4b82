"""The broker of the tests keeps the promises of its module: data and ports outlive each kind of end."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.kit.servers import KafkaServer
from tests.kit.servers.kafka import PASSWORDS, USER
from tests.kit.waiting import NEVER_S, wait_until


def ends(address: str, topic: str, *, partition: int = 0, **login: str) -> tuple[int, int]:
    """The first offset of a partition, and the offset after its last. A broker that has just started answers before it
    leads its partitions again."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "tests", **login})

    def found() -> tuple[int, int] | None:
        try:
            offsets: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=NEVER_S)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE):
                raise
            return None
        return offsets

    try:
        known = wait_until(found, what=f"the leader of {topic}")
        assert known is not None
        return known
    finally:
        consumer.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_records_and_partitions_outlive_the_broker(kafka: KafkaServer, end: str) -> None:
    topic = f"outlives-{end}"
    kafka.make_topic(topic, partitions=2)
    kafka.send(topic, map(str, range(100)), partition=1)
    kafka.remove_before(topic, 40, partition=1)
    kafka.add_partitions(topic, 3)
    getattr(kafka.nodes[0], end)()
    kafka.start()
    first, last = ends(kafka.address, topic, partition=1)
    assert last == 100
    assert first == 40 or end == "kill"
    kafka.send(topic, ["one more"], partition=2)
    assert ends(kafka.address, topic, partition=2) == (0, 1)


def test_a_paused_broker_answers_nobody_until_it_is_woken(kafka: KafkaServer) -> None:
    kafka.nodes[0].pause()
    try:
        assert not kafka.answers(0)
    finally:
        kafka.nodes[0].wake()
    kafka.wait_for(0)


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_the_secured_address_asks_for_the_password(kafka: KafkaServer, mechanism: str) -> None:
    topic = f"secured-{mechanism.lower()}"
    kafka.make_topic(topic)
    login: dict[str, Any] = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORDS[mechanism],
    }
    assert ends(kafka.secured, topic, **login) == (0, 0)
    refused = Consumer({"bootstrap.servers": kafka.secured, "group.id": "tests", **login, "sasl.password": "no"})
    try:
        with pytest.raises(KafkaException):
            refused.list_topics(timeout=2)
    finally:
        refused.close()


def test_a_topic_that_was_removed_can_be_made_again(kafka: KafkaServer) -> None:
    kafka.make_topic("again")
    kafka.send("again", ["a", "b"])
    kafka.remove_topic("again")
    kafka.make_topic("again", partitions=2)
    assert ends(kafka.address, "again") == (0, 0)
