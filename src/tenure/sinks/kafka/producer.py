"""One producer with a transactional id, and its transactions.

Promise: `send` returns once the cluster has committed all of the records, in one transaction. It calls the commit once;
after any error nobody knows by this module whether the commit was done. A transaction that was not sent to be committed
is aborted, as far as the cluster answers, so that no reader waits for it. Not promised: that the producer can be used
after an error. The opening of another producer ends the transaction of this producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from tenure.clock import Clock
from tenure.sinks.kafka.errors import error_of
from tenure.sinks.kafka.records import Record
from tenure.sinks.kafka.settings import Heard, KafkaSettings

_LOOK_EVERY: Final = 512
"""Records between two looks at the clock and at the events of the client."""
_POLL_S: Final = 0.1


class TooLong(Exception):
    """A transaction has lasted longer than the cluster lets it."""


class TransactionalProducer:
    """A producer that is not open yet. Used by one thread."""

    def __init__(
        self, settings: KafkaSettings, transactional_id: str, *, timeout: timedelta, patience_s: float, clock: Clock
    ) -> None:
        """`timeout`: of a transaction. `patience_s`: for how long the cluster may be silent."""
        self.timeout: Final = timeout
        self.heard: Final = Heard()
        self.lasted_s = 0.0
        """How long the newest transaction has lasted, so far."""
        self._patience_s = patience_s
        self._clock = clock
        self._producer = Producer(settings.for_producer(transactional_id, timeout=timeout, heard=self.heard))

    def open(self, topic: str) -> None:
        """Fence each earlier producer of this id, and wait until its transaction has ended. `topic`: any that is there.
        Raises KafkaException."""
        self._producer.list_topics(topic, self._patience_s)  # without a line yet, the next call waits for half a second
        self._producer.init_transactions(self._patience_s)
        self._producer.poll(0)

    @property
    def disturbed(self) -> bool:
        """Whether a line to the coordinator broke. The client then sends a commit again by another line. A late copy of
        a commit would end the next transaction of this producer before its time, but not that of another producer."""
        return self.heard.coordinator_lost

    def send(self, records: Iterable[Record]) -> None:
        """Send the records in one transaction. Raises KafkaException, TooLong, and the errors of `records`."""
        began_s = self._clock.monotonic_s()
        committing = False
        try:
            self._producer.begin_transaction()
            produce = self._producer.produce
            for number, (topic, value, key, partition, timestamp, headers) in enumerate(records):
                while True:
                    try:
                        produce(topic, value, key, partition, None, None, timestamp, headers)
                        break
                    except BufferError:
                        self._make_room(began_s)
                if number % _LOOK_EVERY == 0:
                    self._producer.poll(0)
                    self._look_at_clock(began_s)
            self._drain(began_s)
            committing = True
            self._producer.commit_transaction(self._patience_s)
            self._producer.poll(0)
        except BaseException as error:
            if not committing or _asks_for_abort(error):
                with suppress(KafkaException):
                    self._producer.abort_transaction(self._patience_s)
            raise
        finally:
            self.lasted_s = self._clock.monotonic_s() - began_s

    def _make_room(self, began_s: float) -> None:
        """Wait until the cluster has half of the records that wait for it."""
        full = len(self._producer)
        if not full:
            too_large = "a record is larger than queue.buffering.max.kbytes"
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, too_large))
        silence = _Silence(self._clock, self._patience_s)
        while (waiting := len(self._producer)) > full // 2:
            self._producer.poll(_POLL_S)
            silence.refuse(waiting)
            self._look_at_clock(began_s)

    def _drain(self, began_s: float) -> None:
        """Wait until the cluster has every record. A commit waits, too, but does not know a slow cluster from a silent
        cluster."""
        silence = _Silence(self._clock, self._patience_s)
        while waiting := self._producer.flush(_POLL_S):
            silence.refuse(waiting)
            self._look_at_clock(began_s)

    def _look_at_clock(self, began_s: float) -> None:
        if self._clock.monotonic_s() - began_s > self.timeout.total_seconds():
            raise TooLong


def _asks_for_abort(error: BaseException) -> bool:
    """Whether a commit was not sent, as a record was refused before: the transaction is still open."""
    return isinstance(error, KafkaException) and error_of(error).txn_requires_abort()


class _Silence:
    """Measures for how long a cluster has taken nothing."""

    def __init__(self, clock: Clock, patience_s: float) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._since_s = clock.monotonic_s()
        self._waiting = -1

    def refuse(self, waiting: int) -> None:
        """Raise KafkaException when the number of waiting records has been the same for too long."""
        now_s = self._clock.monotonic_s()
        if waiting != self._waiting:
            self._waiting, self._since_s = waiting, now_s
        elif now_s - self._since_s > self._patience_s:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no record was taken for {self._patience_s:g} s"))
