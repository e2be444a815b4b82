"""Records that retention removed: named in an error, or counted in an event; the output is never wrong in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.errors import InputsGone
from tenure.events import BatchCommitted, BatchRetaken, Events, RecordsSkipped
from tenure.sinks import Batch, ForeachBatch
from tests.cli.support import Place
from tests.draw import QUARTERS, only_if_drawn
from tests.kafka.scene import QUERY, SCOPE, Died, Scene
from tests.kit.servers import KafkaServer

pytestmark = only_if_drawn(QUARTERS[2])


TOLERANT = {"failOnDataLoss": "false"}
TEN = tuple(range(10))


@pytest.fixture
def scene(request: pytest.FixtureRequest, spark: SparkSession, kafka: KafkaServer, tmp_path: Path) -> Scene:
    topic = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:200].strip("-")
    kafka.make_topic(topic)
    return Scene(spark, kafka, tmp_path, topic)


def skipped(scene: Scene) -> list[tuple[int, int]]:
    """Batch and count of each event."""
    return [(event.batch, event.offsets) for event in scene.events(RecordsSkipped)]


# --- a batch that is run for the first time ---------------------------------------------------------------------


def test_removed_while_nobody_led_is_an_error_that_names_them_in_every_member(scene: Scene, kafka: KafkaServer) -> None:
    scene.send(*TEN)
    assert scene.lead(scene.rows(), scene.table()) is None
    scene.send(*range(10, 20))
    kafka.remove_before(scene.topic, 15)
    failure = scene.lead(scene.rows(), scene.table())
    assert isinstance(failure, InputsGone)
    assert failure.exit_code == 5
    where = f"topic '{scene.topic}' partition 0 offsets 10 to 14"
    assert failure.what == f"records that are planned for batch 1 of query 'copy' are gone from Kafka: {where}"
    assert "failOnDataLoss of the source to false" in str(failure)
    # The next member says the same before it runs anything.
    with pytest.raises(InputsGone, match="offsets 10 to 14"):
        scene.lead(scene.rows(), scene.table())
    assert scene.output("id") == list(TEN)
    # As the line says: it goes on without them, and says how many.
    assert scene.lead(scene.rows(**TOLERANT), scene.table()) is None
    assert scene.output("id") == [*TEN, *range(15, 20)]
    assert skipped(scene) == [(1, 5)]


def test_removed_while_nobody_led_is_counted_where_the_source_tolerates_it(scene: Scene, kafka: KafkaServer) -> None:
    scene.send(*TEN)
    assert scene.lead(scene.rows(**TOLERANT), scene.table()) is None
    assert skipped(scene) == []
    scene.send(*range(10, 20))
    kafka.remove_before(scene.topic, 15)
    assert scene.lead(scene.rows(**TOLERANT), scene.table()) is None
    assert scene.output("id") == [*TEN, *range(15, 20)]
    (event,) = scene.events(RecordsSkipped)
    assert (event.query, event.batch, event.offsets) == (QUERY, 1, 5)
    assert event.what == f"topic '{scene.topic}' partition 0 offsets 10 to 14"


# --- a batch that runs again ------------------------------------------------------------------------------------


def test_a_batch_that_runs_again_first_ends_no_query(scene: Scene) -> None:
    """Spark 4.1 counts after each batch how far the query is behind, and has not asked for the newest offsets here."""
    scene.send(*TEN)
    assert isinstance(scene.lead(scene.rows(), scene.table(dies=("before", 0))), Died)
    assert scene.lead(scene.rows(), scene.table()) is None
    assert scene.output("id") == list(TEN)


def test_a_batch_that_runs_again_without_records_is_an_error_before_anything_is_retaken(
    scene: Scene, kafka: KafkaServer
) -> None:
    scene.send(*TEN)
    assert isinstance(scene.lead(scene.rows(), scene.table(dies=("before", 0))), Died)
    kafka.remove_before(scene.topic, 1)
    with pytest.raises(InputsGone, match=r"batch 0 of query 'copy' .* partition 0 offset 0;"):
        scene.lead(scene.rows(), scene.table())
    assert scene.events(BatchRetaken) == []


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_query_without_state_runs_again_without_them(scene: Scene, kafka: KafkaServer, step: str) -> None:
    scene.send(*TEN)
    assert isinstance(scene.lead(scene.rows(**TOLERANT), scene.table(dies=(step, 0))), Died)
    kafka.remove_before(scene.topic, 4)
    scene.send(10)
    assert scene.lead(scene.rows(**TOLERANT), scene.table()) is None
    assert scene.output("id") == [*range(4 if step == "before" else 0, 10), 10]
    assert skipped(scene) == [(0, 4)]


def test_a_query_with_state_goes_on_where_its_table_does_not_have_the_batch(scene: Scene, kafka: KafkaServer) -> None:
    scene.send(*TEN)
    died = scene.lead(scene.totals(**TOLERANT), scene.table(dies=("before", 0), key=("k",)))
    assert isinstance(died, Died)
    kafka.remove_before(scene.topic, 4)
    assert scene.lead(scene.totals(**TOLERANT), scene.table(key=("k",))) is None
    assert scene.output("k", "count") == [(0, 3), (1, 3)]
    assert skipped(scene) == [(0, 4)]


def test_a_state_that_would_lack_records_of_its_table_is_an_error_until_an_operator_answers_for_it(
    scene: Scene, kafka: KafkaServer
) -> None:
    scene.send(*TEN)
    died = scene.lead(scene.totals(**TOLERANT), scene.table(dies=("after", 0), key=("k",)))
    assert isinstance(died, Died)
    kafka.remove_before(scene.topic, 4)
    scene.send(10, 11)
    for _ in range(2):
        failure = scene.lead(scene.totals(**TOLERANT), scene.table(key=("k",)))
        assert isinstance(failure, InputsGone)
        assert "what the query remembers would lack them" in failure.what
        assert str(failure).endswith("or go on all the same, once, by --short-batch copy")
    assert scene.output("k", "count") == [(0, 5), (1, 5)]
    assert scene.lead(scene.totals(**TOLERANT), scene.table(key=("k",)), short_batch=True) is None
    assert scene.output("k", "count") == [(0, 4), (1, 4)]


def test_a_function_of_a_query_with_state_is_not_called_again_without_them(scene: Scene, kafka: KafkaServer) -> None:
    calls: list[int] = []

    def call(rows: object, batch: object) -> None:
        calls.append(rows.count())  # type: ignore[attr-defined] # a DataFrame
        raise Died

    rows = scene.totals(**TOLERANT)
    scene.send(*TEN)
    assert isinstance(scene.lead(rows, ForeachBatch(call, idempotent=True)), Died)
    kafka.remove_before(scene.topic, 4)
    with pytest.raises(InputsGone, match="--short-batch copy"):
        scene.lead(rows, ForeachBatch(call, idempotent=True))
    assert calls == [2]


@pytest.mark.parametrize("step", ["before", "after"])
def test_records_that_go_while_the_batch_runs_again_are_looked_for_after_its_evaluation(
    scene: Scene, kafka: KafkaServer, step: str
) -> None:
    scene.send(*TEN)
    rows, sink = scene.totals(**TOLERANT), scene.table(key=("k",))
    assert isinstance(scene.lead(rows, scene.table(dies=(step, 0), key=("k",))), Died)
    sink.before = lambda: kafka.remove_before(scene.topic, 4)
    ended = scene.lead(rows, sink)
    if step == "before":
        assert ended is None
        assert scene.output("k", "count") == [(0, 3), (1, 3)]
        assert skipped(scene) == [(0, 4)]
    else:  # the table has the batch with all records
        assert isinstance(ended, InputsGone)
        assert scene.output("k", "count") == [(0, 5), (1, 5)]


def test_a_late_commit_of_the_whole_batch_is_refused_where_the_short_batch_has_no_rows(
    scene: Scene, spark: SparkSession, kafka: KafkaServer
) -> None:
    scene.send(*TEN)
    rows = scene.totals(**TOLERANT)
    assert isinstance(scene.lead(rows, scene.table(dies=("before", 0), key=("k",))), Died)
    kafka.remove_before(scene.topic, 10)
    assert scene.lead(rows, scene.table(key=("k",))) is None
    assert [event.repeated for event in scene.events(BatchCommitted)] == [False]
    # The overtaken leader wakes up, with rows of all records.
    whole = spark.sql("SELECT 0L AS k, 5L AS count")
    late = Batch(SCOPE, QUERY, scene.query_id(), id=0, epoch=1)
    sink = scene.table(key=("k",))
    sink.check(output_mode="update")
    assert sink.write(whole, late, planned=lambda: None, events=Events.nobody).repeated
    assert scene.output("k", "count") == []
    scene.send(20)
    assert scene.lead(rows, scene.table(key=("k",))) is None
    assert scene.output("k", "count") == [(0, 1)]


# --- partitions and starts --------------------------------------------------------------------------------------


def test_new_partitions_are_read_from_their_start_after_a_takeover(scene: Scene, kafka: KafkaServer) -> None:
    scene.send(*TEN)
    assert scene.lead(scene.rows(), scene.table()) is None
    kafka.add_partitions(scene.topic, 3)
    scene.send(10, 11, partition=1)
    assert isinstance(scene.lead(scene.rows(), scene.table(dies=("before", 1))), Died)
    scene.send(12, partition=2)
    assert scene.lead(scene.rows(), scene.table()) is None
    assert scene.output("id") == list(range(13))


def test_records_of_a_new_partition_that_are_gone_are_named(scene: Scene, kafka: KafkaServer) -> None:
    scene.send(*TEN)
    assert scene.lead(scene.rows(), scene.table()) is None
    kafka.add_partitions(scene.topic, 2)
    scene.send(10, 11, 12, partition=1)
    assert isinstance(scene.lead(scene.rows(), scene.table(dies=("before", 1))), Died)
    kafka.remove_before(scene.topic, 2, partition=1)
    with pytest.raises(InputsGone, match="partition 1 offsets 0 to 1;"):
        scene.lead(scene.rows(), scene.table())


def test_a_topic_that_is_gone_is_named(scene: Scene, kafka: KafkaServer) -> None:
    scene.send(*TEN)
    assert isinstance(scene.lead(scene.rows(), scene.table(dies=("before", 0))), Died)
    kafka.remove_topic(scene.topic)
    with pytest.raises(InputsGone, match="partition 0 offsets 0 to 9;"):
        scene.lead(scene.rows(), scene.table())


def test_a_first_batch_that_began_at_the_latest_offset_keeps_its_start(scene: Scene) -> None:
    latest = {"startingOffsets": "latest"}
    scene.send(*TEN)
    # Spark's first batch has no records then: it notes the end of the topic, at which the query begins.
    assert isinstance(scene.lead(scene.rows(**latest), scene.table(dies=("before", 0))), Died)
    scene.send(10, 11)
    assert scene.lead(scene.rows(**latest), scene.table()) is None
    assert scene.output("id") == [10, 11]


# --- by the command ---------------------------------------------------------------------------------------------

FUNCTION = """
fails = job.params["fails"] == "yes"
def call(rows, batch):
    if fails:
        raise ValueError("no luck")
    rows.write.mode("overwrite").json(job.params["output"])
