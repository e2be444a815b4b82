"""The writer of one query under one epoch: one transaction a batch, with its record in the ledger.

Promise (I3): each batch is written once, over any number of calls and writers. The opening fences every earlier
producer of the query, waits until its transaction has ended, and only then reads the ledger. A leader that was paused
is fenced by the brokers; when it opens again, it finds the epoch of its successor in the ledger, which each leader
claims before its first batch. It fences its successor by that opening, once: the successor opens again, and goes on. A
commit without an answer is never sent again by this module: the ledger says whether it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tenure.clock import Clock
from tenure.coordination.encoding import new_uid
from tenure.errors import QueryFailed, StorageError
from tenure.retry import RetryPolicy, retry
from tenure.sinks.kafka.cluster import PARTITION, KafkaCluster, in_words
from tenure.sinks.kafka.errors import ENDED, FENCED, error_of, is_refusal, refusal
from tenure.sinks.kafka.ledger import Ledger
from tenure.sinks.kafka.ledger_rules import LedgerEntry, claimed, had_before, refuse_older, transactional_id
from tenure.sinks.kafka.producer import TooLong, TransactionalProducer
from tenure.sinks.kafka.records import Record
from tenure.sinks.kafka.settings import LONGEST, SHORTEST, TIMEOUT
from tenure.sinks.sink import Batch

_SPARE: Final = 4
"""How many times as long as a batch has lasted the next may last."""
_LEAST: Final = timedelta(seconds=1)
"""The shortest timeout of a transaction that librdkafka takes."""


@dataclass(frozen=True, slots=True)
class KafkaPatience:
    """`answer_s`: for how long one answer is waited for; `batch_s`: for how long a batch is tried again after its first
    failure."""

    answer_s: float = 30.0
    batch_s: float = 60.0


class KafkaWriter:
    """Writes the batches of one query under one epoch. Used by one thread."""

    def __init__(
        self,
        cluster: KafkaCluster,
        ledger: Ledger,
        batch: Batch,
        *,
        policy: RetryPolicy,
        patience: KafkaPatience,
        clock: Clock,
    ) -> None:
        """`batch`: any batch of the query and the epoch."""
        self._cluster = cluster
        self._ledger = ledger
        self.epoch: Final = batch.epoch
        self._id = transactional_id(batch.query_id)
        self._policy = policy
        self._patience = patience
        self._clock = clock
        fixed = cluster.settings.timeout
        self._timeout, self._longest = fixed or SHORTEST, fixed or LONGEST
        self._producer: TransactionalProducer | None = None  # None: not open
        self._newest: LedgerEntry | None = None  # of the ledger, as long as the producer is open; None: it has none
        self._known: LedgerEntry | None = None  # the newest that was ever read or written here

    def write(self, batch: Batch, records: Callable[[], Iterable[Record]]) -> bool:
        """Write a batch, once; return whether Kafka had the batch before this call. `records`: begins anew with each
        call.

        Raises Fenced: a higher epoch has written; StorageError: the cluster does not answer, and the batch may be
        committed; QueryFailed: the cluster refuses the batch, or the batch takes too long, or `had_before` refuses it.
        """
        attempt = new_uid()
        failed_s: float | None = None  # the first failure; None: there was none

        def once() -> bool:
            nonlocal failed_s
            try:
                return self._write(batch, records, attempt)
            except StorageError:
                failed_s = self._clock.monotonic_s() if failed_s is None else failed_s
                raise

        def has_time() -> bool:
            return failed_s is None or self._clock.monotonic_s() - failed_s < self._patience.batch_s

        return retry(once, policy=self._policy, on=StorageError, go_on=has_time, clock=self._clock)

    def _write(self, batch: Batch, records: Callable[[], Iterable[Record]], attempt: str) -> bool:
        while True:
            if self._newest is not None and self._newest.batch < batch.id - 1:
                self._producer = None  # another writer has gone on meanwhile: the ledger knows
            fresh = self._producer is None
            producer = self._producer or self._opened(batch)
            had = had_before(self._newest, batch, attempt=attempt, where=str(self._ledger))
            if had is not None:
                self._producer = producer
                return had
            entry = LedgerEntry(batch.scope, batch.query, batch.id, batch.epoch, attempt)
            try:
                self._send(producer, chain(records(), [self._record_of(batch.query_id, entry)]), entry, fresh=fresh)
            except TooLong:
                self._grow(producer, batch)
                continue
            self._rest(producer)
            return False

    def _opened(self, batch: Batch) -> TransactionalProducer:
        """Open a producer, read the ledger, and claim it. Raises as `write` does."""
        self._ledger.make()
        while True:
            producer = self._fencing()
            self._newest = self._ledger.newest(batch.query_id, patience_s=self._patience.answer_s)
            refuse_older(self._newest, self._known, where=str(self._ledger))
            self._known = self._newest
            had_before(self._newest, batch, attempt="", where=str(self._ledger))  # refuses, before anything is written
            claim = claimed(self._newest, batch)
            if claim is None:
                return producer
            try:
                self._send(producer, [self._record_of(batch.query_id, claim)], claim, fresh=True)
            except TooLong as error:
                raise StorageError(f"{self._cluster}: the transaction of a new leader was ended") from error
            if not producer.disturbed:
                return producer

    def _fencing(self) -> TransactionalProducer:
        """Open a producer, with a timeout that the brokers take."""
        while True:
            producer = self._made()
            try:
                producer.open(self._ledger.topic)
            except KafkaException as error:
                half = self._timeout / 2
                too_long = error_of(error).code() == KafkaError.INVALID_TRANSACTION_TIMEOUT
                if too_long and self._cluster.settings.timeout is None and half >= _LEAST:
                    self._timeout = self._longest = half
                    continue
                raise self._why(_causes(producer, error), producer, fresh=True) from error
            return producer

    def _made(self) -> TransactionalProducer:
        try:
            return TransactionalProducer(
                self._cluster.settings,
                self._id,
                timeout=self._timeout,
                patience_s=self._patience.answer_s,
                clock=self._clock,
            )
        except KafkaException as error:
            raise QueryFailed(
                f"the settings of {self._cluster} do not fit a transaction of {self._timeout.total_seconds():g} s: "
                f"{error_of(error).str()}",
                fix=f"give another value, or {TIMEOUT}, in settings=",
            ) from error

    def _send(
        self, producer: TransactionalProducer, records: Iterable[Record], entry: LedgerEntry, *, fresh: bool
    ) -> None:
        """Send a transaction whose record of the ledger is `entry`. After an error the producer is not used again.
        Raises TooLong, StorageError, QueryFailed, and the errors of `records`."""
        self._producer = None
        try:
            producer.send(records)
        except KafkaException as error:
            late = producer.lasted_s >= producer.timeout.total_seconds()
            causes = _causes(producer, error)
            if late and any(one.code() in ENDED for one in causes) and not any(map(is_refusal, causes)):
                raise TooLong from error
            raise self._why(causes, producer, fresh=fresh) from error
        self._newest = self._known = entry

    def _why(
        self, causes: Sequence[KafkaError], producer: TransactionalProducer, *, fresh: bool
    ) -> StorageError | QueryFailed:
        """Our error for errors of the client. `fresh`: the producer has asked the cluster for its topics lately, so a
        refusal is none of a topic or a partition that was made meanwhile."""
        for one in filter(is_refusal, causes):
            if fresh:
                return refusal(one, where=str(self._cluster))
        if any(one.code() in FENCED for one in causes):
            return StorageError(
                f"{self._cluster}: another producer has opened as {self._id!r}",
                fix="if no leader was paused, look for a second scope that has adopted this query's checkpoint",
            )
        return StorageError(in_words(self._cluster, causes[0], producer.heard))

    def _grow(self, producer: TransactionalProducer, batch: Batch) -> None:
        """Let the next transaction last longer. Raises QueryFailed: it lasts as long as it may already."""
        if self._timeout >= self._longest:
            limit_s = self._longest.total_seconds()
            raise QueryFailed(
                f"batch {batch.id} of query {batch.query!r} takes longer than the {limit_s:g} s that a transaction of "
                f"{self._cluster} may last: nothing of it is visible",
                fix=f"make smaller batches, or give a longer {TIMEOUT} in settings= and, if need be, a longer "
                "transaction.max.timeout.ms to the brokers",
            )
        self._timeout = self._wanted(producer)

    def _rest(self, producer: TransactionalProducer) -> None:
        """After a batch: keep the producer for the next batch, unless that needs another."""
        wanted = self._wanted(producer)
        if producer.disturbed or wanted > self._timeout:
            self._timeout = max(wanted, self._timeout)
        else:
            self._producer = producer

    def _wanted(self, producer: TransactionalProducer) -> timedelta:
        return min(self._longest, _SPARE * timedelta(seconds=producer.lasted_s))

    def _record_of(self, query_id: str, entry: LedgerEntry) -> Record:
        return (self._ledger.topic, entry.encode(), query_id.encode(), PARTITION, 0, None)


def _causes(producer: TransactionalProducer, error: KafkaException) -> list[KafkaError]:
    """The errors behind an exception: the refusal of a record comes before the error of the call that noticed it."""
    refused = producer.heard.refused
    return [error_of(error)] if refused is None else [refused, error_of(error)]
