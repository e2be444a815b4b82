"""The sink for Kafka when lines break, answers are lost, brokers end, batches last too long, ledgers are old, and
rights are missing. The broker has a proxy before it, asks for rights, and compacts and ends late transactions at
once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, ResourcePatternType
from confluent_kafka.admin import ResourceType as Resource

from tenure.errors import Fenced, QueryFailed, StorageError, UsageError
from tenure.sinks.kafka.producer import TransactionalProducer
from tenure.sinks.kafka.records import Record
from tenure.sinks.kafka.sink import Kafka
from tests.kafka.sink_place import (
    AFTER_COMMIT,
    BEFORE_COMMIT,
    ONCE,
    ROWS,
    SOON,
    Paused,
    Place,
    read,
    stopping,
)
from tests.kit.clock import ManualClock
from tests.kit.servers import KafkaServer, installed
from tests.kit.servers.kafka import PASSWORDS, USER
from tests.kit.waiting import NEVER_S, wait_until
from tests.support.proxy import TcpProxy, _break, _Line

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": USER,
    "sasl.password": PASSWORDS["PLAIN"],
}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.max.timeout.ms": "150000",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "100",
}
FAST = {"topic.metadata.propagation.max.ms": 500}
"""For topics that are not there."""
_numbers = count()


def is_end_of_transaction(request: bytes) -> bool:
    """Whether a request is EndTxn: Kafka's requests begin with their length and the number of their kind."""
    return len(request) > 6 and int.from_bytes(request[4:6], "big") == 26


class LateProxy(TcpProxy):
    """A proxy that can keep a request, break the line of its client, and pass the request on late."""

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(target)
        self._is_late: Callable[[bytes], bool] | None = None  # None: no request is to be kept
        self._released = threading.Event()
        self.kept, self.answered = threading.Event(), threading.Event()

    def keep(self, is_late: Callable[[bytes], bool]) -> None:
        """Keep the next request that matches, and break the line of its client."""
        self._is_late = is_late

    def release(self) -> None:
        """Pass the request on, and return when the server has answered it."""
        self._released.set()
        assert self.answered.wait(NEVER_S)

    def _arm(self, line: _Line, request: bytes) -> None:
        super()._arm(line, request)
        if self._is_late is None or not self._is_late(request):
            return
        self._is_late = None
        _break(line.client)
        self.kept.set()
        assert self._released.wait(NEVER_S)
        line.server.sendall(request)
        wait_until(lambda: line not in self._lines, what="the answer, which ends the line")
        self.answered.set()
        raise OSError("the client of this line is gone")


@dataclass(frozen=True)
class Strict:
    """A broker, and the proxy before it."""

    kafka: KafkaServer
    proxy: LateProxy

    def place(self) -> Place:
        return Place(self.kafka, f"faults-{next(_numbers)}")


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strict]:
    with installed():
        server = KafkaServer(tmp_path_factory.mktemp("strict"), settings=SETTINGS)
    host, _, port = server.address.partition(":")
    with LateProxy((host, int(port))) as proxy:
        server.advertise(proxy.port)
        with server:
            yield Strict(server, proxy)


@pytest.fixture
def proxy(strict: Strict) -> Iterator[LateProxy]:
    yield strict.proxy
    strict.proxy.heal()


@pytest.fixture
def place(strict: Strict) -> Place:
    return strict.place()


# --- answers and lines ------------------------------------------------------------------------------------------------


def test_a_commit_whose_answer_is_lost_counts_once(place: Place, proxy: LateProxy) -> None:
    """The client sends it again, and gets the answer."""
    writer = place.writer(1)
    place.write(writer, 0)
    proxy.drop_reply(is_end_of_transaction)
    assert place.write(writer, 1) is False
    assert proxy.dropped.is_set()
    assert place.write(writer, 2) is False
    assert place.committed() == place.of(0, 1, 2)


