"""Campaign, resign, observe: written once, for every store.

Promise: `campaign` returns a term only after the commit that began it; its epoch is the last epoch + 1, and is never
reused. `resign` is fenced like every other write. `election_rules` decides; this file reads, writes and waits.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import Protocol

from tenure.clock import Clock, timestamp
from tenure.coordination.candidates import (
    MEMBERS,
    NOT_BEHIND,
    PAUSED,
    SWITCHOVER,
    Candidate,
    Lag,
    Pause,
    State,
    Switchover,
    Unread,
    candidates_in,
    decode_candidate,
    pause_in,
    read_switchover,
    unread_in,
)
from tenure.coordination.election_rules import (
    Contender,
    Office,
    Seen,
    TakeOffice,
    Vacate,
    next_step,
    office_in,
    resignation,
)
from tenure.coordination.encoding import decode, new_uid
from tenure.coordination.failing import Failing, HoldOff, failing_in
from tenure.coordination.identity import IDENTITY, Life, birth_in, check_follows, has_checkpoints
from tenure.coordination.reading import LONG, SHORT, read_again, wait_for_change
from tenure.coordination.records import (
    Commit,
    Delete,
    Guard,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    Write,
    implied_guard,
)
from tenure.coordination.session import SessionKeeper
from tenure.coordination.settle import QUICK, UNAVAILABLE_ATTEMPTS, commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH, LEADER, Term, commit_under
from tenure.coordination.term_records import LastWrite, OwnTerms, Sightings
from tenure.coordination.terms import RESIGNED, TERMS, End, TermRecord, term_key, terms_in
from tenure.errors import (
    AccessDenied,
    CorruptRecord,
    GuardFailed,
    OutcomeUnknown,
    SessionEnded,
    StoreError,
    StoreUnavailable,
)
from tenure.retry import retry

WAKE_UP = timedelta(seconds=1)
"""How often a waiting contender checks whether it was asked to stop. The store is not asked: the scope is followed."""

_APART_S = 0.1
"""How far apart the looks of a leader are at least: its own commits are changes, too."""

_LAG_S = 5.0
"""How often at most a member announces a change of its lag alone."""

_BEHIND_S = 30.0
"""The same, for the distance of its queries from the ends of their topics, which changes with each batch."""

_RESIGNATIONS = 5
"""How often a resignation is sent again because the record of the term has changed beside it."""

_TROUBLE_MOST = 300
"""Characters of a member's trouble that are announced."""


class Flag(Protocol):
    """May be set at any time, as a `threading.Event`."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class When:
    """A flag that is set while a question is answered with yes."""

    is_set: Callable[[], bool]


def after(time: timedelta | None, *, clock: Clock) -> Flag:
    """A flag that is set from then on; None: never."""
    end_s = math.inf if time is None else clock.monotonic_s() + time.total_seconds()
    return When(lambda: clock.monotonic_s() >= end_s)


@dataclass(frozen=True, slots=True)
class View:
    """A scope's leadership at one instant. `leader` None: nobody leads. `office` None: nobody ever led."""

    leader: str | None
    epoch: int
    """The epoch of the leader; 0 when nobody leads."""
    office: Office | None
    members: tuple[Candidate, ...]
    pause: Pause | None
    """None: the scope is not paused."""
    failing: Failing | None
    """The failures since the last progress; None: there are none."""
    switchover: Switchover | None
    """A request that the newest term has not obeyed yet."""
    unread: tuple[Unread, ...]
    """The records that are skipped, as they do not decode."""
    terms: tuple[TermRecord, ...]
    """The records of the terms, oldest first."""
    revision: Revision


