"""The errors of librdkafka, as ours: one table.

Promise: a refusal is an answer that stays the same however often the batch is sent. Another error says nothing about
the transaction: the ledger knows whether it was committed. In doubt an error is no refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tenure.errors import QueryFailed

FENCED: Final = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Another producer has opened under the same transactional id, or the brokers have ended the transaction."""

ENDED: Final = FENCED | {
    KafkaError.INVALID_TXN_STATE,
    KafkaError.TRANSACTION_ABORTABLE,
    KafkaError._STATE,
    KafkaError._FATAL,
}
"""The answers when the brokers have ended a transaction, for example because it lasted too long."""

MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})

UNAUTHORIZED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)

_SIZES: Final = "raise message.max.bytes in settings= and max.message.bytes of the topic, or write smaller values"
_FIXES: Final[Mapping[int, str]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "grant Write and Describe on the topic, and Create, Describe, DescribeConfigs, Read and Write on the ledger"
    ),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant Write and Describe on the transactional id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant Create on the cluster, or make the ledger's topic yourself",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "make the topic: Tenure makes only its ledger",
    KafkaError._UNKNOWN_TOPIC: "make the topic: Tenure makes only its ledger",
    KafkaError._UNKNOWN_PARTITION: "a row has a number in its column 'partition' that the topic does not have",
    KafkaError.MSG_SIZE_TOO_LARGE: _SIZES,
    KafkaError.RECORD_LIST_TOO_LARGE: _SIZES,
    KafkaError.INVALID_RECORD: "a compacted topic takes no record without a key",
    KafkaError.INVALID_TIMESTAMP: "see message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic",
    KafkaError.TOPIC_EXCEPTION: "give the name of a topic",
    KafkaError.POLICY_VIOLATION: "the cluster has a rule against it",
    KafkaError.INVALID_REPLICATION_FACTOR: "make the ledger's topic yourself: one partition, cleanup.policy=compact",
    KafkaError.INVALID_CONFIG: "make the ledger's topic yourself: one partition, cleanup.policy=compact",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: (
        "lower transaction.timeout.ms in settings=, or raise transaction.max.timeout.ms of the brokers"
    ),
    KafkaError.UNSUPPORTED_VERSION: "use a broker that knows transactions",
}
"""Code of a refusal -> how to mend the cause."""


def error_of(error: KafkaException) -> KafkaError:
    """The error that an exception carries."""
    found = error.args[0]
    assert isinstance(found, KafkaError)
    return found


def is_refusal(error: KafkaError) -> bool:
    """Whether the cluster refuses, and would refuse again."""
    return error.code() in _FIXES


def refusal(error: KafkaError, *, where: str) -> QueryFailed:
    """The error of a batch that the cluster refuses. `where`: the thing, for people."""
    return QueryFailed(f"{where}: {error.str()}", fix=_FIXES[error.code()])
