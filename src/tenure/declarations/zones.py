"""The time zone of a scope, as its declaration has it. Pure.

Promise: a scope keeps the zone in which it has run, on each host. A declaration without a zone is that of an older
version, which set UTC.
"""

from __future__ import annotations

from typing import Final

from tenure.declarations.declaration import Declaration

ZONE: Final = "spark.sql.session.timeZone"
"""Spark's setting."""

UNRECORDED: Final = "UTC"
"""The zone of a declaration without a zone. Its members set UTC, above the files of Spark and below flags."""

SEPARATOR: Final = ", "
"""Between the zones of a pipeline that makes sessions with zones of their own."""


def kept_zone(recorded: Declaration | None) -> str | None:
    """The zone in which a scope has run; None: it has not run, or has run in several."""
    if recorded is None:
        return None
    zone = recorded.zone or UNRECORDED
    return None if SEPARATOR in zone else zone
