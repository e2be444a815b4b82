"""A topic and a ledger on a real broker, the writers of one query, and the records that readers see. No Spark: the
records of a batch are made here, in place of staged rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tenure.clock import Clock, SystemClock
from tenure.retry import RetryPolicy
from tenure.sinks.kafka.cluster import KafkaCluster
from tenure.sinks.kafka.ledger import Ledger
from tenure.sinks.kafka.producer import TransactionalProducer
from tenure.sinks.kafka.records import Record
from tenure.sinks.kafka.settings import KafkaSettings
from tenure.sinks.kafka.writer import KafkaPatience, KafkaWriter
from tenure.sinks.sink import Batch
from tests.kit.servers import KafkaServer
from tests.kit.waiting import NEVER_S, wait_until

QUICK: Final = RetryPolicy(initial=timedelta(milliseconds=1), maximum=timedelta(milliseconds=50), attempts=20)
ROWS: Final = 5
"""Records of a batch."""
ONCE: Final = KafkaPatience(answer_s=3.0, batch_s=0.0)
"""For tests in which nothing answers."""
SOON: Final = KafkaPatience(answer_s=3.0, batch_s=NEVER_S)
"""For tests in which nothing answers once."""
PATIENT: Final = KafkaPatience(answer_s=NEVER_S, batch_s=NEVER_S)


class Place:
    """A topic `topic` with some partitions, and the ledger `ledger` of one query."""

    def __init__(self, kafka: KafkaServer, name: str, *, partitions: int = 3) -> None:
        self.kafka = kafka
        self.servers = kafka.address
        self.topic: Final = f"{name}-out"
        self.ledger: Final = f"{name}-ledger"
        self.scope: Final = name
        kafka.make_topic(self.topic, partitions=partitions)

    def writer(
        self,
        epoch: int,
        *,
        query: str = "hourly",
        settings: Mapping[str, Any] | None = None,
        patience: KafkaPatience = PATIENT,
        policy: RetryPolicy = QUICK,
        clock: Clock | None = None,
    ) -> KafkaWriter:
        clock = clock or SystemClock()
        cluster = KafkaCluster(KafkaSettings(self.servers, settings or {}), patience_s=patience.answer_s, clock=clock)
        ledger = Ledger(cluster, self.ledger, like=self.topic, clock=clock)
        batch = self.batch(0, epoch=epoch, query=query)
        return KafkaWriter(cluster, ledger, batch, policy=policy, patience=patience, clock=clock)

    def batch(self, number: int, *, epoch: int, query: str = "hourly") -> Batch:
        return Batch(self.scope, query, self.id_of(query), number, epoch)

    def id_of(self, query: str = "hourly") -> str:
        return f"{self.scope}-{query}"

    def records(self, number: int) -> list[Record]:
        """The records of a batch, with keys that spread."""
        return [(self.topic, f"b{number}r{row}".encode(), str(row).encode(), -1, 0, None) for row in range(ROWS)]

    def write(self, writer: KafkaWriter, number: int, *, query: str = "hourly") -> bool:
        batch = self.batch(number, epoch=writer.epoch, query=query)
        return writer.write(batch, lambda: self.records(number))

    def note(self, *keys: str, value: bytes | None = b"of another query") -> None:
        """Put records into the ledger."""
        producer = Producer({"bootstrap.servers": self.servers})
        for key in keys:
            producer.produce(self.ledger, value, key=key, partition=0)
            producer.poll(0)
        assert producer.flush(NEVER_S) == 0

    def committed(self, *, is_open: bool = False) -> list[str]:
        """The records of the topic that a reader of committed records sees, sorted. `is_open`: a transaction is open
        and stays so."""
        found = read(self.servers, self.topic, is_open=is_open)
        return sorted((message.value() or b"").decode() for message in found)

    def uncommitted(self) -> int:
        """How many records a reader of all records sees."""
        return len(read(self.servers, self.topic, isolation="read_uncommitted"))

    def offsets(self) -> int:
        """How many offsets the topic has: those of records, and of the marks that end transactions."""
        return sum(_ends(self.servers, self.topic, isolation="read_uncommitted"))

    def of(self, *numbers: int) -> list[str]:
        """The records of batches, each once, sorted."""
        return sorted((record[1] or b"").decode() for number in numbers for record in self.records(number))


def read(
    servers: str, topic: str, *, isolation: str = "read_committed", is_open: bool = False, **login: str
) -> list[Message]:
    """The records of a topic, up to the end that a reader can see now. The brokers answer a commit first and write the
    marks that show its records to readers then: a reading of committed records waits for the marks, unless a
    transaction `is_open`."""
    if isolation == "read_committed" and not is_open:
        wait_until(
            lambda: _ends(servers, topic, **login) == _ends(servers, topic, isolation="read_uncommitted", **login),
            what=f"the transactions of {topic} to end",
        )
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "tests",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 10,
        "error_cb": lambda error: None,
        **login,
    }
    consumer = Consumer(settings)
    try:
        places = list(consumer.list_topics(topic, timeout=NEVER_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, place, 0) for place in places])
        found, open_places = [], set(places)
        while open_places:
            message = consumer.poll(NEVER_S)
            assert message is not None, f"topic {topic} has no end"
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                open_places.discard(message.partition())
        return found
    finally:
        consumer.close()


def _ends(servers: str, topic: str, *, isolation: str = "read_committed", **login: str) -> list[int]:
    """The end of each partition for readers."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "ends", "isolation.level": isolation, **login})
    try:
        places = list(consumer.list_topics(topic, timeout=NEVER_S).topics[topic].partitions)
        return [consumer.get_watermark_offsets(TopicPartition(topic, place), NEVER_S)[1] for place in places]
    finally:
        consumer.close()


