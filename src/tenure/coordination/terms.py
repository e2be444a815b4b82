"""The record of each term, for people: who held it, when, and why it ended.

One permanent record a term, `terms/<epoch>`. The commit that grants a term puts it; the commit that gives the term up,
or takes it away, adds the end. The next grant adds what its winner saw to the record of a term whose end nobody told.
Promise: an end is what the holder or an operator said, or lies between the last sign of the holder and the moment at
which its successor found the office empty. The time without a leader is never counted as a term. Times are wall clocks
of several hosts. Not promised: that a record is there. No decision rests on one: a record that is missing, or does
not decode, keeps nobody from the office.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from tenure.coordination.encoding import decode_as, encode
from tenure.coordination.records import Delete, Key, Put, Record
from tenure.errors import CorruptRecord

TERMS: Final = Key("terms")
"""The parent of one record for each term."""

TERMS_KEPT: Final = 50
"""How many terms a scope remembers. A record has some 300 bytes, and 3,000 at most."""

_DETAIL_MOST: Final = 2000
_NOTE_MOST: Final = 300
_PHASES_MOST: Final = 20
"""How many queries of a takeover are recorded."""

SESSION_ENDED: Final = "session ended"
FAILOVER: Final = "failover"
SWITCHOVER_ASKED: Final = "switchover"
QUARANTINE: Final = "quarantine"
STORE_LOST: Final = "the store was lost"

WHYS: Final[Mapping[str, str]] = {
    SESSION_ENDED: "the holder was killed, or did not renew its session for the ttl: it was paused, or cut off from"
    " the store",
    "resigned": "the block of `tenure.lead` ended",
    "stopped": "a signal stopped the holder",
    SWITCHOVER_ASKED: "an operator asked for it",
    FAILOVER: "an operator took the leadership away",
    "restart": "an operator asked for another driver",
    "driver died": "the driver or its JVM ended by itself",
    "driver silent": "the driver gave no sign of life, and was killed",
    "query stalled": "a query made no progress for its `stall_timeout`, and the driver was killed",
    "driver stuck": "the queries did not stop in time, and the driver was killed",
    "failed": "a query failed by itself",
    "source away": "a source did not answer",
    "sink away": "a sink did not answer",
    "storage away": "the storage did not answer",
    QUARANTINE: "an operator took files out of a planned batch; the epoch ended as it began",
    "overtaken": "an earlier leader had just finished the batch that ran again",
    "finished": "all input is in the sinks",
    "cleaned up": "the pipeline had ended, and its remains are removed",
    "cleanup gave up": "the pipeline had ended, and some of its remains cannot be removed",
    "nothing to do": "the pipeline had ended and was cleaned up before",
    STORE_LOST: "`tenure adopt --lost-store` began another life of the scope",
}
"""Each word for the end of a term, with its meaning. There are no others."""


@dataclass(frozen=True, slots=True)
class End:
    """Why a term ended: a word of `WHYS`, the details, and, of an end that an operator asked for, who asked and why."""

    why: str
    detail: str = ""
    by: str = ""
    reason: str = ""

    @property
    def line(self) -> str:
        """For people: `driver killed: signal SIGKILL`."""
        told = f"{self.why}: {self.detail}" if self.detail else self.why
        asked = ", ".join(filter(None, (self.by and f"by {self.by}", self.reason)))
        return f"{told} ({asked})" if asked else told


RESIGNED: Final = End("resigned")


@dataclass(frozen=True, slots=True)
class Opening:
    """How a query began in a term. Times are ISO 8601, UTC; empty: not yet."""

    seeded_at: str = ""
    seed_s: float = 0.0
    files: int = 0
    """How many files its run directory got by copying."""
    mirrored: bool = False
    """A mirror had the rest."""
    started_at: str = ""
    planned_at: str = ""
    committed_at: str = ""
    """When its first batch was in the sink."""


@dataclass(frozen=True, slots=True)
class TermRecord:
    """One term. Times are wall clock (ISO 8601, UTC); empty: not known."""

    epoch: int
    holder: str
    since: str
    host: str = ""
    version: str = ""
    """The version of Tenure that the holder ran."""
    until: str = ""
    """When the term ended, as the holder or an operator said; empty: it is held, or nobody said so."""
    why: str = ""
    detail: str = ""
    by: str = ""
    reason: str = ""
    led_at: str = ""
    """Of an end that nobody told: when the next leader saw this term held last; empty: it never saw it held."""
    found_empty_at: str = ""
    """Of an end that nobody told: when the next leader saw the office empty first."""
    last_write: str = ""
    """Of an end that nobody told: when the newest batch of this term was planned."""
    note: str = ""
    """What the holder said later about an end that it could not tell."""
    openings: Mapping[str, Opening] = field(default_factory=dict)
    """Query -> how it began."""

    @property
    def key(self) -> Key:
        """Where the record is."""
        return term_key(self.epoch)

    def ended(self, end: End, *, at: str) -> TermRecord:
        """The record after an end that somebody tells."""
        detail = " ".join(end.detail.split())[:_DETAIL_MOST]
        return replace(self, until=at, why=end.why, detail=detail, by=end.by, reason=end.reason[:_NOTE_MOST])

    def noted(self, note: str) -> TermRecord:
        """The record after a note of its holder."""
        return replace(self, note=" ".join(note.split())[:_NOTE_MOST])

    def opened(self, openings: Mapping[str, Opening]) -> TermRecord:
        """The record with the first batches of a takeover."""
        return replace(self, openings=dict(sorted(openings.items())[:_PHASES_MOST]))

    def encode(self, *, uid: str) -> bytes:
        """The bytes of the record; the epoch is in its key, and an unknown field takes no place."""
        known = {name: value for name, value in asdict(self).items() if value not in ("", {}) and name != "epoch"}
        return encode({**known, "uid": uid})

    def put(self, *, uid: str, replaces: Record | None) -> Put:
        """The write of the record."""
        return Put(self.key, self.encode(uid=uid), replaces=None if replaces is None else replaces.version)


def term_key(epoch: int) -> Key:
    """The key of a term's record. The order of keys is the order of terms."""
    return TERMS.child(f"{epoch:012d}")


