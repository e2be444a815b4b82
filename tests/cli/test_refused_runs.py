"""Pipelines that cannot run, queries that fail by themselves: one line, nothing lost, the next right run goes on."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.spark.submit import RETAINED
from tests.cli.support import COPY, Place, tenure

pytestmark = pytest.mark.spark

COUNTS = """
def note(rows, batch):
    rows.coalesce(1).write.mode("append").json(job.params["output"])
job.stream("counts", source(job).groupBy("k").count(), sink=ForeachBatch(note, idempotent=False), output_mode="update")
"""
SINK = 'sink=Delta(job.params["output"])'


def test_a_parameter_that_is_missing(place: Place, spark: SparkSession) -> None:
    flags = place.flags()
    del flags[6:10]
    told = tenure("run", place.pipeline(COPY), *flags, "--until-idle", spark=spark)
    assert told.code == 2
    assert told.error == "the pipeline asks for parameter 'input'; give --param input=..."


@pytest.mark.parametrize(
    ("body", "code", "line"),
    [
        ("pass", 7, "pipeline 'rows' declares no stream; call job.stream(...)"),
        (f"{COPY}\n{COPY}", 2, "stream 'copy' is declared twice; give each stream a name of its own"),
        (f'job.stream("a", job.spark.range(3), {SINK})', 2, "the rows of stream 'a' are not streaming; start from"),
        (f'job.stream("a", source(job), {SINK}, trigger="real-time")', 2, "writes its offsets late"),
        (f'job.stream("a", source(job), {SINK}, trigger="continuous 1 s")', 2, "writes its offsets late"),
        (f'job.stream("a", source(job), {SINK}, trigger="often")', 2, "trigger 'often' of stream 'a' is refused"),
        (f'job.stream("a", source(job), {SINK}, trigger="")', 2, "trigger '' of stream 'a' is refused"),
        (f'job.stream("a", source(job), {SINK}, trigger="-1 second")', 2, "should not be negative; use an interval"),
        (
            'source(job).writeStream.format("noop").queryName("mine").start()',
            7,
            "starts 1 queries by itself (mine), outside of the fence; declare them with job.stream(...)",
        ),
        ('raise ValueError("no\\n luck")', 7, "rows.py:12: ValueError: no"),
        ("raise SystemExit(3)", 7, "rows.py:12: SystemExit: 3"),
        (f'job.stream("a", source(job).select("none"), {SINK})', 7, "rows.py:12: [UNRESOLVED_COLUMN"),
    ],
)
def test_what_is_wrong_is_said_before_a_term_is_spent(
    place: Place, spark: SparkSession, body: str, code: int, line: str
) -> None:
    told = place.run(place.pipeline(body), spark=spark)
    assert told.code == code
    assert line in told.error
    *waits, _ = told.err.splitlines()
    assert waits
    assert all(" waits for Spark to start" in line for line in waits)
    assert place.look("history") == []
    assert not place.output.exists()


def test_state_that_is_kept_for_too_few_batches(place: Place, spark: SparkSession) -> None:
    """From wherever Spark has it: its own file of defaults, a file of properties, the pipeline's function. Spark itself
    refuses less than 1."""
    try:
        spark.conf.set(RETAINED, "1")
        told = place.run(place.pipeline(COPY), spark=spark)
    finally:
        spark.conf.unset(RETAINED)
    assert told.code == 2
    assert told.error == (
        f"setting {RETAINED} cannot be '1': a takeover needs the logs and state of the batch before the newest; "
        "give 2 or more, or leave it out (100)"
    )
    assert place.look("history") == []


def test_the_least_that_is_enough_for_a_takeover(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    body = f'job.spark.conf.set("{RETAINED}", "2")\n{COUNTS}'
    try:
        for number in range(2, 7):
            assert place.run(place.pipeline(body), spark=spark).code == 0
            place.feed(number)
            place.feed(number + 10)
        assert place.run(place.pipeline(body), spark=spark).code == 0
    finally:
        spark.conf.unset(RETAINED)
    newest: dict[str, int] = {}
    for row in json_rows(place):
        newest[row["k"]] = max(row["count"], newest.get(row["k"], 0))
    assert newest == {"a": 6, "b": 5}


def json_rows(place: Place) -> list[dict[str, Any]]:
    return [json.loads(line) for file in place.output.glob("*.json") for line in file.read_text().splitlines()]


def test_a_name_that_a_live_member_has(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    file, clock = place.pipeline(COPY), SystemClock()
    with closing(SqliteStore(place.store)) as store, SessionKeeper(store, ttl=timedelta(seconds=30), clock=clock) as on:
        Election(store, Scope("rows"), member="anna", clock=clock).join(on, host="here", pid=7)
        told = place.run(file, "--member", "anna", "--ttl", "500ms", spark=spark)
    assert told.code == 2
    assert told.error == "a live member of scope 'rows' is named 'anna'; start this one with another member name"
    assert place.look("history") == []
    assert place.run(file, "--member", "anna", spark=spark).code == 0


def test_an_output_mode_that_spark_refuses(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    told = place.run(place.pipeline(f'job.stream("a", source(job).groupBy("k").count(), {SINK})'), spark=spark)
    assert told.code == 8
    assert told.error.startswith("query 'a' failed: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming")
    (term,) = place.look("history")
    assert term["why"] == "failed"
    assert term["detail"].startswith("query 'a' failed: [STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid")


def test_a_function_of_the_user_that_raises_in_a_worker(place: Place, spark: SparkSession) -> None:
    for number in range(3):
        place.feed(number)
    bad = f"""
