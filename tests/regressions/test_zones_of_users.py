"""A job groups by the day, and relies on the time zone of its host or of spark-defaults.conf.

What went wrong: each member set the time zone UTC in silence, above spark-defaults.conf. A job that moved in had other
days than before. And two hosts with two zones, had they been obeyed, would have had two kinds of days in one state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tenure.declarations.declaration import ZONE, Declaration
from tenure.errors import PipelineFileError, UsageError
from tenure.pipelines.pipeline import Stream
from tenure.sinks import ForeachBatch
from tenure.spark.time_zone import GivenZone, use_zone, zones_of
from tests.cli.conftest import place, spark
from tests.cli.support import Place

__all__ = ["place", "spark"]

pytestmark = pytest.mark.spark

DAYS = """
at = F.timestamp_seconds("id")
days = source(job).groupBy(F.date_format(at, "dd").alias("day")).agg(F.count("id").alias("n"))
job.stream("days", days, sink=Delta(job.params["output"], key=["day"]), output_mode="update")
"""
EVENING = 20 * 3600
"""Of the first day of 1970 in UTC; the second day in Tokyo, the first in New York."""


@pytest.fixture
def host(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Sets the zone of the host."""
    zones: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr] # it has one
    before = zones.getDefault()
    yield lambda zone: zones.setDefault(zones.getTimeZone(zone))
    zones.setDefault(before)
    spark.conf.unset(ZONE)


def days(place: Place) -> dict[str, int]:
    return {row["day"]: row["n"] for row in place.rows()}


def test_a_scope_keeps_the_zone_of_its_first_host(
    place: Place, spark: SparkSession, host: Callable[[str], None]
) -> None:
    file = place.pipeline(DAYS)
    place.feed(EVENING)
    host("Asia/Tokyo")
    assert place.run(file, spark=spark).code == 0
    assert days(place) == {"02": 1}
    place.feed(EVENING + 1)
    host("America/New_York")
    assert place.run(file, spark=spark).code == 0
    assert days(place) == {"02": 2}
    utc = ("--conf", f"{ZONE}=UTC")
    told = place.run(file, *utc, spark=spark)
    assert told.code == 12
    assert "have computed in the time zone Asia/Tokyo, and would in UTC" in told.error
    assert told.error.endswith("undo that, or allow it once by --changed-query days --changed-zone")
    assert days(place) == {"02": 2}


def test_a_scope_of_an_older_version_goes_on_in_utc(
    place: Place, spark: SparkSession, host: Callable[[str], None]
) -> None:
    file = place.pipeline(DAYS)
    place.feed(EVENING)
    host("UTC")
    assert place.run(file, spark=spark).code == 0
    ((value,),) = place.sql("select value from records where key = 'declared'")
    place.sql("update records set value = ? where key = 'declared'", [json.dumps({**json.loads(value), "zone": None})])
    place.feed(EVENING + 1)
    host("Asia/Tokyo")
    assert place.run(file, spark=spark).code == 0
    assert days(place) == {"01": 2}


# A case: what Spark's files set, a flag, and the pipeline's function; and what the scope has recorded.
RUN = {zone: Declaration("f", "4.3.0", {}, None if zone == "unrecorded" else zone) for zone in ("unrecorded", "UTC")}


@pytest.mark.parametrize(
    ("case", "zones"),
    [
        # nothing has run: the first that is set, or the host's
        ((None, None, None, None), ("Asia/Tokyo", None)),
        (("Europe/Paris", None, None, None), ("Europe/Paris", None)),
        (("Europe/Paris", "Europe/Rome", None, None), ("Europe/Rome", None)),
        (("Europe/Paris", "Europe/Rome", "Europe/Oslo", None), ("Europe/Oslo", None)),
        # a scope keeps its zone, and what is set is compared with it
        ((None, None, None, "UTC"), ("UTC", "UTC")),
        (("Europe/Paris", None, None, "UTC"), ("Europe/Paris", "UTC")),
        ((None, "Europe/Rome", None, "UTC"), ("Europe/Rome", "UTC")),
        ((None, None, "Europe/Oslo", "UTC"), ("Europe/Oslo", "UTC")),
        # one zone by another name
        ((None, "Etc/UTC", None, "UTC"), ("UTC", "UTC")),
        # an older version set UTC, above the files, and below flags and the pipeline
        ((None, None, None, "unrecorded"), ("UTC", "UTC")),
        (("Europe/Paris", None, None, "unrecorded"), ("Europe/Paris", "UTC")),
        (("Europe/Paris", "Europe/Rome", None, "unrecorded"), ("Europe/Rome", "Europe/Rome")),
        ((None, None, "Europe/Oslo", "unrecorded"), ("Europe/Oslo", "Europe/Oslo")),
    ],
)
def test_which_zone_counts(
    spark: SparkSession,
    host: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str | None, str | None, str | None, str | None],
    zones: tuple[str, str | None],
) -> None:
    files, flag, own, recorded = case
    host("Asia/Tokyo")
    monkeypatch.setattr("tenure.spark.time_zone._of_files", lambda spark: files)
    was, given = None if recorded is None else RUN[recorded], GivenZone(flag)
    use_zone(spark, given, kept="UTC" if recorded else None)
    if own is not None:
        spark.conf.set(ZONE, own)
    stream = Stream("days", spark.range(1), ForeachBatch(print, idempotent=True), "append", None)
    assert zones_of([stream], was, given) == zones


@pytest.mark.parametrize("inside", [True, False])
def test_rows_of_the_top_level_of_a_file_are_in_the_zone_of_the_scope(
    spark: SparkSession, host: Callable[[str], None], inside: bool
) -> None:
    spark.conf.set(ZONE, "Asia/Tokyo")
    given = GivenZone(at_top_level="Asia/Tokyo")
    seconds = spark.range(1).selectExpr("id", "timestamp_seconds(id) as at")
    rows = seconds.selectExpr("date_format(at, 'dd') as day")
    use_zone(spark, given, kept="UTC")
    if inside:
        rows = seconds.selectExpr("date_format(at, 'dd') as day")
    stream = Stream("days", rows, ForeachBatch(print, idempotent=True), "append", None)
    if inside:
        assert zones_of([stream], RUN["UTC"], given) == ("UTC", "UTC")
        return
    with pytest.raises(PipelineFileError, match=r"top level .* give --conf spark\.sql\.session\.timeZone=UTC"):
        zones_of([stream], RUN["UTC"], given)


def test_a_zone_that_spark_does_not_know_is_one_line(spark: SparkSession, host: Callable[[str], None]) -> None:
    with pytest.raises(UsageError, match=r"spark\.sql\.session\.timeZone cannot be 'Mars'.*give a zone such as"):
        use_zone(spark, GivenZone("Mars"), kept=None)