def decode_term(record: Record) -> TermRecord:
    """The term of a record. Raises CorruptRecord."""
    if not record.key.name.isdecimal():
        raise CorruptRecord(f"record {record.key!r} is not named by an epoch")
    return decode_as(TermRecord, record, epoch=int(record.key.name))


def read_term(record: Record | None) -> TermRecord | None:
    """The term of a record; None: there is no record, or it does not decode."""
    try:
        return None if record is None else decode_term(record)
    except CorruptRecord:
        return None


def terms_in(records: Iterable[Record]) -> list[TermRecord]:
    """The terms among the records of a scope, oldest first. A record that does not decode is left out."""
    found = (read_term(record) for record in records if record.key.is_under(TERMS))
    return sorted((term for term in found if term is not None), key=lambda term: term.epoch)


def end_written(records: Iterable[Record], epoch: int, end: End, *, at: str, uid: str) -> tuple[Put, ...]:
    """The write that adds an end to the record of a term, among the records of its scope; none: there is no record."""
    record = next((one for one in records if one.key == term_key(epoch)), None)
    known = read_term(record)
    return () if known is None else (known.ended(end, at=at).put(uid=uid, replaces=record),)


def forgotten(records: Iterable[Record], *, newest: int) -> tuple[Delete, ...]:
    """The removals of the oldest records, when the term `newest` begins."""
    oldest_kept = term_key(max(0, newest - TERMS_KEPT + 1))
    return tuple(Delete(one.key, one.version) for one in records if one.key.is_under(TERMS) and one.key < oldest_kept)
