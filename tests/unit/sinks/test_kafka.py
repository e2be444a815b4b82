"""Options and columns of the sink for Kafka that do not fit together, and the names of its ledgers."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.errors import UsageError
from tenure.sinks.kafka.columns import refuse_columns
from tenure.sinks.kafka.ledger_rules import is_topic, ledger_topic
from tenure.sinks.kafka.sink import Kafka
from tenure.sinks.sink import OutputMode

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "tenure",
    "sasl.password": "secret",
}
HEADERS = {
    "type": "array",
    "containsNull": True,
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
}


@pytest.mark.parametrize(
    ("options", "output_mode", "line"),
    [
        ({}, "complete", "complete mode into Kafka: a topic cannot be replaced; use append or update mode"),
        ({"servers": " "}, "append", "servers ' ' of a Kafka sink are none"),
        ({"servers": ["h:9092"]}, "append", "servers ['h:9092'] of a Kafka sink are none"),
        ({"topic": "a b"}, "append", "topic 'a b' of a Kafka sink is not the name of a topic"),
        ({"topic": ".."}, "append", "topic '..' of a Kafka sink is not"),
        ({"ledger": "x" * 250}, "append", "of a Kafka sink is not the name of a topic"),
        ({"settings": {**LOGIN, "sasl.password": ""}}, "append", "sasl.username and sasl.password must be set"),
        ({"ledger": "t"}, "append", "topic 't' is the ledger, too"),
        (
            {"settings": {"transactional.id": "mine"}},
            "append",
            "setting 'transactional.id' of a Kafka sink is Tenure's",
        ),
        ({"settings": {"kafka.sasl.username": "u"}}, "append", "write 'sasl.username', of librdkafka"),
        ({"settings": {"transaction.timeout.ms": "1m"}}, "append", "transaction.timeout.ms '1m' is no number"),
        ({"settings": {"transaction.timeout.ms": 1}}, "append", "the settings of a Kafka sink are refused"),
        ({"settings": {"acks": "1"}}, "append", "the settings of a Kafka sink are refused"),
        ({"settings": {"sasl.passwort": "secret"}}, "append", "are refused: No such configuration property"),
        ({"settings": {"ssl.ca.location": "/no/such", "security.protocol": "SSL"}}, "append", "ssl.ca.location"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], output_mode: OutputMode, line: str) -> None:
    given = {"servers": "h:9092", "topic": "t", **options}
    with pytest.raises(UsageError) as refused:
        Kafka(given.pop("servers"), given.pop("topic"), **given).check(output_mode=output_mode)
    assert line in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "output_mode"),
    [
        ({}, "append"),
        ({"topic": "t"}, "update"),
        ({"topic": "t", "ledger": "l", "settings": {"compression.type": "zstd", "linger.ms": 50}}, "append"),
        ({"settings": LOGIN}, "append"),
    ],
)
def test_options_that_fit(options: dict[str, Any], output_mode: OutputMode, capfd: pytest.CaptureFixture[str]) -> None:
    Kafka("h:9092,i:9092", **options).check(output_mode=output_mode)
    assert capfd.readouterr().err == "", "librdkafka writes nothing to stderr"


@pytest.mark.parametrize(
    ("columns", "topic", "line"),
    [
        ({"key": "string"}, "t", "the rows have no column 'value'"),
        ({"value": "string"}, None, "no topic is named; write Kafka(servers, topic)"),
        ({"value": "long"}, "t", "column 'value' has type long, and a record of Kafka takes string or binary"),
        ({"value": "string", "offset": "long"}, "t", "column 'offset' is no part of a record of Kafka"),
        ({"Value": "string"}, "t", "column 'Value' is no part of a record of Kafka"),
        ({"value": "string", "partition": "long"}, "t", "column 'partition' has type long"),
        ({"value": "string", "timestamp": "timestamp_ntz"}, "t", "column 'timestamp' has type timestamp_ntz"),
        ({"value": {"type": "struct", "fields": []}}, "t", "column 'value' has type struct<>"),
        ({"value": {"type": "udt"}}, "t", "column 'value' has type udt"),
        (
            {"value": "string", "headers": {"type": "array", "elementType": "string", "containsNull": True}},
            "t",
            "column 'headers' has type array<string>, and a record of Kafka takes array<struct<key:string,value:bin",
        ),
    ],
)
def test_rows_that_are_no_records(columns: dict[str, Any], topic: str | None, line: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_columns(schema(columns), topic=topic)
    assert line in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ({"value": "string"}, "t"),
        ({"value": "binary", "topic": "string"}, None),
        ({"value": "binary", "topic": "string"}, "t"),
        (
            {"value": "string", "key": "binary", "partition": "integer", "headers": HEADERS, "timestamp": "timestamp"},
            "t",
        ),
    ],
)
def test_rows_that_are_records(columns: dict[str, Any], topic: str | None) -> None:
    refuse_columns(schema(columns), topic=topic)


def test_a_column_that_is_there_twice_is_refused() -> None:
    fields = [{"name": "value", "type": "string"}, {"name": "value", "type": "string"}]
    with pytest.raises(UsageError, match="the rows have 2 columns 'value'"):
        refuse_columns({"fields": fields}, topic="t")


def test_each_query_has_a_ledger_that_kafka_takes() -> None:
    names = {ledger_topic(query_id) for query_id in ("a", "a=b", "a_b", "a b", "x" * 128)}
    assert len(names) == 5
    assert all(map(is_topic, names))
    spark = "6a0b6a4c-45d0-4a53-9ea4-0dcd5d4d3ad1"
    assert ledger_topic(spark) == f"tenure-ledger-{spark}"


def schema(columns: dict[str, Any]) -> dict[str, Any]:
    return {"fields": [{"name": name, "type": kind} for name, kind in columns.items()]}
