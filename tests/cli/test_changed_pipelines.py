"""A pipeline file that changes, by the command line: what runs, what is refused, what an operator allows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.cli.support import COPY, Place, tenure
from tests.regressions.test_another_pipeline import COUNT, RENAMED, SUM, refused

pytestmark = pytest.mark.spark

OTHER = COPY.replace('"copy"', '"other"').replace('job.params["output"]', 'job.params["output"] + "-other"')


def test_a_changed_query_that_is_allowed_needs_no_flag_again(place: Place, spark: SparkSession) -> None:
    place.feed(10)
    assert place.run(place.pipeline(COUNT), spark=spark).code == 0
    place.feed(20)
    file = place.pipeline(SUM)
    told = place.run(file, "--changed-query", "totals", spark=spark)
    assert told.code == 0, told.err
    assert "query 'totals' goes on with the state of another one" in told.err
    place.feed(30)
    again = place.run(file, spark=spark)
    assert again.code == 0, again.err
    assert "state of another one" not in again.err
    refused(place.run(place.pipeline(COUNT), spark=spark), "was run as [sum(id) by k; update mode]")


def test_one_stream_less_is_refused_and_one_more_is_not(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    assert place.run(place.pipeline(COPY), spark=spark).code == 0
    more = place.run(place.pipeline(COPY, OTHER), spark=spark)
    assert more.code == 0, more.err
    assert "stream 'other' begins" in more.err
    refused(place.run(place.pipeline(COPY), spark=spark), "stream 'other' has checkpoints", "--drop-stream other")
    less = place.run(place.pipeline(COPY), "--drop-stream", "other", spark=spark)
    assert less.code == 0, less.err
    assert place.run(place.pipeline(COPY), spark=spark).code == 0
    assert place.ids() == [1]
    back = place.run(place.pipeline(COPY, OTHER), spark=spark)
    assert (back.code, "stream 'other' goes on where it was" in back.err) == (0, True)


def test_what_has_ended_is_cleaned_up_whatever_a_file_declares_and_begins_afresh(
    place: Place, spark: SparkSession
) -> None:
    place.feed(1)
    assert place.run(place.pipeline(COPY), "--final", spark=spark).code == 0
    assert place.sql("select key from records where key = 'declared'") == []
    place.look("result", "show")
    where = ("--store", f"sqlite://{place.store}", "--storage", f"file://{place.storage}", "--scope", "rows")
    assert tenure("result", "forget", *where).code == 0
    told = place.run(place.pipeline(RENAMED), spark=spark)
    assert told.code == 0, told.err
    assert "begins in a table with other writers: stream 'copy' of scope 'rows'" in told.err


def test_a_damaged_record_is_named(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    assert place.run(file, spark=spark).code == 0
    place.sql("update records set value = ? where key = 'declared'", [b"{"])
    told = place.run(file, spark=spark)
    assert told.code == 5
    assert "record 'declared' does not decode" in told.error