class Election:
    """One member's part in the election of one scope. Used by one thread at a time."""

    def __init__(
        self,
        store: CoordinationStore,
        scope: Scope,
        *,
        member: str,
        clock: Clock,
        in_process: bool = False,
        http: str = "",
    ) -> None:
        """`in_process`, `http`: see `Candidate`."""
        self._http = http
        self._store = store
        self._in_process = in_process
        self._scope = scope
        self._member = member
        self._clock = clock
        self._announced: Candidate | None = None  # None: not joined
        self._announced_s = float("-inf")
        self._known: Life | None = None  # None: nothing was read yet
        self._hold_off = HoldOff(clock)
        self._contender = Contender()
        self._sightings = Sightings()
        self.own_terms = OwnTerms(store, scope, member=member, clock=clock)

    def join(
        self,
        keeper: SessionKeeper,
        *,
        host: str,
        pid: int,
        state: State = State.READY,
        priority: int = 0,
        nofailover: bool = False,
    ) -> None:
        """Announce the member for as long as its session lives. Raises SessionEnded, StoreUnavailable, OutcomeUnknown;
        GuardFailed when a live member has this name."""
        now, in_process = timestamp(self._clock), self._in_process
        who = Candidate(
            *(self._member, host, pid, now, state, priority, nofailover, in_process),
            http=self._http,
            version=version("tenure"),
            ttl_s=keeper.ttl.total_seconds(),
        )
        put = Put(MEMBERS.child(self._member), who.encode(uid=new_uid()), replaces=None, session=keeper.session_id)
        self._commit(keeper, writes=(put,))
        self._announced = who
        self._contender = Contender(host, version("tenure"))

    def named(self, member: str) -> Candidate | None:
        """The live member of this name; None: there is none. Raises StoreUnavailable, CorruptRecord."""
        record = self._store.read(self._scope, MEMBERS.child(member))
        return None if record is None else decode_candidate(record)

    @property
    def joined(self) -> str:
        """When the member joined last."""
        return "" if self._announced is None else self._announced.since

    def announce(
        self,
        keeper: SessionKeeper,
        state: State,
        *,
        lag: Lag | None = None,
        behind: Mapping[str, int] = NOT_BEHIND,
        file: str = "",
        trouble: str = "",
    ) -> None:
        """Announce the fields of the member's `Candidate`. Raises SessionEnded, StoreUnavailable, OutcomeUnknown."""
        who = self._announced
        assert who is not None, "join first"
        now_s = self._clock.monotonic_s()
        said = replace(who, state=state, file=file, trouble=trouble[:_TROUBLE_MOST])
        ago_s = now_s - self._announced_s
        if said == who and (who.lag == lag or ago_s < _LAG_S) and (who.behind == behind or ago_s < _BEHIND_S):
            return
        who, self._announced_s = replace(said, lag=lag, behind=dict(behind)), now_s
        retry(
            partial(keeper.amend, self._scope, MEMBERS.child(self._member), who.encode(uid=new_uid())),
            policy=replace(QUICK, attempts=UNAVAILABLE_ATTEMPTS),
            on=(StoreUnavailable, OutcomeUnknown),  # to repeat an amendment does no harm
            unless=AccessDenied,
            go_on=lambda: not keeper.liveness.over,
            clock=self._clock,
        )
        self._announced = who

    def _commit(self, keeper: SessionKeeper, *, writes: Sequence[Write], guards: Sequence[Guard] = ()) -> Commit:
        """Commit, and settle an unknown outcome while the session lives."""
        return commit_settled(
            self._store,
            self._scope,
            guards=guards,
            writes=writes,
            go_on=lambda: not keeper.liveness.over,
            clock=self._clock,
        )

    def campaign(
        self,
        keeper: SessionKeeper,
        *,
        stop: Flag,
        on_look: Callable[[Sequence[Record]], None] = lambda records: None,
        last_write: LastWrite = lambda records, epoch: "",
    ) -> Term | None:
        """Wait until the member is elected and return its term; None when `stop` was set first. `on_look` gets the
        records of the scope after each read: at every change, and every `WAKE_UP`. `last_write`: for the record of a
        term whose end nobody told.

        Raises SessionEnded, OutcomeUnknown, CorruptRecord; StoreUnavailable: the store was away until the session was
        over, or for long; OwnerMismatch: the store was emptied, restored or replaced meanwhile.
        """
        uid = new_uid()
        revision = Revision(0)
        # A glance may be old. That is safe: the guards of the commit name the leadership that the step rests on.
        glance, fresh = partial(self._store.glance, self._scope), partial(self._store.list, self._scope)
        look = glance
        while not stop.is_set():
            if keeper.liveness.over:
                raise SessionEnded(keeper.session_id, why=keeper.liveness.why or "it ended") from keeper.liveness.cause
            try:
                listing = read_again(
                    look,
                    over=lambda: keeper.liveness.over or stop.is_set(),
                    at_most=LONG,
                    clock=self._clock,
                )
            except StoreUnavailable:
                if stop.is_set():
                    return None
                raise
            self._known = check_follows(life_in(listing.records), self._known, scope=self._scope)
            on_look(listing.records)
            holds_off = self._hold_off.holds(listing.records)
            now = timestamp(self._clock)
            emptiness = self._sightings.look(listing.records, now=now, last_write=last_write)
            seen = replace(self._with_itself(seen_in(listing.records)), holds_off=holds_off, emptiness=emptiness)
            step = next_step(
                seen, member=self._member, session=keeper.session_id, now=now, uid=uid, contender=self._contender
            )
            match step:
                case TakeOffice():
                    term = self._take_office(step, keeper)
                    if term is not None:
                        return term
                    look = fresh  # a glance may show the same again, and again
                case Vacate():
                    with suppress(GuardFailed):  # the record went by itself; the campaign looks again
                        self._commit(keeper, writes=step.writes)
                    look = fresh
                case _:
                    look = glance
                    revision = max(revision, listing.revision)
                    wait_for_change(self._store, self._scope, after=revision, timeout=WAKE_UP, clock=self._clock)
        return None

    @contextmanager
    def attending(
        self, term: Term, *, on_look: Callable[[Sequence[Record]], None] = lambda records: None
    ) -> Iterator[None]:
        """`attend` on a thread of its own, for as long as the block lasts."""
        over = threading.Event()
        watch = threading.Thread(
            target=self.attend,
            args=(term,),
            kwargs={"stop": over, "on_look": on_look},
            name="tenure-office",
            daemon=True,
        )
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join(timeout=2 * WAKE_UP.total_seconds())  # nobody waits for a store that hangs

    def attend(self, term: Term, *, stop: Flag, on_look: Callable[[Sequence[Record]], None]) -> None:
        """Watch over the office until `stop` is set: the term ends as soon as the records show another leadership. A
        store that is away, or a record that does not decode, does not end the term: it has its deadline."""
        revision = Revision(0)
        while not stop.is_set() and not term.lost:
            looked_s = self._clock.monotonic_s()
            try:
                # Never older than the grant, so if the glance shows another leadership, the term is over.
                listing = self._store.glance(self._scope)
                if not holds_office(term, listing.records):
                    term.liveness.end("the office was taken away")
                    return
                on_look(listing.records)
                revision = max(revision, listing.revision)
                with self._store.watch(self._scope, after=revision) as changes:
                    changed = changes.wait(timeout=WAKE_UP) is not None
                early_s = looked_s + _APART_S - self._clock.monotonic_s()
                if changed and early_s > 0:
                    self._clock.sleep(early_s)
            except (StoreError, CorruptRecord):
                self._clock.sleep(WAKE_UP.total_seconds())

    def resign(self, term: Term, end: End = RESIGNED, *, writes: Sequence[Write] = ()) -> None:
        """Give the term up, and commit `writes` with that: the office is empty when this returns.

        Raises GuardFailed: a record of `writes` has changed, and nothing was written; TermLost: the term was over
        already, or the reply was lost and the term is over now; StoreUnavailable: nothing was sent, and the term goes
        on, or ends with the session; a member that resigns does not wait for long.
        """
        record = read_again(
            lambda: self._store.read(self._scope, EPOCH), over=lambda: term.lost, at_most=SHORT, clock=self._clock
        )
        if record is None or record.version != term.epoch_record:
            value = b""  # the fence below refuses this value: the epoch record has changed since the grant
        else:
            value = resignation(record, now=timestamp(self._clock), why=end.why, uid=new_uid())
        given_up = (Delete(LEADER, term.leader), Put(EPOCH, value, replaces=term.epoch_record))
        for attempt in range(_RESIGNATIONS):
            told = self.own_terms.ending(term, end, afresh=attempt > 0)
            try:
                commit_under(self._store, term, writes=(*given_up, *told, *writes), clock=self._clock)
            except GuardFailed as refused:
                if not told or refused.guard != implied_guard(told[0]):
                    raise  # else the record got its openings just now
            else:
                term.liveness.end(end.why)
                return
        raise StoreUnavailable(f"the record of term {term.epoch} changes faster than it can be ended")

    def _with_itself(self, seen: Seen) -> Seen:
        """If the member's own record does not decode, its announcement counts: `nofailover` stays in force."""
        if self._announced is None or any(one.member == self._member for one in seen.members):
            return seen
        return replace(seen, members=(*seen.members, self._announced))

    def _take_office(self, step: TakeOffice, keeper: SessionKeeper) -> Term | None:
        """The term; None: another member was faster."""
        try:
            commit = self._commit(keeper, writes=step.writes, guards=step.guards)
        except GuardFailed:
            return None
        self._known = Life(None if self._known is None else self._known.identity, step.epoch)
        leader, epoch_record = commit.versions[LEADER], commit.versions[EPOCH]
        told = next(write for write in step.writes if write.key == term_key(step.epoch))
        assert isinstance(told, Put)
        self.own_terms.wrote(told, commit.versions[told.key])
        return Term(self._scope, step.epoch, self._member, leader, epoch_record, keeper.liveness.child())


