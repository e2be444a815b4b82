"""A member is started with a file that declares something else than its scope has run.

What went wrong: a renamed stream began once more at the start of its sources, in the same table; a sum went on with the
state of a count, as the two look alike to Spark, and the output was neither's; so it did where the same two aggregates
were declared, and a projection above them took the other one. All ended with exit code 0. A file that was as before,
with a lambda or bytes in an aggregate, was taken for another one. And where Spark refused the state to a query whose
change was allowed, the file as it was before was refused, too, though nothing else had ever run. A file that was put in
the place of another one, with its size and the second of its change, was told by its fingerprint, while the code of the
one before was run: Python had it in `__pycache__`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import COPY, Place, Told

__all__ = ["place", "spark"]

pytestmark = pytest.mark.spark

RENAMED = COPY.replace('"copy"', '"copied"')
COUNT = (
    'job.stream("totals", source(job).groupBy("k").agg(F.count("id").alias("n")),'
    ' sink=Delta(job.params["output"], key=["k"]), output_mode="update")'
)
SUM = COUNT.replace("F.count(", "F.sum(")
TWO = COUNT.replace('F.count("id").alias("n")', 'F.sum("id").alias("s"), F.count("id").alias("c")')
THE_SUM, THE_COUNT = (TWO.replace(", sink=", f'.select("k", F.col("{name}").alias("n")), sink=') for name in "sc")
LAMBDA = COUNT.replace('F.count("id")', 'F.sum(F.aggregate(F.array("id"), F.lit(0).cast("long"), lambda a, x: a + x))')
NOT_TAKEN = COUNT.replace('F.count("id")', 'F.sum(F.col("id").cast("double"))')
BYTES = COUNT.replace('F.count("id")', 'F.sum(F.when(F.encode("k", "UTF-8") == F.lit(b"a"), F.col("id")))')


def totals(place: Place) -> dict[str, int]:
    return {row["k"]: row["n"] for row in place.rows()}


def told_events(log: Path, kind: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [one for one in found if one["event"] == kind]


def refused(told: Told, *words: str) -> None:
    """It ended before it led, with one line."""
    assert told.code == 12, told.err
    assert all(word in told.error for word in words), told.error
    assert " leads, epoch " not in told.err


def test_a_renamed_stream_is_refused_before_it_leads(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    place.feed(2)
    assert place.run(place.pipeline(COPY), spark=spark).code == 0
    place.feed(3)
    told = place.run(place.pipeline(RENAMED), spark=spark)
    refused(told, "stream 'copy' has checkpoints and is declared no more", "stream 'copied' has none")
    refused(told, "allow it once by --drop-stream copy --new-stream copied")
    assert place.ids() == [1, 2]
    assert len(place.look("history")) == 1
    assert place.run(place.pipeline(COPY), spark=spark).code == 0
    assert place.ids() == [1, 2, 3], "the file as it was goes on"


def test_what_an_operator_allows_runs_and_no_restart_needs_the_flags(
    place: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place.feed(1)
    assert place.run(place.pipeline(COPY), spark=spark).code == 0
    file, log = place.pipeline(RENAMED), tmp_path / "events"
    refused(place.run(file, "--new-stream", "copied", spark=spark), "allow it once by --drop-stream copy")
    refused(place.run(file, "--drop-stream", "copy", spark=spark), "allow it once by --new-stream copied")
    flags = ("--drop-stream", "copy", "--new-stream", "copied", "--event-log", str(log))
    told = place.run(file, *flags, spark=spark)
    assert told.code == 0, told.err
    assert "begins in a table with other writers: stream 'copy' of scope 'rows'" in told.err
    assert place.ids() == [1, 1], "that is what was allowed"
    (changed,) = told_events(log, "DeclarationChanged")
    assert "stream 'copied' begins; stream 'copy' is declared no more" in str(changed["what"])
    place.feed(2)
    again = place.run(file, spark=spark)
    assert (again.code, place.ids()) == (0, [1, 1, 2]), again.err
    kept = place.run(file, *flags, spark=spark)
    assert kept.code == 0
    assert "--drop-stream copy --new-stream copied: not needed" in kept.err
    refused(place.run(place.pipeline(COPY), spark=spark), "stream 'copied' has checkpoints and is declared no more")


def test_a_sum_does_not_go_on_with_the_state_of_a_count(place: Place, spark: SparkSession) -> None:
    place.feed(10, 20)
    assert place.run(place.pipeline(COUNT), spark=spark).code == 0
    place.feed(30)
    told = place.run(place.pipeline(SUM), spark=spark)
    refused(told, "query 'totals' was run as [count(id) by k; update mode], and would go on with that state")
    refused(told, "as [sum(id) by k; update mode]", "allow it once by --changed-query totals")
    assert totals(place) == {"a": 2}
    assert place.run(place.pipeline(COUNT.replace("source(job)", 'source(job).where("id > 0")')), spark=spark).code == 0
    assert totals(place) == {"a": 3}, "a filter is no state"


def test_a_projection_above_aggregates_does_not_give_the_state_of_one_to_another(
    place: Place, spark: SparkSession
) -> None:
    """Spark drops the aggregate that nothing takes, so both keep one number by key: 10, and then 12 or 11."""
    place.feed(10)
    assert place.run(place.pipeline(THE_SUM), spark=spark).code == 0
    place.feed(2)
    told = place.run(place.pipeline(THE_COUNT), spark=spark)
    refused(told, "query 'totals' was run as [sum(id) by k, without count(id); update mode]")
    refused(told, "as [count(id) by k, without sum(id); update mode]", "allow it once by --changed-query totals")
    assert totals(place) == {"a": 10}
    assert place.run(place.pipeline(THE_SUM.replace('F.col("s")', '(F.col("s") + 0)')), spark=spark).code == 0
    assert totals(place) == {"a": 12}, "a projection that takes the same is no state"


def test_a_file_with_the_size_and_the_time_of_the_one_before_is_the_one_that_runs(
    place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # as it is for users
    place.feed(10)
    for body, code in ((THE_SUM, 0), (THE_COUNT, 12)):
        file = place.pipeline(body)
        os.utime(file, (1.7e9, 1.7e9))
        told = place.run(file, spark=spark)
        assert told.code == code, told.err
    assert totals(place) == {"a": 10}


@pytest.mark.parametrize("body", [LAMBDA, BYTES], ids=["lambda", "bytes"])
def test_a_file_that_is_as_it_was_is_run_again(place: Place, spark: SparkSession, body: str) -> None:
    """Both have names in Spark's plan that are others in each declaration."""
    for number in (10, 20):
        place.feed(number)
        told = place.run(place.pipeline(body), spark=spark)
        assert told.code == 0, told.err
    assert totals(place) == {"a": 30}


def test_a_change_that_spark_refuses_is_undone_without_a_flag(place: Place, spark: SparkSession) -> None:
    place.feed(10)
    assert place.run(place.pipeline(COUNT), spark=spark).code == 0
    place.feed(20)
    for flags in (["--changed-query", "totals"], []):
        place.fail(place.pipeline(NOT_TAKEN), *flags, spark=spark)
    again = place.run(place.pipeline(COUNT), spark=spark)
    assert again.code == 0, again.err
    assert "query 'totals' goes on as it was: it has run nothing since it was changed" in again.err
    assert totals(place) == {"a": 2}
    refused(place.run(place.pipeline(NOT_TAKEN), spark=spark), "allow it once by --changed-query totals")