read = job.spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.params["brokers"])
read = read.option("subscribe", job.params["topic"]).option("startingOffsets", "earliest")
ids = read.option("failOnDataLoss", "false").load().select(F.col("value").cast("string").cast("long").alias("id"))
counts = ids.groupBy((F.col("id") % 2).alias("k")).count()
job.stream("counts", counts, sink=ForeachBatch(call, idempotent=True), output_mode="update")
"""


def test_an_operator_answers_for_a_short_batch_by_a_flag(
    spark: SparkSession, kafka: KafkaServer, tmp_path: Path
) -> None:
    place = Place(tmp_path)
    kafka.make_topic("by-a-flag")
    kafka.send("by-a-flag", map(str, TEN))
    source = ["--param", f"brokers={kafka.address}", "--param", "topic=by-a-flag"]
    file = place.pipeline(FUNCTION)
    assert place.run(file, *source, "--param", "fails=yes", spark=spark).code == 8
    kafka.remove_before("by-a-flag", 4)
    refused = place.run(file, *source, "--param", "fails=no", spark=spark)
    assert refused.code == 5
    assert "topic 'by-a-flag' partition 0 offsets 0 to 3;" in refused.error
    assert refused.error.endswith("or go on all the same, once, by --short-batch counts")
    told = place.run(file, *source, "--param", "fails=no", "--short-batch", "counts", spark=spark)
    assert told.code == 0, told.err
    assert "query counts batch 0 lacks 4 offsets that Kafka has no more: topic 'by-a-flag' partition 0" in told.err
    found = sorted((row["k"], row["count"]) for row in spark.read.json(str(place.output)).collect())
    assert found == [(0, 3), (1, 3)]