def test_a_commit_that_nobody_answers_is_looked_up(place: Place, proxy: LateProxy) -> None:
    """The broker has committed the batch. The writer gives up waiting, opens again, and finds its own batch."""
    writer = place.writer(1, patience=SOON)
    place.write(writer, 0)
    opened: list[TransactionalProducer] = []
    fencing = writer._fencing

    def fenced() -> TransactionalProducer:
        proxy.heal()
        opened.append(fencing())
        return opened[-1]

    vars(writer).update(_fencing=fenced)
    proxy.drop_reply(is_end_of_transaction, is_reply=lambda data: False)
    assert place.write(writer, 1) is False
    assert len(opened) == 1
    assert place.write(writer, 2) is False
    assert place.committed() == place.of(0, 1, 2)


def test_a_repeated_batch_is_still_repeated_when_a_line_breaks(place: Place, proxy: LateProxy) -> None:
    place.write(place.writer(1), 0)
    proxy.drop_reply(is_end_of_transaction)  # of the claim
    assert place.write(place.writer(2), 0) is True
    assert place.committed() == place.of(0)


def test_a_late_copy_of_a_commit_ends_no_later_transaction(place: Place, proxy: LateProxy) -> None:
    """The line breaks, the client sends the commit of batch 1 again, and goes on to batch 2. The first copy comes then:
    it would commit a part of batch 2 without its record in the ledger, and a new leader would write the batch twice."""
    writer = place.writer(1)
    place.write(writer, 0)
    proxy.keep(is_end_of_transaction)
    assert place.write(writer, 1) is False
    assert proxy.kept.is_set()
    paused = Paused(lambda: place.write(writer, 2), stopping(writer, BEFORE_COMMIT))
    proxy.release()
    assert place.committed(is_open=True) == place.of(0, 1)
    assert place.write(place.writer(2), 2) is False
    with pytest.raises(Fenced):
        paused.go_on()
    assert place.committed() == place.of(0, 1, 2)


def test_lines_that_break_in_the_middle_lose_and_double_nothing(place: Place, proxy: LateProxy) -> None:
    writer = place.writer(1)
    for number in range(3):
        stop = stopping(writer, BEFORE_COMMIT if number % 2 else AFTER_COMMIT)
        paused = Paused(partial(place.write, writer, number), stop)
        proxy.break_lines()
        assert paused.go_on() is False
    assert place.committed() == place.of(*range(3))


def test_a_broker_that_dies_before_the_commit_is_waited_for(place: Place) -> None:
    writer = place.writer(1)
    place.write(writer, 0)
    paused = Paused(lambda: place.write(writer, 1), stopping(writer, BEFORE_COMMIT))
    place.kafka.nodes[0].kill()
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(paused.go_on)
        place.kafka.start()
        assert written.result() is False
    assert place.write(writer, 2) is False
    assert place.committed() == place.of(0, 1, 2)


def test_a_broker_that_hangs_in_the_commit_is_asked_again(place: Place) -> None:
    writer = place.writer(1, patience=SOON)
    place.write(writer, 0)
    paused = Paused(lambda: place.write(writer, 1), stopping(writer, BEFORE_COMMIT))
    vars(writer._ledger).update(make=place.kafka.nodes[0].wake)  # the first step of the next opening
    place.kafka.nodes[0].pause()
    try:
        assert paused.go_on() is False
    finally:
        place.kafka.nodes[0].wake()
    assert place.committed() == place.of(0, 1)


