"""Pure: which of the live members may take an empty office. No I/O, no clock.

Only ready members may. Those with the highest priority go first, warm before cold, and those whose rehearsals fail go
last of all; a member tagged `nofailover` never leads. A request for a switchover names its member, and counts for the
epoch that it ends. While the scope is paused, nobody may. All members read the same records, so they agree.

A record of a member or of a request that does not decode is skipped: that member is not elected, that request is not
obeyed, and no other member is kept from the office. `unread_in` names such records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from tenure.coordination.encoding import decode, decode_as, encode
from tenure.coordination.records import Key, Record
from tenure.coordination.terms import TERMS, decode_term
from tenure.errors import CorruptRecord

T = TypeVar("T")

MEMBERS = Key("members")
"""The parent of one session-bound record for each member."""

SWITCHOVER = Key("switchover")
"""The request of an operator that the leader hands over."""

PAUSED = Key("paused")
"""While this record is there, nobody is elected. See `Pause`."""

RESTARTS = Key("restarts")
"""The parent of one record for each member whose driver an operator wants to replace."""

_OPTIONAL: Mapping[str, type] = {
    "priority": int,
    "nofailover": bool,
    "in_process": bool,
    "file": str,
    "trouble": str,
    "http": str,
    "version": str,
}
"""Fields that a member's record may lack."""


SILENT = "its driver gives no sign of life"

_ASKED: Mapping[str, type] = {"by": str, "reason": str}


class State(StrEnum):
    """What a member is doing."""

    STARTING = "starting"
    """Its driver is not up: the member cannot lead."""
    FAILING = "failing"
    """The member could lead; a rehearsal has failed, and none has succeeded since."""
    READY = "ready"
    """The member could lead, and its first batch would be slow."""
    WARM = "warm"
    """The member could lead, and has rehearsed."""
    LEADING = "leading"
    AWAY = "away"
    """Its driver is up, and the store refuses service. No record says this: only the member knows."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a member is. The member with the higher `priority` is elected first; a `nofailover` member never is."""

    member: str
    host: str
    pid: int
    priority: int = 0
    nofailover: bool = False
    http: str = ""
    """The address of its probes; empty: it serves none."""

    def purpose(self, scope: str) -> str:
        """What the member's session is for, in words for people."""
        return f"member {self.member} of scope {scope}"


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a standby's mirrors are behind."""

    batches: int
    """How many batches the query that is most behind lacks."""
    bytes: int
    """How many bytes of all queries are known to be missing."""


NOT_BEHIND: Mapping[str, int] = MappingProxyType({})
"""No query is known to be behind its sources."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live member, as it announced itself."""

    member: str
    host: str
    pid: int
    since: str
    state: State = State.READY
    priority: int = 0
    nofailover: bool = False
    in_process: bool = False
    """The member is a process of `tenure.lead`: it obeys no request, and has no driver."""
    lag: Lag | None = None
    """None: the member mirrors nothing."""
    file: str = ""
    """The fingerprint of the pipeline file that its driver has loaded; empty: none yet."""
    trouble: str = ""
    """Why the member is failing; `SILENT`: its driver gives no sign of life. Empty: there is none."""
    http: str = ""
    """The address of its probes, `host:port`; empty: it serves none."""
    version: str = ""
    """The version of Tenure; empty: an older version, which did not announce it."""
    ttl_s: float | None = None
    """The time to live of its session; None: as above."""
    behind: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Of a leader: query -> the offsets of Kafka that it was behind, where that is known. Up to half a minute old."""

    @property
    def ready(self) -> bool:
        """Whether the member contends."""
        return self.state in (State.FAILING, State.READY, State.WARM) and not self.nofailover

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """The member with the higher rank goes first."""
        return (self.state is not State.FAILING, self.priority, self.state is State.WARM)

    def encode(self, *, uid: str) -> bytes:
        """The bytes of its record; the member's name is in the key."""
        return encode({**{name: value for name, value in asdict(self).items() if name != "member"}, "uid": uid})


@dataclass(frozen=True, slots=True)
class AskedBy:
    """Who asked for something, such as `root@host`, and the reason that was given. Empty: not known."""

    by: str = ""
    reason: str = ""

    def fields(self) -> Mapping[str, str]:
        """The fields of a record that are known."""
        return {name: text for name, text in asdict(self).items() if text}


NOBODY = AskedBy()


@dataclass(frozen=True, slots=True)
class Switchover:
    """A request. `epoch`: of the term that it ends. `to` None: to the best standby."""

    epoch: int
    to: str | None
    asked: AskedBy = NOBODY


