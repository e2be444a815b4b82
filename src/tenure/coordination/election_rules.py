"""Pure: the records of a scope -> the next step of a contender. No I/O, no clock.

The records: `leader` (session-bound: who holds office) and `epoch` (permanent: the newest epoch, and the grants before
it). Taking office is one commit: `leader` and `paused` must be absent, and `epoch` must be unchanged since the read.
The commit removes the request for a switchover, and the first grant begins a life (`identity`). It also puts the new
term's record for people, and completes that of the last term (`terms`). `candidates` decides
whose turn it is. After a failure (`failing`), the members wait, and the leader of the failed term lets another member
go first. A request for a switchover ends that wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass, field, replace

from tenure.coordination.candidates import PAUSED, SWITCHOVER, Candidate, Switchover, may_take_office, read_switchover
from tenure.coordination.encoding import decode, encode
from tenure.coordination.failing import FAILED, SINK_AWAY, SOURCE_AWAY, STORAGE_AWAY
from tenure.coordination.identity import Birth, put_identity
from tenure.coordination.records import Absent, Delete, Guard, Put, Record, SessionId, Write
from tenure.coordination.term import EPOCH, LEADER
from tenure.coordination.terms import TERMS_KEPT, TermRecord, forgotten, read_term, term_key
from tenure.errors import CorruptRecord

RESTART = "restart"
"""Why a term ended whose holder replaces its driver."""

_OTHERS_FIRST = (RESTART, FAILED, SINK_AWAY, SOURCE_AWAY, STORAGE_AWAY)
"""The words for the end of a term after which the best other member goes first, as at a switchover."""

_ENDED = {"until": str | None, "why": str | None}


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant of the office. `since`: wall clock (ISO 8601, UTC). The three name one grant, also among stores."""

    epoch: int
    holder: str
    since: str


@dataclass(frozen=True, slots=True)
class Office:
    """The epoch record: the newest grant, held or over, and the grants before it, oldest first."""

    epoch: int
    holder: str
    since: str
    until: str | None = None
    """None: the term is held, or nobody told its end."""
    why: str | None = None
    """A word of `WHYS`."""
    past: tuple[Grant, ...] = ()

    @property
    def grants(self) -> tuple[Grant, ...]:
        """All grants that the record remembers, oldest first."""
        return (*self.past, Grant(self.epoch, self.holder, self.since))[-TERMS_KEPT:]


@dataclass(frozen=True, slots=True)
class Contender:
    """What the record of a term says of its holder beside its name."""

    host: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Emptiness:
    """How a contender saw the last term end. Times are wall clock (ISO 8601, UTC); empty: it did not see that."""

    led_at: str = ""
    """When it saw the term held last."""
    found_at: str = ""
    """When it saw the office empty first."""
    last_write: str = ""
    """When the newest batch of the term was planned."""


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
    terms: tuple[Record, ...] = ()
    """The records of terms, for people."""
    emptiness: Emptiness = field(default_factory=Emptiness)


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

_UNKNOWN = Contender()


def next_step(
    seen: Seen, *, member: str, session: SessionId, now: str, uid: str, contender: Contender = _UNKNOWN
) -> Step:
    """The next step. `now`: wall clock for people. `uid`: random; the identity of a new life. Raises CorruptRecord."""
    if seen.leader is not None:
        if seen.leader.session == session:
            return Vacate(writes=(Delete(LEADER, seen.leader.version),))
        return Wait()
    office = None if seen.epoch is None else decode_office(seen.epoch)
    request = read_switchover(seen.switchover)
    asked = request is not None and office is not None and request.epoch == office.epoch
    if office is not None and not asked and office.why in _OTHERS_FIRST:
        request = Switchover(office.epoch, to=None)
    outgoing = None if office is None else (office.epoch, office.holder)
    if (
        seen.paused
        or (seen.holds_off and not asked)
        or not may_take_office(member, seen.members, request=request, outgoing=outgoing)
    ):
        return Wait()
    epoch = 1 if office is None else office.epoch + 1
    begun = Office(epoch, member, now, past=() if office is None else office.grants)
    replaced = None if seen.epoch is None else seen.epoch.version
    return TakeOffice(
        epoch=epoch,
        writes=(
            Put(LEADER, encode({"member": member, "epoch": epoch, "uid": uid}), replaces=None, session=session),
            Put(EPOCH, encode_office(begun, uid=uid), replaces=replaced),
            *(() if seen.switchover is None else (Delete(SWITCHOVER, seen.switchover.version),)),
            *((put_identity(Birth(uid, epoch), replaces=None),) if seen.nameless else ()),
            *told(TermRecord(epoch, member, now, contender.host, contender.version), office, seen, uid=uid),
        ),
        guards=(Absent(PAUSED),),
    )


def told(begun: TermRecord, last: Office | None, seen: Seen, *, uid: str) -> tuple[Write, ...]:
    """The writes of the records for people when a term begins: its own, what its winner saw of the last term's end,
    and the removal of the oldest. `last` None: there was no term before."""
    by_key = {record.key: record for record in seen.terms}
    writes: list[Write] = [begun.put(uid=uid, replaces=by_key.get(begun.key))]
    record = None if last is None else by_key.get(term_key(last.epoch))
    known = read_term(record)
    if last is not None and last.until is None and known is not None:
        saw = seen.emptiness
        known = replace(known, led_at=saw.led_at, found_empty_at=saw.found_at, last_write=saw.last_write)
        writes.append(known.put(uid=uid, replaces=record))
    return (*writes, *forgotten(seen.terms, newest=begun.epoch))


def resignation(office: Record, *, now: str, why: str, uid: str) -> bytes:
    """The epoch record of a term that ends now. Raises CorruptRecord."""
    return encode_office(replace(decode_office(office), until=now, why=why), uid=uid)


def encode_office(office: Office, *, uid: str) -> bytes:
    """The bytes of the epoch record."""
    return encode({**asdict(office), "uid": uid, "past": [astuple(grant) for grant in office.past]})


def decode_office(record: Record) -> Office:
    """The epoch record as data. Raises CorruptRecord."""
    found = decode(record, fields={"epoch": int, "holder": str, "since": str, "past": list}, optional=_ENDED)
    past = tuple(_decode_grant(record, grant) for grant in found["past"])
    return Office(found["epoch"], found["holder"], found["since"], found.get("until"), found.get("why"), past)


def office_in(records: Iterable[Record]) -> Office | None:
    """The epoch record among those of a scope; None: nobody ever led. Raises CorruptRecord."""
    return next((decode_office(record) for record in records if record.key == EPOCH), None)


def _decode_grant(record: Record, grant: object) -> Grant:
    match grant:
        case [int(epoch), str(holder), str(since)]:
            return Grant(epoch, holder, since)
    raise CorruptRecord(f"record {record.key!r} does not decode: {grant!r} is no grant")