def test_a_cluster_that_is_away_is_one_line(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    place.servers = "127.0.0.1:1"
    with pytest.raises(StorageError, match=r"Kafka at 127\.0\.0\.1:1: .*[Rr]efused") as away:
        place.write(place.writer(1, patience=ONCE), 0)
    assert "\n" not in str(away.value)
    assert capfd.readouterr().err == ""


# --- batches that last too long ---------------------------------------------------------------------------------------


def test_a_batch_that_lasts_too_long_is_one_error_and_nothing_is_visible(place: Place) -> None:
    """The broker ends the transaction while the rows come."""
    writer = place.writer(1, settings={"transaction.timeout.ms": 2000})
    place.write(writer, 0)

    def slow() -> Iterator[Record]:
        before = place.offsets()
        yield from place.records(1)
        wait_until(lambda: place.offsets() > before + ROWS, what="the broker to end the transaction")

    with pytest.raises(QueryFailed, match=r"batch 1 of query 'hourly' takes longer than the 2 s that a transaction"):
        writer.write(place.batch(1, epoch=1), slow)
    assert place.committed() == place.of(0)
    assert place.write(writer, 1) is False
    assert place.committed() == place.of(0, 1)


def test_a_batch_may_last_longer_after_a_batch_that_lasted_long(place: Place) -> None:
    clock, calls = ManualClock(sleeping_advances=True), []
    writer = place.writer(1, clock=clock)

    def slow() -> Iterator[Record]:
        calls.append(writer._timeout)
        clock.advance(timedelta(seconds=70))
        yield from place.records(0)

    assert writer.write(place.batch(0, epoch=1), slow) is False
    assert calls == [timedelta(seconds=60), timedelta(seconds=140)], "the brokers do not allow four times 70"
    assert place.write(writer, 1) is False
    assert place.committed() == place.of(0, 1)


def test_a_batch_that_lasts_longer_than_the_brokers_allow_is_one_error(place: Place) -> None:
    clock = ManualClock(sleeping_advances=True)

    def slow() -> Iterator[Record]:
        clock.advance(timedelta(seconds=1000))
        yield from place.records(0)

    with pytest.raises(
        QueryFailed, match=r"takes longer than the [\d.]+ s that a transaction .* may last.*smaller batches"
    ):
        place.writer(1, clock=clock).write(place.batch(0, epoch=1), slow)
    assert place.committed() == []


def test_settings_that_do_not_fit_a_shorter_transaction_are_one_error(place: Place) -> None:
    """Brokers that allow less make it shorter."""
    writer = place.writer(1, settings={"message.timeout.ms": 59_000})
    vars(writer).update(_timeout=timedelta(seconds=50))
    with pytest.raises(QueryFailed, match=r"do not fit a transaction of 50 s: .*message\.timeout\.ms"):
        place.write(writer, 0)


def test_a_timeout_that_the_brokers_do_not_allow_is_refused(place: Place) -> None:
    with pytest.raises(QueryFailed, match=r"raise transaction\.max\.timeout\.ms of the brokers"):
        place.write(place.writer(1, settings={"transaction.timeout.ms": 180_000}), 0)


def test_a_ledger_that_was_compacted_is_read(place: Place) -> None:
    place.kafka.make_topic(
        place.ledger,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.001",
        max_compaction_lag_ms="100",
        delete_retention_ms="0",
    )
    writer = place.writer(1)
    for number in range(5):
        place.write(writer, number)
    noted = len(read(place.servers, place.ledger))

    def compacted() -> bool:
        place.note("other")  # closes the segment
        keys = [message.key() for message in read(place.servers, place.ledger)]
        return keys.count(place.id_of().encode()) == 1

    wait_until(compacted, what=f"the compaction of {noted} records")
    assert place.write(place.writer(2), 4) is True
    assert place.write(place.writer(2), 5) is False
    assert place.committed() == place.of(*range(6))


# --- topics and records that the cluster refuses ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (("TOPIC", b"x" * 2_000_000, b"k", -1, 0, None), "message.max.bytes"),
        (("TOPIC", b"x" * 200_000, b"k", -1, 0, None), r"raise message\.max\.bytes in settings="),
        (("TOPIC", b"v", b"k", 9, 0, None), "a number in its column 'partition' that the topic does not have"),
        (("TOPIC", b"v", None, -1, 0, None), "a compacted topic takes no record without a key"),
        (("no-such-topic", b"v", b"k", -1, 0, None), "make the topic: Tenure makes only its ledger"),
        (("TOPIC", b"v", b"k", -1, 1, None), r"message\.timestamp\.before\.max\.ms"),
    ],
)
def test_a_record_that_the_cluster_refuses_is_one_error(place: Place, record: Any, line: str) -> None:
    refusing = f"{place.topic}-refusing"
    place.kafka.make_topic(
        refusing, cleanup_policy="compact", max_message_bytes="100000", message_timestamp_before_max_ms="1000"
    )
    topic, *rest = record
    bad = (refusing if topic == "TOPIC" else topic, *rest)
    with pytest.raises(QueryFailed, match=line):
        place.writer(1, settings=FAST).write(place.batch(0, epoch=1), lambda: [*place.records(0), bad])
    assert place.committed() == [], "no transaction is open for readers to wait for"
    assert place.write(place.writer(1), 0) is False


