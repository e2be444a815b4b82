"""The sink for Kafka on real Spark: the columns of the rows, what Spark's own source reads, staged rows, and leaders
that die around the commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tenure.errors import QueryFailed, StorageError, TermLost, UsageError
from tenure.events import BlobLeft, Events
from tenure.sinks import Kafka
from tenure.sinks.kafka import records
from tenure.sinks.sink import Attempts, Batch, Written
from tests.kafka.scene import Died, Scene
from tests.kafka.sink_place import QUICK, read
from tests.kit.servers import KafkaServer
from tests.spark.sinks.support import Seen, numbers, write

pytestmark = pytest.mark.spark

_numbers = count()


@pytest.fixture
def topic(kafka: KafkaServer) -> str:
    name = f"sink-{next(_numbers)}"
    kafka.make_topic(name, partitions=3)
    return name


@pytest.fixture
def batch(tmp_path: Path, topic: str) -> Callable[..., Batch]:
    """A batch whose scratch folder is new. Blanks and signs in the path must not matter."""

    def made(number: int, *, epoch: int = 1) -> Batch:
        scratch = f"file://{tmp_path}/a store+1%/blobs/e{epoch}/b{number}-{next(_numbers)}"
        return Batch("s", "hourly", f"id-of-{topic}", number, epoch, scratch=scratch)

    return made


Make = Callable[..., Batch]


def a_sink(kafka: KafkaServer, topic: str | None, **options: Any) -> Kafka:
    sink = Kafka(kafka.address, topic, retry_policy=QUICK, **options)
    sink.check(output_mode="append")
    return sink


def values(spark: SparkSession, *found: int) -> DataFrame:
    return numbers(spark, found).selectExpr("cast(n as string) as value")


def seen_by_readers(kafka: KafkaServer, topic: str) -> list[bytes | None]:
    return sorted((message.value() for message in read(kafka.address, topic)), key=repr)


def test_a_row_is_a_record_with_all_that_it_has(
    kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession
) -> None:
    headers = (
        "array(named_struct('key', 'h', 'value', X'00ff'), named_struct('key', 'h', 'value', cast(null as binary)))"
    )
    columns = {
        "key": ("X'00ff'", "null", "X''"),
        "value": ("'ä'", "null", "''"),
        "partition": ("2", "null", "0"),
        "headers": (headers, "null", headers),
        "timestamp": ("timestamp'2026-01-02 03:04:05.678901 UTC'", "null", "timestamp'1970-01-01 00:00:00.001 UTC'"),
        "topic": ("'elsewhere'", "'elsewhere'", "null"),
    }
    kinds = {"key": "binary", "value": "string", "partition": "int", "timestamp": "timestamp", "topic": "string"}
    kinds["headers"] = "array<struct<key:string,value:binary>>"
    union = " union all ".join(
        "select " + ", ".join(f"cast({row[place]} as {kinds[name]}) as {name}" for name, row in columns.items())
        for place in range(3)
    )
    sink, rows = a_sink(kafka, topic), spark.sql(union)
    sink.check_rows(rows)
    assert write(sink, rows, batch(0)) == Written(repeated=False)
    found = {message.key(): message for message in read(kafka.address, topic)}
    full, bare, empty = found[b"\x00\xff"], found[None], found[b""]
    assert (full.value(), full.partition()) == ("ä".encode(), 2)
    assert full.headers() == [("h", b"\x00\xff"), ("h", None)]
    assert full.timestamp()[1] == datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC).timestamp() * 1000
    assert (bare.value(), bare.headers()) == (None, None)
    assert bare.timestamp()[1] > full.timestamp()[1]
    assert (empty.value(), empty.partition(), empty.timestamp()[1]) == (b"", 0, 1)


def test_rows_name_their_topics(kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession) -> None:
    kafka.make_topic(f"{topic}-2")
    rows = spark.sql(f"select t as topic, t as value from values ('{topic}'), ('{topic}-2') as t(t)")
    sink = a_sink(kafka, None)
    sink.check_rows(rows)
    write(sink, rows, batch(0))
    assert [seen_by_readers(kafka, name) for name in (topic, f"{topic}-2")] == [
        [topic.encode()],
        [f"{topic}-2".encode()],
    ]
    with pytest.raises(QueryFailed, match="a row has no topic"):
        write(sink, spark.sql("select 'v' as value, cast(null as string) as topic"), batch(1))


def test_keys_lie_where_sparks_own_sink_puts_them(
    kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession
) -> None:
    kafka.make_topic(f"{topic}-own", partitions=3)
    rows = spark.range(40).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    write(a_sink(kafka, topic), rows, batch(0))
    plain = rows.write.format("kafka").option("kafka.bootstrap.servers", kafka.address)
    plain.option("topic", f"{topic}-own").save()
    ours, sparks = (
        {message.key(): message.partition() for message in read(kafka.address, name)}
        for name in (topic, f"{topic}-own")
    )
    assert len(ours) == 40
    assert ours == sparks


def test_each_batch_is_there_once_for_sparks_own_source(
    kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession
) -> None:
    sink = a_sink(kafka, topic)
    assert write(sink, values(spark, 1, 2), batch(0)) == Written(repeated=False)
    assert write(sink, values(spark), batch(1)) == Written(repeated=False)
    assert write(sink, values(spark, 3), batch(2)) == Written(repeated=False)
    assert write(a_sink(kafka, topic), values(spark, 3), batch(2, epoch=2)) == Written(repeated=True)
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.address).option("subscribe", topic)
    rows = source.option("kafka.isolation.level", "read_committed").load()
    assert sorted(row.value.decode() for row in rows.select("value").collect()) == ["1", "2", "3"]


def test_the_driver_sends_the_rows_of_a_task_in_their_order(
    kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession
) -> None:
    rows = spark.range(30_000, numPartitions=3).selectExpr("'one' as key", "cast(id as string) as value")
    write(a_sink(kafka, topic), rows, batch(0))
    found = [message.value() for message in read(kafka.address, topic)]
    assert found == [str(number).encode() for number in range(30_000)]


def test_nothing_is_sent_before_the_plan(kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession) -> None:
    def refused() -> None:
        assert read(kafka.address, topic, isolation="read_uncommitted") == []
        raise TermLost(scope=topic, epoch=1)

    with pytest.raises(TermLost):
        write(a_sink(kafka, topic), values(spark, 1), batch(0), planned=refused)
    assert read(kafka.address, topic, isolation="read_uncommitted") == []


# --- staged rows ------------------------------------------------------------------------------------------------------


def test_staged_rows_go_with_the_batch(
    kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession, tmp_path: Path
) -> None:
    staged: list[Path] = []

    def look() -> None:
        staged.extend(tmp_path.rglob("*.parquet"))

    sink, seen = a_sink(kafka, topic), Seen()
    for one in (batch(0), batch(0), batch(0, epoch=2)):
        write(sink, values(spark, 1), one, planned=look, seen=seen)
    assert len(staged) == 3
    assert list(tmp_path.rglob("*.parquet")) == []
    assert seen.names() == []
    assert seen_by_readers(kafka, topic) == [b"1"]


def test_staged_rows_that_stay_are_an_event(kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession) -> None:
    seen, one = Seen(), batch(0)
    with patch.object(records, "remove", side_effect=StorageError("the disk is read-only")):
        assert write(a_sink(kafka, topic), values(spark, 1), one, seen=seen) == Written(repeated=False)
    (left,) = seen.events
    assert isinstance(left, BlobLeft)
    assert (left.address, left.why) == (one.scratch, "the disk is read-only")


def test_a_file_that_goes_in_the_middle_ends_the_transaction(
    kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession, tmp_path: Path
) -> None:
    def lose() -> None:
        _, lost = sorted(tmp_path.rglob("part-*.parquet"))
        lost.unlink()

    rows = spark.range(10, numPartitions=2).selectExpr("cast(id as string) as value")
    sink = a_sink(kafka, topic)
    with pytest.raises(StorageError, match="cannot read the staged rows in"):
        write(sink, rows, batch(0), planned=lose)
    assert read(kafka.address, topic) == []
    assert write(sink, rows, batch(0)) == Written(repeated=False)
    assert len(read(kafka.address, topic)) == 10


def test_a_sweep_finds_nothing_beside_the_topic(kafka: KafkaServer, topic: str) -> None:
    swept = a_sink(kafka, topic).staged(Attempts("s", "q", lambda: ["q-1"]))
    assert list(swept.find()) == []


def test_a_rehearsal_asks_no_cluster(spark: SparkSession, tmp_path: Path) -> None:
    Kafka("127.0.0.1:1", "t").rehearse(values(spark, 1, 2), f"file://{tmp_path}/rehearsal")
    assert len(list((tmp_path / "rehearsal").glob("*.parquet"))) > 0


# --- before the start -------------------------------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_refused_and_not_made(kafka: KafkaServer, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"topic 'no-such-topic' is not at Kafka at .*make it"):
        a_sink(kafka, "no-such-topic").check_rows(values(spark, 1))
    assert "no-such-topic" not in kafka._admin().list_topics(timeout=10).topics


def test_a_cluster_that_is_away_is_asked_at_the_first_batch(spark: SparkSession) -> None:
    sink = Kafka("127.0.0.1:1", "t")
    sink.check(output_mode="append")
    with patch("tenure.sinks.kafka.sink._LOOK_S", 0.2):
        sink.check_rows(values(spark, 1))


def test_a_batch_without_a_folder_is_refused(kafka: KafkaServer, topic: str, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="the batch has no scratch folder"):
        write(a_sink(kafka, topic), values(spark, 1), Batch("s", "q", "q-1", 0, 1))


def test_a_query_that_fails_sends_nothing(kafka: KafkaServer, topic: str, batch: Make, spark: SparkSession) -> None:
    rows = spark.sql("select cast(raise_error('no') as string) as value")
    with pytest.raises(PySparkException, match="no"):
        write(a_sink(kafka, topic), rows, batch(0))
    assert read(kafka.address, topic, isolation="read_uncommitted") == []


# --- streams ----------------------------------------------------------------------------------------------------------


class DyingKafka(Kafka):
    """A sink whose leader dies before or after its commit of a batch."""

    dies: tuple[str, int] | None = None

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        if self.dies == ("before", batch.id):
            planned()
            raise Died
        written = super().write(rows, batch, planned=planned, events=events)
        if self.dies == ("after", batch.id):
            raise Died
        return written


@pytest.mark.parametrize("dies", ["before", "after"])
def test_leaders_that_die_around_a_commit_lose_and_double_nothing(
    kafka: KafkaServer, topic: str, spark: SparkSession, tmp_path: Path, dies: str
) -> None:
    """From a topic into a topic, by one leader after another."""
    source = f"{topic}-in"
    kafka.make_topic(source, partitions=2)
    scene = Scene(spark, kafka, tmp_path, source)

    def lead(given: tuple[str, int] | None = None) -> BaseException | None:
        sink = DyingKafka(kafka.address, topic, retry_policy=QUICK)
        sink.dies = given
        return scene.lead(scene.rows().selectExpr("cast(id as string) as value"), sink)

    scene.send(1, 2, 3)
    assert lead() is None
    scene.send(4, 5, partition=1)
    assert isinstance(lead((dies, 1)), Died)
    scene.send(6)
    assert lead() is None
    assert seen_by_readers(kafka, topic) == [str(number).encode() for number in range(1, 7)]
    assert list((tmp_path / "storage").rglob("scratch/**/*.parquet")) == []