@dataclass(frozen=True, slots=True)
class Pause:
    """Nobody is elected. `why` empty: an operator asked for it; else the failure, and `by` is the member that paused
    the scope after its last attempt."""

    at: str = ""
    why: str = ""
    by: str = ""
    reason: str = ""
    """What the operator gave as reason."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A record that does not decode, and is skipped."""

    key: str
    why: str
    """One line, which names the record."""


def members_in(records: Iterable[Record]) -> list[str]:
    """The names of all live members among the records of a scope, also of those whose record does not decode."""
    return [record.key.name for record in records if record.key.is_under(MEMBERS)]


def candidates_in(records: Iterable[Record]) -> list[Candidate]:
    """The live members among the records of a scope whose record decodes."""
    members = [_read(record, decode_candidate) for record in records if record.key.is_under(MEMBERS)]
    return [member for member in members if isinstance(member, Candidate)]


def unread_in(records: Iterable[Record]) -> list[Unread]:
    """The records of members, of requests and of terms that do not decode."""
    read: list[object] = []
    for record in records:
        if record.key.is_under(MEMBERS):
            read.append(_read(record, decode_candidate))
        elif record.key == SWITCHOVER:
            read.append(_read(record, _decode_switchover))
        elif record.key.is_under(RESTARTS):
            read.append(_read(record, _decode_restart))
        elif record.key.is_under(TERMS):
            read.append(_read(record, decode_term))
    return [record for record in read if isinstance(record, Unread)]


def decode_candidate(record: Record) -> Candidate:
    """The member of a record. Raises CorruptRecord."""
    found = decode(record, fields={"host": str, "pid": int, "since": str}, optional=_OPTIONAL)
    known: dict[str, Any] = {name: found[name] for name in _OPTIONAL if name in found}
    lag = found.get("lag")
    if isinstance(lag, dict) and all(isinstance(lag.get(name), int) for name in ("batches", "bytes")):
        known["lag"] = Lag(lag["batches"], lag["bytes"])
    ttl_s = found.get("ttl_s")
    if isinstance(ttl_s, int | float):
        known["ttl_s"] = float(ttl_s)
    behind = found.get("behind")
    if isinstance(behind, dict) and all(isinstance(count, int) for count in behind.values()):
        known["behind"] = behind
    states = {state.value: state for state in State}
    state = states.get(str(found.get("state")), State.STARTING)  # a state of a newer version is not for us to elect
    return Candidate(record.key.name, found["host"], found["pid"], found["since"], state, **known)


def pause_in(records: Iterable[Record]) -> Pause | None:
    """The pause of a scope; None: it is not paused. A record that does not decode pauses it, too."""
    record = next((record for record in records if record.key == PAUSED), None)
    if record is None:
        return None
    read = _read(record, partial(decode_as, Pause))
    return read if isinstance(read, Pause) else Pause()


def read_switchover(record: Record | None) -> Switchover | None:
    """The request of a record; None: there is no record, or it does not decode."""
    read = None if record is None else _read(record, _decode_switchover)
    return read if isinstance(read, Switchover) else None


def read_restart(record: Record) -> AskedBy | None:
    """Who made the request of a record below `RESTARTS`; None: it does not decode, and so is no request."""
    read = _read(record, _decode_restart)
    return read if isinstance(read, AskedBy) else None


def _decode_switchover(record: Record) -> Switchover:
    found = decode(record, fields={"epoch": int, "to": str}, optional=_ASKED)
    return Switchover(found["epoch"], found["to"] or None, _asked(found))


def _decode_restart(record: Record) -> AskedBy:
    return _asked(decode(record, fields={"uid": str}, optional=_ASKED))


def _asked(found: Mapping[str, Any]) -> AskedBy:
    return AskedBy(found.get("by", ""), found.get("reason", ""))


def _read(record: Record, decode: Callable[[Record], T]) -> T | Unread:
    try:
        return decode(record)
    except CorruptRecord as error:
        return Unread(record.key, str(error))


def ready_beside(members: Sequence[Candidate], leader: str | None) -> list[Candidate]:
    """The members that could take over from the leader."""
    return [member for member in members if member.ready and member.member != leader]


def may_take_office(
    member: str, members: Sequence[Candidate], *, request: Switchover | None, outgoing: tuple[int, str] | None
) -> bool:
    """Whether the empty office is for `member` to take. A contender that has not announced itself counts as ready.
    `outgoing`: epoch and holder of the last term."""
    ready = [one for one in members if one.ready]
    if not any(one.member == member for one in members):
        ready.append(Candidate(member, "", 0, ""))
    if request is not None and outgoing is not None and request.epoch == outgoing[0]:
        if request.to is not None and any(one.member == request.to for one in ready):
            return member == request.to
        ready = [one for one in ready if one.member != outgoing[1]] or ready
    best = max((one.rank for one in ready), default=None)
    return any(one.member == member and one.rank == best for one in ready)