def observe(store: CoordinationStore, scope: Scope) -> View:
    """The scope's leadership now. Raises StoreUnavailable, CorruptRecord: the leader or the epoch does not decode."""
    return view_in(store.list(scope, ""))


def view_in(listing: Listing) -> View:
    """The leadership in all records of a scope. Raises CorruptRecord: the leader or the epoch does not decode."""
    seen = seen_in(listing.records)
    leader = {} if seen.leader is None else decode(seen.leader, fields={"member": str, "epoch": int})
    office = office_in(listing.records)
    request = read_switchover(seen.switchover)
    return View(
        leader=leader.get("member"),
        epoch=leader.get("epoch", 0),
        office=office,
        members=seen.members,
        pause=pause_in(listing.records),
        failing=failing_in(listing.records),
        switchover=request if request is not None and office is not None and request.epoch == office.epoch else None,
        unread=tuple(unread_in(listing.records)),
        terms=tuple(terms_in(listing.records)),
        revision=listing.revision,
    )


def newest_epoch(store: CoordinationStore, scope: Scope, *, clock: Clock) -> int:
    """The epoch of the newest term, held or over, at a glance; 0: nobody ever led. For a reader that follows the
    leader and decides nothing. Raises StoreUnavailable, CorruptRecord."""
    office = office_in(read_again(partial(store.glance, scope), clock=clock).records)
    return 0 if office is None else office.epoch


