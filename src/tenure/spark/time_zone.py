"""The time zone in which the queries of a pipeline compute days, hours and dates.

Promise: the zone is yours: a setting of Spark's, in this order: flags, your Spark's files, the pipeline's own function;
without a setting it is the host's, as for any job of Spark. A scope then keeps its zone: a member on a host with
another zone computes in that of the scope, so that a batch that is run again has the groups of its first run.
Not promised: the zone of code in Python or Java that asks its own process for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from tenure.declarations.declaration import SEPARATOR, UNRECORDED, ZONE, Declaration
from tenure.errors import PipelineFileError, UsageError
from tenure.spark.errors import SPARK_ERRORS, one_line
from tenure.spark.plans import DeclaredQuery, analyzed

_ZONE_IDS: Final = re.compile(r'"timeZoneId":"([^"]+)"')
"""The zones in the expressions of a plan."""


@dataclass(frozen=True, slots=True)
class GivenZone:
    """What flags and settings say of the zone."""

    flagged: str | None = None
    """Of the settings for Spark among the flags; None: they name none."""
    may_change: bool = False
    """An operator allows a zone that is not the scope's."""
    at_top_level: str | None = None
    """The zone of the session in which the top level of the pipeline file ran; None: it ran without a session."""


NO_ZONE: Final = GivenZone()


def use_zone(spark: SparkSession, given: GivenZone, *, kept: str | None) -> None:
    """Set the zone of the session before a pipeline declares its queries. `kept`: of the scope; None: it has none.
    Raises UsageError."""
    zone = given.flagged or _of_files(spark) or kept
    try:
        if zone is None:
            spark.conf.unset(ZONE)
        else:  # in the scope's spelling: the shape of a query has it
            spark.conf.set(ZONE, kept if kept is not None and _rules(spark, kept) == _rules(spark, zone) else zone)
    except SPARK_ERRORS as error:
        raise UsageError(
            f"setting {ZONE} cannot be {zone!r}: {one_line(error)}", fix="give a zone such as Europe/Berlin, or UTC"
        ) from error


def zones_of(
    streams: Sequence[DeclaredQuery], recorded: Declaration | None, given: GivenZone
) -> tuple[str, str | None]:
    """The zone in which declared streams compute now, and that in which the scope has run (None: it has not). Equal
    zones have one spelling. Several zones, of sessions that the pipeline makes, are joined by commas. Raises
    PipelineFileError."""
    sessions = [stream.rows.sparkSession for stream in streams]
    _check_top_level(streams, given.at_top_level)
    now = SEPARATOR.join(sorted({str(session.conf.get(ZONE)) for session in sessions}))
    if recorded is None:
        return now, None
    of_before = UNRECORDED if given.flagged is None and now == _of_files(sessions[0]) else now
    was = recorded.zone or of_before
    return (was if _rules(sessions[0], was) == _rules(sessions[0], now) else now), was


def _check_top_level(streams: Sequence[DeclaredQuery], zone: str | None) -> None:
    """Check that no query computes in the zone of the top level of its file, when its session has another zone: Spark
    puts the zone into an expression when the rows are declared. Raises PipelineFileError."""
    if zone is None:
        return
    for stream in streams:
        session = stream.rows.sparkSession
        now, before = str(session.conf.get(ZONE)), _rules(session, zone)
        if before == _rules(session, now):
            continue
        text = str(analyzed(stream.rows).toJSON())
        if any(_rules(session, one) == before for one in set(_ZONE_IDS.findall(text))):
            raise PipelineFileError(
                f"query {stream.name!r} computes in the time zone {zone}, in which the top level of its file ran, and "
                f"the scope computes in {now}",
                fix=f"declare its rows in the pipeline's function, or give --conf {ZONE}={now}",
            )


def _of_files(spark: SparkSession) -> str | None:
    """The zone that Spark's own files and flags set; None: none."""
    return spark.sparkContext.getConf().get(ZONE)


def _rules(spark: SparkSession, zones: str) -> list[str]:
    """Names of zones in one spelling: `Etc/UTC` and `UTC` are one zone."""
    times: Any = spark._jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils  # type: ignore[union-attr] # it has one
    return [str(times.getZoneId(zone).normalized().getId()) for zone in zones.split(SEPARATOR)]
