"""Pure: the records of a scope -> the next step of a contender. No I/O, no clock.

The records: `leader` (session-bound: who holds office) and `epoch` (permanent: the newest epoch, and the terms before
it). Taking office is one commit: `leader` and `paused` must be absent, and `epoch` must be unchanged since the read.
The commit removes the request for a switchover, and the first grant begins a life (`identity`). `candidates` decides
whose turn it is. After a failure (`failing`), the members wait, and the leader of the failed term lets another member
go first. A request for a switchover ends that wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, replace

from tenure.coordination.candidates import PAUSED, SWITCHOVER, Candidate, Switchover, may_take_office, read_switchover
from tenure.coordination.encoding import decode, encode
from tenure.coordination.failing import FAILED, SINK_AWAY, SOURCE_AWAY, STORAGE_AWAY
from tenure.coordination.identity import Birth, put_identity
from tenure.coordination.records import Absent, Delete, Guard, Put, Record, SessionId, Write
from tenure.coordination.term import EPOCH, LEADER
from tenure.errors import CorruptRecord

TERMS_KEPT = 50
"""How many ended terms the epoch record remembers, for `tenure history`. About 150 bytes each, at most 300."""

SESSION_ENDED = "session ended"
"""Why a term ended that nobody gave up: its holder was killed, or did not renew its session for the ttl."""

_DETAIL_MOST = 120
"""Characters of the detail of a reason."""

RESTART = "restart"
"""Why a term ended whose holder replaces its driver."""

_OTHERS_FIRST = (RESTART, FAILED, SINK_AWAY, SOURCE_AWAY, STORAGE_AWAY)
"""The words for the end of a term after which the best other member goes first, as at a switchover."""

_ENDED = {"until": str | None, "why": str | None}


@dataclass(frozen=True, slots=True)
class TermPast:
    """A term that ended. Times are wall clock (ISO 8601, UTC) for people to read."""

    epoch: int
    holder: str
    since: str
    until: str
    why: str
    """See `reason`; `SESSION_ENDED` when the successor found the office empty."""


@dataclass(frozen=True, slots=True)
class Office:
    """The epoch record: the newest term, held or over, and the terms before it, oldest first."""

    epoch: int
    holder: str
    since: str
    until: str | None
    """None: not known to have ended."""
    why: str | None
    past: tuple[TermPast, ...]

    def as_past(self, *, now: str) -> tuple[TermPast, ...]:
        """All terms, as ended at `now` where no end is recorded."""
        last = TermPast(self.epoch, self.holder, self.since, self.until or now, self.why or SESSION_ENDED)
        return (*self.past, last)[-TERMS_KEPT:]


@dataclass(frozen=True, slots=True)
class Seen:
    """The records of the election at one instant. None: no such record."""

    leader: Record | None
    epoch: Record | None
    switchover: Record | None = None
    paused: bool = False
    holds_off: bool = False
    """The contender waits after a failure."""
    members: tuple[Candidate, ...] = ()
    nameless: bool = False
    """The scope has neither an identity nor a checkpoint."""


@dataclass(frozen=True, slots=True)
class TakeOffice:
    """Nobody leads: commit these writes under these guards. They begin epoch `epoch`."""

    epoch: int
    writes: tuple[Write, ...]
    guards: tuple[Guard, ...]


@dataclass(frozen=True, slots=True)
class Vacate:
    """A leader record of the contender's own session stands, after a resignation or a grant of unknown outcome: remove
    the record, then look again. Without this step nobody could ever lead."""

    writes: tuple[Write]


@dataclass(frozen=True, slots=True)
class Wait:
    """Another member leads or goes first, or the scope is paused: wait for a change."""


Step = TakeOffice | Vacate | Wait


def next_step(seen: Seen, *, member: str, session: SessionId, now: str, uid: str) -> Step:
    """The next step. `now`: wall clock for people. `uid`: random; the identity of a new life. Raises CorruptRecord."""
    if seen.leader is not None:
        if seen.leader.session == session:
            return Vacate(writes=(Delete(LEADER, seen.leader.version),))
        return Wait()
    office = None if seen.epoch is None else decode_office(seen.epoch)
    request = read_switchover(seen.switchover)
    asked = request is not None and office is not None and request.epoch == office.epoch
    if office is not None and not asked and parts_of(office.why or "")[0] in _OTHERS_FIRST:
        request = Switchover(office.epoch, to=None)
    outgoing = None if office is None else (office.epoch, office.holder)
    if (
        seen.paused
        or (seen.holds_off and not asked)
        or not may_take_office(member, seen.members, request=request, outgoing=outgoing)
    ):
        return Wait()
    epoch = 1 if office is None else office.epoch + 1
    begun = Office(epoch, member, now, until=None, why=None, past=() if office is None else office.as_past(now=now))
    replaced = None if seen.epoch is None else seen.epoch.version
    return TakeOffice(
        epoch=epoch,
        writes=(
            Put(LEADER, encode({"member": member, "epoch": epoch, "uid": uid}), replaces=None, session=session),
            Put(EPOCH, encode_office(begun, uid=uid), replaces=replaced),
            *(() if seen.switchover is None else (Delete(SWITCHOVER, seen.switchover.version),)),
            *((put_identity(Birth(uid, epoch), replaces=None),) if seen.nameless else ()),
        ),
        guards=(Absent(PAUSED),),
    )


def reason(word: str, detail: str = "") -> str:
    """Why a term ended, as the epoch record has it: a word of ours, then the detail, if there is one. For example
    `driver died: signal SIGKILL`."""
    short = " ".join(detail.split())[:_DETAIL_MOST]
    return f"{word}: {short}" if short else word


def parts_of(why: str) -> tuple[str, str]:
    """The word and the detail that `reason` joined. A reason of an older version has no detail."""
    word, _, detail = why.partition(": ")
    return word, detail


def resignation(office: Record, *, now: str, why: str, uid: str) -> bytes:
    """The epoch record of a term that ends now. Raises CorruptRecord."""
    return encode_office(replace(decode_office(office), until=now, why=why), uid=uid)


def encode_office(office: Office, *, uid: str) -> bytes:
    """The bytes of the epoch record."""
    return encode({**asdict(office), "uid": uid, "past": [astuple(term) for term in office.past]})


def decode_office(record: Record) -> Office:
    """The epoch record as data. Raises CorruptRecord."""
    found = decode(record, fields={"epoch": int, "holder": str, "since": str, "past": list}, optional=_ENDED)
    past = tuple(_decode_past(record, term) for term in found["past"])
    return Office(found["epoch"], found["holder"], found["since"], found.get("until"), found.get("why"), past)


def office_in(records: Iterable[Record]) -> Office | None:
    """The epoch record among those of a scope; None: nobody ever led. Raises CorruptRecord."""
    return next((decode_office(record) for record in records if record.key == EPOCH), None)


def _decode_past(record: Record, term: object) -> TermPast:
    match term:
        case [int(epoch), str(holder), str(since), str(until), str(why)]:
            return TermPast(epoch, holder, since, until, why)
    raise CorruptRecord(f"record {record.key!r} does not decode: {term!r} is no ended term")
