"""Campaign, resign, observe: written once, for every store.

Promise: `campaign` returns a term only after the commit that began it; its epoch is one more than the last and
never reused. `resign` is fenced like every other write. What to do is decided in `election_rules`; this file
reads, writes and waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from tenure.clock import Clock
from tenure.coordination.election_rules import (
    Office,
    Seen,
    TakeOffice,
    Vacate,
    decode_office,
    next_step,
    resignation,
)
from tenure.coordination.encoding import decode, encode, new_uid
from tenure.coordination.records import Delete, Key, Put, Record, Revision, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.settle import commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH, LEADER, Term, commit_under
from tenure.errors import CorruptRecord, GuardFailed, SessionEnded

MEMBERS = Key("members")
"""Under it one session-bound record for each member."""

WAKE_UP = timedelta(seconds=1)
"""A waiting contender looks up this often, to see that it was asked to stop."""


class Flag(Protocol):
    """Something that may be set at any time. A `threading.Event` is one."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member as it announced itself."""

    member: str
    host: str
    pid: int
    since: str


@dataclass(frozen=True, slots=True)
class View:
    """A scope's leadership at one instant. `leader` None: nobody leads. `office` None: nobody ever did."""

    leader: str | None
    epoch: int
    """The epoch of the leader; 0 when nobody leads."""
    office: Office | None
    members: tuple[MemberInfo, ...]
    revision: Revision


class Election:
    """One member's part in the election of one scope. Used by one thread at a time."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, member: str, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._member = member
        self._clock = clock

    def join(self, keeper: SessionKeeper, *, host: str, pid: int) -> None:
        """Announce the member for as long as its session lives.

        Raises SessionEnded, StoreUnavailable, OutcomeUnknown; GuardFailed when a live member has this name.
        """
        value = encode({"host": host, "pid": pid, "since": self._now(), "uid": new_uid()})
        put = Put(MEMBERS.child(self._member), value, replaces=None, session=keeper.session_id)
        commit_settled(
            self._store,
            self._scope,
            guards=(),
            writes=(put,),
            go_on=lambda: not keeper.liveness.over,
            clock=self._clock,
        )

    def campaign(self, keeper: SessionKeeper, *, stop: Flag) -> Term | None:
        """Wait until the member is elected and return its term; None when `stop` was set first.

        Raises SessionEnded when the session is over, StoreUnavailable, OutcomeUnknown, CorruptRecord.
        """
        uid = new_uid()
        revision = Revision(0)
        while not stop.is_set():
            if keeper.liveness.over:
                raise SessionEnded(keeper.session_id, why=keeper.liveness.why or "it ended") from keeper.liveness.cause
            listing = self._store.list(self._scope, "")
            seen = seen_in(listing.records)
            step = next_step(seen, member=self._member, session=keeper.session_id, now=self._now(), uid=uid)
            match step:
                case TakeOffice():
                    term = self._take_office(step, keeper)
                    if term is not None:
                        return term
                case Vacate():
                    self._vacate(step, keeper)
                case _:
                    revision = max(revision, listing.revision)
                    with self._store.watch(self._scope, after=revision) as changes:
                        while changes.wait(timeout=WAKE_UP) is None and not stop.is_set() and not keeper.liveness.over:
                            pass
        return None

    def resign(self, term: Term, *, why: str = "resigned") -> None:
        """Give the term up: the office is empty when this returns.

        Raises TermLost when it was over already, or when the reply was lost and the office is no longer this
        term's: either way the term is over. StoreUnavailable: nothing was sent, the term goes on.
        """
        record = self._store.read(self._scope, EPOCH)
        if record is None or record.version != term.epoch_record:
            value = b""  # the fence below refuses it: the epoch record is not the one of the grant any more
        else:
            value = resignation(record, now=self._now(), why=why, uid=new_uid())
        writes = (Delete(LEADER, term.leader), Put(EPOCH, value, replaces=term.epoch_record))
        commit_under(self._store, term, writes=writes, clock=self._clock)
        term.liveness.end(why)

    def _take_office(self, step: TakeOffice, keeper: SessionKeeper) -> Term | None:
        """The term, or None when somebody else was faster."""
        try:
            commit = commit_settled(
                self._store,
                self._scope,
                guards=(),
                writes=step.writes,
                go_on=lambda: not keeper.liveness.over,
                clock=self._clock,
            )
        except GuardFailed:
            return None
        return Term(
            scope=self._scope,
            epoch=step.epoch,
            holder=self._member,
            leader=commit.versions[LEADER],
            epoch_record=commit.versions[EPOCH],
            liveness=keeper.liveness.child(),
        )

    def _vacate(self, step: Vacate, keeper: SessionKeeper) -> None:
        try:
            commit_settled(
                self._store,
                self._scope,
                guards=(),
                writes=step.writes,
                go_on=lambda: not keeper.liveness.over,
                clock=self._clock,
            )
        except GuardFailed:
            return  # it went by itself; the campaign looks again

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="milliseconds")


def observe(store: CoordinationStore, scope: Scope) -> View:
    """Who leads, and who could. Raises StoreUnavailable, CorruptRecord."""
    listing = store.list(scope, "")
    seen = seen_in(listing.records)
    leader, epoch = None, 0
    if seen.leader is not None:
        found = decode(seen.leader, fields={"member": str, "epoch": int})
        leader, epoch = found["member"], found["epoch"]
    return View(
        leader=leader,
        epoch=epoch,
        office=None if seen.epoch is None else decode_office(seen.epoch),
        members=tuple(_member_info(record) for record in listing.records if record.key.is_under(MEMBERS)),
        revision=listing.revision,
    )


def seen_in(records: tuple[Record, ...]) -> Seen:
    """The two records of the election among those of a listing. Raises CorruptRecord: a leader without epoch."""
    by_key = {record.key: record for record in records}
    seen = Seen(leader=by_key.get(LEADER), epoch=by_key.get(EPOCH))
    if seen.leader is not None and seen.epoch is None:
        raise CorruptRecord(f"record {LEADER!r} stands without record {EPOCH!r}", fix="restore the epoch record")
    return seen


def _member_info(record: Record) -> MemberInfo:
    found = decode(record, fields={"host": str, "pid": int, "since": str})
    return MemberInfo(record.key.name, found["host"], found["pid"], found["since"])
