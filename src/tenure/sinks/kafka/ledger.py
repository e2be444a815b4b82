"""The ledger of one query: records in the only partition of a compacted topic, of which the newest counts.

Promise: `newest` reads up to the end that the partition had when the reading began, also past the open transactions of
other queries: a reader of committed records sees nothing behind the first open transaction, and would overlook a record
that was committed there. It reads the tail alone. Read it after the opening of a producer: that ends the transaction of
the producer before, so that nothing is committed later that the reading did not see.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tenure.clock import Clock
from tenure.errors import StorageError
from tenure.sinks.kafka.cluster import PARTITION, KafkaCluster
from tenure.sinks.kafka.errors import is_refusal, refusal
from tenure.sinks.kafka.ledger_rules import LedgerEntry
from tenure.sinks.kafka.settings import Heard

_TAIL: Final = 8
"""How many offsets are read at first. A batch has two: its record, and the mark of its commit."""
_FURTHER: Final = 8
"""How many times as many are read next."""
_POLL_S: Final = 0.2


class Ledger:
    """The ledger in `topic`, which is made with the replicas of the topic `like`. Used by one thread."""

    def __init__(self, cluster: KafkaCluster, topic: str, *, like: str | None, clock: Clock) -> None:
        self._cluster = cluster
        self.topic = topic
        self._like = like
        self._clock = clock

    def __str__(self) -> str:
        return f"ledger {self.topic!r} at {self._cluster}"

    def make(self) -> None:
        """Make the topic, where there is none. Raises StorageError, QueryFailed."""
        self._cluster.make_ledger(self.topic, like=self._like)

    def newest(self, query_id: str, *, patience_s: float) -> LedgerEntry | None:
        """The newest record of a query; None: there is none, or an operator has removed it. Raises StorageError,
        QueryFailed."""
        low, high = self._cluster.ends(self.topic)
        if low == high:
            return None
        heard = Heard()
        consumer = Consumer(self._cluster.settings.for_reader(heard))
        try:
            reach = _TAIL
            while True:
                first = max(low, high - reach)
                is_there, value = self._last_of(consumer, query_id, first, high, patience_s=patience_s)
                if is_there:
                    return None if value is None else LedgerEntry.decode(value, where=str(self))
                if first == low:
                    return None
                reach *= _FURTHER
        finally:
            consumer.close()

    def _last_of(
        self, consumer: Consumer, query_id: str, first: int, high: int, *, patience_s: float
    ) -> tuple[bool, bytes | None]:
        """Whether a query has a record between two offsets, and the value of its last."""
        found: tuple[bool, bytes | None] = (False, None)
        consumer.assign([TopicPartition(self.topic, PARTITION, first)])
        deadline_s = self._clock.monotonic_s() + patience_s
        seen, trouble = first, ""
        while seen < high:
            if self._clock.monotonic_s() > deadline_s:
                raise StorageError(
                    f"{self} could not be read up to offset {high}, only to {seen}: "
                    f"{trouble or 'a transaction of another producer is open there'}"
                )
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                seen = int(message.offset() or 0) + 1
                if message.key() == query_id.encode():
                    found = (True, message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                seen = max(seen, int(message.offset() or 0))
            elif is_refusal(error):
                raise refusal(error, where=str(self))
            else:
                trouble = error.str()
        return found
