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
from typing import Any, Final

from tenure.checkpoints.source import Source, decode_kinds, kinds_of
from tenure.coordination.encoding import decode, encode
from tenure.coordination.records import Record
from tenure.errors import CorruptRecord

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

    shape: Shape | None = None
    dropped: bool = False
    earlier: Earlier | None = None
    sources: tuple[Source, ...] = ()


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

    def declares(self, name: str) -> bool:
        """Whether the leader ran a stream of this name."""
        return name in self.streams and not self.streams[name].dropped


def encode_declaration(declaration: Declaration, *, epoch: int, member: str, uid: str) -> bytes:
    """The bytes of the record. `epoch`, `member`: who led, for people."""
    return encode({"uid": uid, "epoch": epoch, "member": member, **asdict(declaration)})


def decode_declaration(record: Record) -> Declaration:
    """The declaration in a record. Raises CorruptRecord."""
    found = decode(record, fields={"file": str, "spark": str, "streams": dict})
    try:
        streams = {str(name): _stream(one) for name, one in found["streams"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptRecord(f"record {record.key!r} does not decode: {error!r} among its streams") from error
    zone = found.get("zone")
    if not isinstance(zone, str | None):
        raise CorruptRecord(f"record {record.key!r} does not decode: its time zone is not text")
    return Declaration(found["file"], found["spark"], streams, zone)


def _stream(found: dict[str, Any]) -> DeclaredStream:
    dropped, earlier = found["dropped"], found.get("earlier")
    if type(dropped) is not bool:
        raise ValueError("dropped is neither true nor false")
    if earlier is not None:
        earlier = Earlier(_shape(earlier["shape"]), earlier["epoch"], _sources(earlier))
        if type(earlier.epoch) is not int:
            raise ValueError("an epoch is not a number")
    return DeclaredStream(_shape(found["shape"]), dropped, earlier, _sources(found))


def _sources(found: dict[str, Any]) -> tuple[Source, ...]:
    sources = tuple(Source(**one) for one in found.get("sources", []))
    decode_kinds(kinds_of(sources))
    if not all(type(text) is str for one in sources for text in (one.folder, one.reads, one.told)):
        raise ValueError("a source is not text")
    return sources


def _shape(found: dict[str, Any] | None) -> Shape | None:
    if found is None:
        return None
    shape = Shape(**found)
    if type(shape.fingerprint) is not str or type(shape.told) is not str:
        raise ValueError("a shape is not text")
    return shape


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