def life_in(records: Sequence[Record]) -> Life:
    """The life that the records of a scope show. Raises CorruptRecord."""
    office, birth = office_in(records), birth_in(records)
    newest = 0 if office is None else office.epoch
    return Life(None, newest) if birth is None else Life(birth.identity, newest, birth.former)


def holds_office(term: Term, records: Sequence[Record]) -> bool:
    """Whether the leader and epoch records are those of the term."""
    versions = {record.key: record.version for record in records if record.key in (LEADER, EPOCH)}
    return versions == {LEADER: term.leader, EPOCH: term.epoch_record}


def seen_in(records: tuple[Record, ...]) -> Seen:
    """The records of the election among those of a scope. Raises CorruptRecord: a leader without epoch."""
    by_key = {record.key: record for record in records}
    seen = Seen(
        leader=by_key.get(LEADER),
        epoch=by_key.get(EPOCH),
        switchover=by_key.get(SWITCHOVER),
        paused=PAUSED in by_key,
        members=tuple(candidates_in(records)),
        nameless=IDENTITY not in by_key and not has_checkpoints(records),
        terms=tuple(record for record in records if record.key.is_under(TERMS)),
    )
    if seen.leader is not None and seen.epoch is None:
        raise CorruptRecord(f"record {LEADER!r} stands without record {EPOCH!r}", fix="restore the epoch record")
    return seen