@F.udf("long")
def pick(number):
    if number == 1:
        raise ValueError(f"no luck\\nwith {{number}}")
    return number
job.stream("picked", source(job).select(pick("id").alias("id")), {SINK})
"""
    told = place.fail(place.pipeline(bad), spark=spark)
    assert "query 'picked' failed: ValueError: no luck" in told.error
    assert place.ids() == [0]
    again = place.run(place.pipeline(bad.replace("number == 1", "False")), spark=spark)
    assert again.code == 0, again.err
    assert place.ids() == [0, 1, 2]


def test_a_function_of_the_user_that_raises_with_a_batch(place: Place, spark: SparkSession) -> None:
    for number in range(3):
        place.feed(number)
    bad = """
def put(rows, batch):
    if batch.id == 1:
        raise RuntimeError("cannot reach\\nthe other side")
    rows.write.mode("append").json(job.params["output"])
job.stream("put", source(job), sink=ForeachBatch(put, idempotent=False))
"""
    told = place.fail(place.pipeline(bad), spark=spark)
    assert told.error.startswith("query 'put' failed: RuntimeError: cannot reach")
    assert str(place.folder / "spark.log") in told.error
    again = place.run(place.pipeline(bad.replace("batch.id == 1", "False")), spark=spark)
    assert again.code == 0, again.err
    assert spark.read.json(str(place.output)).count() == 3
    assert [term["why"] for term in place.look("history")] == ["failed", "finished"]


def test_a_query_that_changed_is_refused_by_spark_where_it_was_allowed_and_the_old_one_goes_on(
    place: Place, spark: SparkSession
) -> None:
    place.feed(0, 1)
    place.feed(2, 3)
    assert place.run(place.pipeline(COUNTS), spark=spark).code == 0
    place.feed(4, 5)
    count = 'groupBy("k").count()'
    for changed, why in (
        ('groupBy("k", "id").count()', "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"),
        ("select('k')", "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"),
    ):
        file = place.pipeline(COUNTS.replace(count, changed))
        assert place.run(file, spark=spark).code == 12
        told = place.fail(file, "--changed-query", "counts", spark=spark)
        assert told.error.startswith(f"query 'counts' failed: [{why}] ")
    again = place.run(place.pipeline(COUNTS), spark=spark)
    assert again.code == 0, again.err
    rows = spark.read.json(str(place.output)).collect()
    assert max(row["count"] for row in rows if row["k"] == "a") == 3
    assert [term["why"] for term in place.look("history")] == ["finished", "failed", "failed", "finished"]


def test_the_json_of_each_command_keeps_its_keys(place: Place, spark: SparkSession, tmp_path: Path) -> None:
    place.feed(1)
    place.feed(2)
    told = place.run(place.pipeline(COPY), "--quiet", "--event-log", str(tmp_path / "events"), spark=spark)
    assert told.code == 0
    assert told.out == ""
    assert "committed" not in told.err
    assert "waits for" not in told.err
    status = place.look("status")
    (query,) = status["queries"]
    assert query.pop("planned_at")
    assert query == {"query": "copy", "batch": 1, "epoch": 1, "behind": None}
    assert (status["leader"], status["epoch"], status["members"]) == (None, 1, [])
    (term,) = place.look("history")
    asked = {"by", "reason", "note", "host", "version", "to_at_most", "gap_s", "gap_at_least_s", "openings"}
    assert set(term) == {"epoch", "holder", "from", "to", "why", "detail"} | asked
    assert (term["why"], term["detail"]) == ("finished", None)
    listed = place.look("checkpoints", "list")
    assert [one["batch"] for one in listed] == [0, 1]
    keys = {"query", "query_id", "batch", "offsets", "run_directory", "epoch", "planned_at", "folders", "closed"}
    keys |= {"kinds", "paths", "pinned"}
    assert all(set(one) == keys for one in listed)
    assert [one.pop("pinned") for one in listed] == [None, None]
    assert place.look("checkpoints", "show", "copy") == listed[1]
    assert place.look("checkpoints", "show", "copy", "0") == listed[0]
    for command, line in (
        (("show", "copy", "7"), "query 'copy' has no checkpoint 7 in scope 'rows'; see tenure checkpoints list copy"),
        (("show", "none"), "query 'none' has no checkpoint in scope 'rows'"),
        (("list", "none"), "query 'none' has no checkpoint in scope 'rows'; known: ['copy']"),
    ):
        refused = tenure("checkpoints", *command, *place.flags()[:4], "--scope", "rows")
        assert refused.code == 2
        assert line in refused.error
