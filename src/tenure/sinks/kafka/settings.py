"""The settings of the clients: those of the pipeline, and ours.

Promise: every client is a client of the same cluster with the same credentials, and makes no topic by accident. What
librdkafka says goes to the logger `tenure.sinks.kafka`, which shows nothing unless the pipeline gives it a handler:
librdkafka itself would write to stderr, also in a leader that was fenced. No I/O.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tenure.errors import UsageError

LOGGER: Final = logging.getLogger("tenure.sinks.kafka")
LOGGER.addHandler(logging.NullHandler())
LOGGER.propagate = False

TIMEOUT: Final = "transaction.timeout.ms"
SHORTEST, LONGEST = timedelta(minutes=1), timedelta(minutes=15)
"""Bounds of a transaction whose timeout the pipeline does not give. The longer is the brokers' default limit."""

_OURS: Final = frozenset(
    {
        *("bootstrap.servers", "metadata.broker.list", "transactional.id", "enable.idempotence", "isolation.level"),
        *("allow.auto.create.topics", "group.id", "enable.auto.commit", "auto.offset.reset", "enable.partition.eof"),
        *("log_level", "log.connection.close", "logger", "log_cb", "error_cb"),
        *("on_delivery", "dr_cb", "dr_msg_cb", "delivery.report.only.error"),
    }
)
_INFO: Final = 6
"""The level at which librdkafka logs a line that broke."""
_LINE_BROKE, _COORDINATOR = "FAIL", "TxnCoordinator"
"""Words of such a log."""
_DEFAULTS: Final[Mapping[str, Any]] = {
    "partitioner": "murmur2_random",  # Java's, so Spark's: a key stays in its partition when a job moves here
    "linger.ms": 5,
    "queue.buffering.max.kbytes": 65536,
    "queue.buffering.max.messages": 100_000,
}


class Heard:
    """What a client hears of its brokers, beside its answers. Used by the thread that polls the client."""

    def __init__(self) -> None:
        self.last = ""
        """The newest error that no call raises, in words, such as a line that cannot be made; empty: there is none."""
        self.refused: KafkaError | None = None
        """Why the first record was not taken; None: all were, so far."""
        self.coordinator_lost = False
        """Whether a line to the coordinator of transactions broke. Only the log says so."""

    def error(self, error: KafkaError) -> None:
        """Called by the client."""
        self.last = error.str()

    def log(self, level: int, words: str, *given: str) -> None:
        """Called by the client, which takes this object for a logger."""
        if _LINE_BROKE in given and any(_COORDINATOR in one for one in given):
            self.coordinator_lost = True
        LOGGER.log(level, words, *given)

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called by the client for a record that was not taken."""
        purged = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
        if error is not None and self.refused is None and error.code() not in purged:
            self.refused = error


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """`servers`: where the cluster is found. `given`: settings of librdkafka, by the pipeline."""

    servers: str
    given: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        return f"Kafka at {self.servers}"

    @property
    def timeout(self) -> timedelta | None:
        """For how long a transaction may last, as the pipeline says; None: it does not. Raises UsageError."""
        if TIMEOUT not in self.given:
            return None
        try:
            return timedelta(milliseconds=int(self.given[TIMEOUT]))
        except ValueError as error:
            raise UsageError(f"{TIMEOUT} {self.given[TIMEOUT]!r} is no number", fix="give milliseconds") from error

    def check(self) -> None:
        """Refuse settings that no client takes. Connects to nothing. Raises UsageError."""
        for name in self.given:
            if name in _OURS:
                raise UsageError(f"setting {name!r} of a Kafka sink is Tenure's own", fix="leave it out")
            if name.startswith("kafka."):
                raise UsageError(
                    f"setting {name!r} of a Kafka sink is one of Spark's source",
                    fix=f"write {name[6:]!r}, of librdkafka",
                )
        timeout = self.timeout or SHORTEST
        alone = self.for_producer("tenure", timeout=timeout, heard=Heard())
        del alone["bootstrap.servers"]
        try:
            Producer(alone)
        except (KafkaException, TypeError, ValueError) as error:
            why = error.args[0].str() if isinstance(error, KafkaException) else error
            raise UsageError(
                f"the settings of a Kafka sink are refused: {why}", fix="give settings of librdkafka by its names"
            ) from error

    def for_client(self, heard: Heard) -> dict[str, Any]:
        """The settings of a client that asks."""
        return {
            **{name: value for name, value in self.given.items() if name != TIMEOUT},
            "bootstrap.servers": self.servers,
            "allow.auto.create.topics": False,
            "logger": heard,
            "log_level": _INFO,
            "log.connection.close": True,
            "error_cb": heard.error,
        }

    def for_reader(self, heard: Heard) -> dict[str, Any]:
        """The settings of a client that reads a ledger. Its group has no members and no offsets."""
        return {
            **self.for_client(heard),
            "group.id": "tenure",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,  # the end of a ledger is the mark of a commit, which only an empty fetch shows
        }

    def for_producer(self, transactional_id: str, *, timeout: timedelta, heard: Heard) -> dict[str, Any]:
        """The settings of a client that writes."""
        return {
            **_DEFAULTS,
            **self.for_client(heard),
            "transactional.id": transactional_id,
            TIMEOUT: round(timeout.total_seconds() * 1000),
            "delivery.report.only.error": True,
            "on_delivery": heard.delivered,
        }