class Stop:
    """A place in the code where one thread stops until `go_on`, once it is armed. Others pass."""

    def __init__(self) -> None:
        self.armed = True
        self.reached = threading.Event()
        self._released = threading.Event()

    def here(self) -> None:
        if self.armed:
            self.armed = False
            self.reached.set()
            assert self._released.wait(NEVER_S)

    def go_on(self) -> None:
        self._released.set()


class Paused:
    """A write on a thread of its own, which stops where `stop` is reached."""

    def __init__(self, write: Callable[[], bool], stop: Stop) -> None:
        self._stop = stop
        self._result: bool | BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(write,))
        self._thread.start()
        assert stop.reached.wait(NEVER_S)

    def _run(self, write: Callable[[], bool]) -> None:
        try:
            self._result = write()
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread by `go_on`
            self._result = error
            self._stop.reached.set()

    def go_on(self) -> bool:
        """Let the write finish, and return its answer."""
        self._stop.go_on()
        self._thread.join(NEVER_S)
        assert not self._thread.is_alive()
        if isinstance(self._result, BaseException):
            raise self._result
        assert self._result is not None
        return self._result


BEFORE_LOOKING, AFTER_LOOKING, BEFORE_COMMIT, AFTER_COMMIT = POINTS = (
    "before the look-up",
    "after the look-up",
    "before the commit",
    "after the commit",
)


def stopping(writer: KafkaWriter, point: str) -> Stop:
    """A stop of a writer at a point, the next time that it is there: a leader that claims its ledger commits, too."""
    stop = Stop()
    newest, fencing = writer._ledger.newest, writer._fencing

    def look(*arguments: Any, **named: Any) -> Any:
        if point == BEFORE_LOOKING:
            stop.here()
        found = newest(*arguments, **named)
        if point == AFTER_LOOKING:
            stop.here()
        return found

    def with_stops(producer: TransactionalProducer) -> TransactionalProducer:
        drain, send = producer._drain, producer.send

        def drained(began_s: float) -> None:
            drain(began_s)
            if point == BEFORE_COMMIT:
                stop.here()

        def sent(records: Iterable[Record]) -> None:
            send(records)
            if point == AFTER_COMMIT:
                stop.here()

        vars(producer).update(_drain=drained, send=sent)
        return producer

    vars(writer._ledger).update(newest=look)
    vars(writer).update(_fencing=lambda: with_stops(fencing()))
    if writer._producer is not None:
        with_stops(writer._producer)
    return stop