def test_a_partition_that_was_added_later_is_found(place: Place) -> None:
    writer = place.writer(1)
    place.write(writer, 0)
    place.kafka.add_partitions(place.topic, 5)
    record = (place.topic, b"b1r0", None, 4, 0, None)
    assert writer.write(place.batch(1, epoch=1), lambda: [record]) is False
    assert [message.partition() for message in read(place.servers, place.topic) if message.value() == b"b1r0"] == [4]


# --- rights -----------------------------------------------------------------------------------------------------------


def allow(server: KafkaServer, kind: Resource, name: str, *rights: AclOperation) -> None:
    admin = AdminClient({"bootstrap.servers": server.address})
    bindings = [
        AclBinding(kind, name, ResourcePatternType.PREFIXED, f"User:{USER}", "*", right, AclPermissionType.ALLOW)
        for right in rights
    ]
    for future in admin.create_acls(bindings).values():
        future.result(NEVER_S)


def test_each_right_that_is_missing_is_named(place: Place) -> None:
    strict = place.kafka
    sink = Kafka(strict.secured, place.topic, settings=LOGIN, ledger=place.ledger)
    steps = [
        (r"grant Write and Describe on the topic", Resource.TOPIC, place.topic, [AclOperation.DESCRIBE]),
        ("this user lacks Write on topic", Resource.TOPIC, place.topic, [AclOperation.WRITE]),
        ("grant Write and Describe on the topic", Resource.TOPIC, place.ledger, [AclOperation.DESCRIBE]),
        ("may not make the topic of a ledger", Resource.TOPIC, place.ledger, [AclOperation.CREATE]),
    ]
    for line, kind, name, rights in steps:
        with pytest.raises((UsageError, QueryFailed), match=line):
            sink.ask()
        allow(strict, kind, name, *rights)
    sink.ask()
    place.write(place.writer(1), 0)
    with pytest.raises((UsageError, QueryFailed), match="this user lacks Read and Write and DescribeConfigs on topic"):
        sink.ask()
    allow(strict, Resource.TOPIC, place.ledger, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
    sink.ask()
    place.servers = strict.secured
    with pytest.raises(QueryFailed, match="grant Write and Describe on the transactional id"):
        place.write(place.writer(2, settings=LOGIN), 1)
    allow(strict, Resource.TRANSACTIONAL_ID, "tenure/", AclOperation.WRITE, AclOperation.DESCRIBE)
    assert place.write(place.writer(2, settings=LOGIN), 1) is False
    place.servers = strict.address
    assert place.committed() == place.of(0, 1)


def test_a_wrong_password_is_named_and_not_shown(place: Place) -> None:
    place.servers, wrong = place.kafka.secured, {**LOGIN, "sasl.password": "wrong-secret"}
    sink = Kafka(place.servers, place.topic, settings=wrong)
    with pytest.raises(StorageError, match=r"[Aa]uthentication failed") as refused:
        place.write(place.writer(1, settings=wrong, patience=ONCE), 0)
    assert "wrong-secret" not in f"{refused.value} {sink!r} {sink._settings!r} {sink._settings}"
