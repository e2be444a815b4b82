"""The sink for Kafka: Spark stages the rows in the pipeline's storage, and the driver sends them in one transaction,
with a record in a ledger.

Promise: each batch of a query is in its topics once, for readers with `isolation.level=read_committed`, and no leader
writes that knows of a higher epoch (I3). Nothing is visible before the batch is planned (I2). Readers of uncommitted
records see attempts that were aborted, too. The driver reads the staged rows through the project's own storage, a row
group at a time. Not promised: an order between the tasks of a batch; a batch that takes longer than a transaction may.
A leader that is paused inside its transaction keeps readers waiting behind it, until its successor opens, or until the
transaction's timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tenure.cleanup.plan import Cleanable
from tenure.clock import Clock, SystemClock
from tenure.coordination.term import Term
from tenure.errors import StorageError, UsageError
from tenure.events import BlobLeft, Events
from tenure.retry import RetryPolicy, exponential_delay
from tenure.sinks.kafka.columns import refuse_columns
from tenure.sinks.kafka.ledger_rules import is_topic, ledger_topic
from tenure.sinks.sink import Attempts, Batch, OutputMode, Written
from tenure.wording import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tenure.sinks.kafka.cluster import KafkaCluster
    from tenure.sinks.kafka.settings import KafkaSettings
    from tenure.sinks.kafka.writer import KafkaWriter

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=50), maximum=timedelta(seconds=2), attempts=12)
"""About 13 seconds of pauses, against brokers that change their leaders, and a leader that was paused and fences."""

_LOOK_S: Final = 5.0
"""For how long the start of a query waits for the cluster."""


class Kafka:
    """Send each batch to topics of Kafka, in one transaction.

    `servers`: HOST:PORT, or several of them, divided by commas. `topic`: of all records; without it, the column `topic`
    of the rows names it. `settings`: further settings of librdkafka; take passwords from the environment. `ledger`: the
    topic that notes the batches, the same for ever; without it the query has a topic of its own, made at first use.

    The rows' columns are `value`, and if you like `key`, `topic`, `partition`, `headers`, `timestamp`. For queries in
    append or update mode. Readers need `isolation.level=read_committed`.
    """

    delivery = "exactly once"

    def __init__(
        self,
        servers: str,
        topic: str | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        ledger: str | None = None,
        retry_policy: RetryPolicy = RETRY,
        clock: Clock | None = None,
    ) -> None:
        self._servers = servers
        self._topic = topic
        self._given = dict(settings or {})
        self._ledger = ledger
        self._retry = retry_policy
        self._clock = clock or SystemClock()
        self._made: KafkaCluster | None = None  # None: not used yet
        # One writer a query (by Spark's id), each used by its query's thread alone.
        self._writers: dict[str, KafkaWriter] = {}

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse options that do not fit together. Connects to nothing. Raises UsageError."""
        if find_spec("confluent_kafka") is None:
            raise UsageError("the Kafka sink needs the package confluent-kafka", fix=how_to_install("kafka"))
        if output_mode not in ("append", "update"):
            raise UsageError(
                f"{output_mode} mode into Kafka: a topic cannot be replaced", fix="use append or update mode"
            )
        if not isinstance(self._servers, str) or not self._servers.strip():
            raise UsageError(f"servers {self._servers!r} of a Kafka sink are none", fix="write HOST:PORT,HOST:PORT")
        for what, name in (("topic", self._topic), ("ledger", self._ledger)):
            if name is not None and not is_topic(name):
                raise UsageError(
                    f"{what} {name!r} of a Kafka sink is not the name of a topic",
                    fix="use letters, digits, '.', '_', '-'; at most 249 characters",
                )
        if self._topic is not None and self._topic == self._ledger:
            raise UsageError(f"topic {self._topic!r} is the ledger, too", fix="name another ledger=")
        self._settings.check()

    def check_rows(self, rows: DataFrame) -> None:
        """Refuse rows that are no records, and a topic that is not there. A cluster that is away is asked at the first
        batch. Raises UsageError."""
        from tenure.sinks.kafka.cluster import KafkaCluster

        refuse_columns(rows.schema.jsonValue(), topic=self._topic)
        if self._topic is not None:
            with suppress(StorageError):
                KafkaCluster(self._settings, patience_s=_LOOK_S, clock=self._clock).look(self._topic)

    def ask(self) -> None:
        """Connect, and ask for the rights on the topic and the ledger; see `Answers`."""
        self._cluster.ask(topic=self._topic, ledger=self._ledger)

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Stage, wait for the plan, send; see `Sink.write`."""
        from tenure.sinks.kafka.records import staged_records
        from tenure.sinks.staging import stage

        refuse_columns(rows.schema.jsonValue(), topic=self._topic)
        if not batch.scratch:
            raise UsageError("the batch has no scratch folder", fix="give the sink the batch that Tenure gave")
        staged = stage.stage(rows, batch.scratch, partition_by=())
        try:
            planned()
            had = self._writer(batch).write(
                batch, lambda: staged_records(batch.scratch, staged.puts, topic=self._topic)
            )
        finally:
            self._remove_staged(batch, events)
        return Written(repeated=had)

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Stage the rows below `directory`. The cluster is not asked: an opening would fence the leader."""
        from tenure.sinks.kafka import records, writer  # noqa: F401 - `write` imports them
        from tenure.sinks.staging import stage

        stage.stage(rows, directory, partition_by=())

    def staged(self, attempts: Attempts) -> Cleanable:
        """Nothing beside the target: the pipeline's own storage has the staged rows, and its sweep removes them."""
        return _Nothing()

    def _writer(self, batch: Batch) -> KafkaWriter:
        from tenure.sinks.kafka.ledger import Ledger
        from tenure.sinks.kafka.writer import KafkaPatience, KafkaWriter

        known = self._writers.get(batch.query_id)
        if known is None or known.epoch != batch.epoch:
            topic = self._ledger or ledger_topic(batch.query_id)
            ledger = Ledger(self._cluster, topic, like=self._topic, clock=self._clock)
            known = self._writers[batch.query_id] = KafkaWriter(
                self._cluster, ledger, batch, policy=self._retry, patience=KafkaPatience(), clock=self._clock
            )
        return known

    def _remove_staged(self, batch: Batch, events: Events) -> None:
        from tenure.sinks.kafka.records import remove

        try:
            remove(batch.scratch)
        except StorageError as error:
            events.emit(BlobLeft(batch.scope, address=batch.scratch, why=error.what))

    @property
    def _settings(self) -> KafkaSettings:
        from tenure.sinks.kafka.settings import KafkaSettings

        return KafkaSettings(self._servers, self._given)

    @property
    def _cluster(self) -> KafkaCluster:
        if self._made is None:
            from tenure.sinks.kafka.cluster import KafkaCluster
            from tenure.sinks.kafka.writer import KafkaPatience

            self._made = KafkaCluster(self._settings, patience_s=KafkaPatience().answer_s, clock=self._clock)
        return self._made


class _Nothing:
    """Nothing to sweep. The driver knows by it that the sink evaluates the rows before the plan, and knows its
    batches."""

    def find(self) -> Sequence[str]:
        """No names."""
        return ()

    def remove(self, term: Term, name: str) -> None:
        """Called for no name."""
