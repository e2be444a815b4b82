"""Pure: the record of the members that left a scope, for people. No I/O, no clock.

One permanent record, `members_past`, has a row for each member by its name: that it joined, and how it went. A leader
adds the rows of the members that it sees, and ends the row of a member whose record has vanished. A member that leaves
says itself how its run ended, and its own word stays. Promise: a row whose end nobody told says when a leader saw the
member last and missed it first; it names no cause. The record is bounded. Not promised: that a row is there. A member
that came and went beside no leader has none, nor has a member of `tenure.lead` beside no agent. No decision rests on
the record. Times are wall clocks of several hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from tenure.coordination.candidates import Candidate
from tenure.coordination.encoding import decode_as, encode
from tenure.coordination.records import Key, Put, Record
from tenure.durations import clock_time, seconds_since
from tenure.errors import CorruptRecord

MEMBERS_PAST: Final = Key("members_past")
"""The members that leaders have seen, and how those went that are gone."""

GONE_KEPT: Final = 10
"""How many members that are gone the record remembers. A row has some 150 bytes, and 700 at most."""

SHOWN_FOR: Final = timedelta(hours=24)
"""For how long `tenure list` shows a member that is gone."""

_PRESENT_MOST: Final = 20
_LINE_MOST: Final = 500

EXITED: Final = "exited"
STOPPED: Final = "stopped"
FINISHED: Final = "finished"
RETURNS: Final = "returns"
MISSED: Final = "missed"

WAYS: Final[Mapping[str, str]] = {
    EXITED: "its run ended with an error",
    STOPPED: "a signal stopped it",
    FINISHED: "the input or the pipeline had ended",
    RETURNS: "it comes back with another driver",
    MISSED: "a leader missed it: it was killed, or its host, or it was cut off from the store",
}
"""Each word for how a member went. There are no others."""

LifeKey = tuple[str, str]
"""The name of a member, and when it joined."""


@dataclass(frozen=True, slots=True)
class PastMember:
    """A member as it was noted. Times are ISO 8601, UTC; empty: not known."""

    member: str
    host: str
    pid: int
    joined: str
    seen: str = ""
    """Of a member that was missed: when a leader saw it last; empty: no leader knows."""
    until: str = ""
    """When it left, by its own word; or when a leader missed it first. Empty: nobody noted an end."""
    how: str = ""
    """A word of `WAYS`; empty: nobody noted an end."""
    exit_code: int | None = None
    """None: the member did not say."""
    line: str = ""
    """The error with which its run ended."""

    @property
    def life(self) -> LifeKey:
        """Which life of the member this is."""
        return self.member, self.joined

    @property
    def told_by_nobody(self) -> bool:
        """Whether the member said nothing of its end."""
        return self.how not in (EXITED, STOPPED, FINISHED, RETURNS)

    @property
    def last_sign(self) -> str:
        """The newest moment at which it lived for certain."""
        return max(self.seen, self.joined) if self.told_by_nobody else self.until

    def ended(self, how: str, *, at: str, exit_code: int | None = None, line: str = "") -> PastMember:
        """The row after the member's own word."""
        told = " ".join(line.split())[:_LINE_MOST]
        return replace(self, seen="", until=at, how=how, exit_code=exit_code, line=told)

    def shown(self, *, now: datetime, zone: str = " UTC") -> str:
        """For people, beside its name: `vm:11101, exit code 8 at 06:53:53 UTC`. `zone` empty: the reader knows it."""
        at = f"{clock_time(self.until, now=now)}{zone}"
        seen = clock_time(self.last_sign, now=now)
        match self.how:
            case "exited":
                went = f"exit code {self.exit_code} at {at}"
            case "stopped":
                went = f"stopped by a signal at {at}"
            case "finished":
                went = f"finished at {at}"
            case "returns":
                went = f"left at {at} to come back with another driver"
            case "missed":
                went = f"not seen since {seen}, gone by {at}"
            case _:
                went = f"not seen since {seen}{zone}, nobody saw it go"
        return f"{self.host}:{self.pid}, {went}" if self.pid else f"{self.host}, {went}" if self.host else went


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: tuple[PastMember, ...]


def past_in(records: Iterable[Record]) -> tuple[PastMember, ...]:
    """The rows among the records of a scope; none: there is no record, or it does not decode."""
    record = next((record for record in records if record.key == MEMBERS_PAST), None)
    try:
        return () if record is None else decode_as(_Rows, record).rows
    except CorruptRecord:
        return ()  # for people alone; the next leader replaces it


def put_past(rows: Sequence[PastMember], *, uid: str, replaces: Record | None) -> Put:
    """The write of the rows."""
    slim = [{name: value for name, value in asdict(row).items() if value not in ("", None)} for row in rows]
    version = None if replaces is None else replaces.version
    return Put(MEMBERS_PAST, encode({"rows": slim, "uid": uid}), replaces=version)


def roll_call(
    known: Sequence[PastMember], present: Sequence[Candidate], *, now: str, seen: Mapping[LifeKey, str]
) -> tuple[PastMember, ...]:
    """The rows after a leader's look at `now`, which saw the members `present`. `seen`: when it saw each of them
    last."""
    rows = {row.member: row for row in known}
    for one in present:
        row = rows.get(one.member)
        if row is None or row.joined != one.since or row.how == MISSED:
            rows[one.member] = PastMember(one.member, one.host, one.pid, one.since)
    live = {one.member for one in present}
    for name, row in rows.items():
        if name not in live and not row.until:
            rows[name] = replace(row, seen=seen.get(row.life, ""), until=now, how=MISSED)
    return _bounded(rows.values(), live)


def with_word(known: Sequence[PastMember], own: PastMember) -> tuple[PastMember, ...] | None:
    """The rows after a member's own word about its end; None: a later life of the member is noted already."""
    rows = {row.member: row for row in known}
    row = rows.get(own.member)
    if row is not None and row.joined > own.joined:
        return None
    rows[own.member] = own
    return _bounded(rows.values(), {name for name, row in rows.items() if not row.until})


def _bounded(rows: Iterable[PastMember], live: set[str]) -> tuple[PastMember, ...]:
    found = sorted(rows, key=lambda row: row.member)
    present = [row for row in found if row.member in live][:_PRESENT_MOST]
    gone = sorted((row for row in found if row.member not in live), key=lambda row: row.until)[-GONE_KEPT:]
    return tuple(sorted((*present, *gone), key=lambda row: row.member))


def gone_of(known: Iterable[PastMember], live: Iterable[str]) -> tuple[PastMember, ...]:
    """The members that are gone, the last first. `live`: the names of the members that live. While one lives, a member
    without a noted end is left out: it may be between two sessions, and a leader misses it within a second."""
    there = set(live)
    rows = (row for row in known if row.member not in there and (row.how or not there))
    return tuple(sorted(rows, key=lambda row: row.last_sign, reverse=True))


def is_shown(row: PastMember, *, now: datetime) -> bool:
    """Whether a member left so lately that people look for it."""
    age_s = seconds_since(row.until or row.last_sign, now=now)
    return age_s is not None and age_s <= SHOWN_FOR.total_seconds()
