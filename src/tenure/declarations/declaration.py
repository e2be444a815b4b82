"""A declaration: the streams that a leader ran, their pipeline file, the shape of each query's state, its sources, and
the time zone.

Promise: `decode_declaration` reads everything that `encode_declaration` wrote; anything else is CorruptRecord. A scope
keeps the zone in which it has run, on each host. A declaration without a zone is that of an older version, which set
UTC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from tenure.checkpoints.source import Source
from tenure.coordination.encoding import decode_as, encode
from tenure.coordination.records import Record

_TOLD_MOST = 300


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the state of a query. Two queries of equal shape can go on with each other's state."""

    fingerprint: str
    told: str = field(compare=False)
    """A short description for people."""

    @classmethod
    def of(cls, text: str, *, told: str) -> Shape:
        """The shape that `text` describes; `text` is the same in each process."""
        short = told if len(told) <= _TOLD_MOST else f"{told[:_TOLD_MOST]}..."
        return cls(hashlib.sha256(text.encode()).hexdigest()[:32], short)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A query before it was changed. State and offsets are those of this query while nothing was planned since."""

    shape: Shape | None
    epoch: int
    """The epoch of the term that recorded the change."""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredStream:
    """A stream. `shape` None: its query keeps no state. `dropped`: an operator has allowed that the pipeline does not
    have the stream any more; its checkpoints are still there. `earlier` None: the query was never changed. `sources`: a
    source a line of Spark's offsets; empty: an older version recorded none."""

    shape: Shape | None
    dropped: bool = False
    earlier: Earlier | None = None
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class EarlierSpark:
    """The Spark before the present Spark. The checkpoints are of this Spark while nothing was planned since."""

    version: str
    epoch: int
    """The epoch of the term that recorded the change."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The streams that a leader ran."""

    file: str
    """The fingerprint of the pipeline file."""
    spark: str
    """The version of Spark: another version may describe the same query in other words."""
    streams: Mapping[str, DeclaredStream]
    zone: str | None = None
    """The time zone in which the queries compute; None: an older version did not record it."""
    spark_before: EarlierSpark | None = None
    """None: the Spark of the checkpoints is `spark`, or there are no checkpoints."""

    def declares(self, name: str) -> bool:
        """Whether the leader ran a stream of this name."""
        return name in self.streams and not self.streams[name].dropped


def encode_declaration(declaration: Declaration, *, epoch: int, member: str, uid: str) -> bytes:
    """The bytes of the record. `epoch`, `member`: who led, for people."""
    return encode({"uid": uid, "epoch": epoch, "member": member, **asdict(declaration)})


def decode_declaration(record: Record) -> Declaration:
    """The declaration in a record. Raises CorruptRecord."""
    return decode_as(Declaration, record)


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
