"""Requests of operators to a scope: switchover, failover, pause, resume, restart, reinit. Once, for every store.

Promise: a request is one commit under guards of the records that the operator saw: it applies to that leadership, or
is refused. A request to a scope that has no record is refused, and names the scopes of the store: nothing is written.
A request is a record (`switchover` for one epoch, `paused`, `restarts/<member>`); members obey by the rules in
`election_rules`. No request applies twice. After a lost reply, `switchover` and `failover` are sent again: obeying
them changes the leadership, which guards them. The other requests are looked for, and are OutcomeUnknown when they are
not there. Not promised: that a batch which hangs ever ends; `failover` waits for no batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.clock import Clock, timestamp
from tenure.coordination.candidates import (
    NOBODY,
    PAUSED,
    RESTARTS,
    SWITCHOVER,
    AskedBy,
    Candidate,
    candidates_in,
    members_in,
    ready_beside,
)
from tenure.coordination.election import seen_in
from tenure.coordination.election_rules import Office, Seen, decode_office, resignation
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.records import Absent, Delete, Exact, Guard, Put, Record, Scope, Write
from tenure.coordination.settle import commit_once, commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH, LEADER
from tenure.coordination.terms import FAILOVER, TERMS, End, end_written
from tenure.errors import GuardFailed, OutcomeUnknown, UsageError
from tenure.operate.scopes import NEW_SCOPES, known_records

_SETTLE_S = 10.0
"""How long a request whose reply was lost is sent again."""

_ATTEMPTS = 5
"""How often a failover is sent again because the record of the term has changed beside it."""

_LOOK = "look with tenure list before asking again"


@dataclass(frozen=True, slots=True)
class Requested:
    """A committed request. `epoch`: the newest epoch then. `leader` None: nobody led. `record`: the unique value."""

    epoch: int
    leader: str | None
    record: bytes


class Orders:
    """An operator's hand on one scope."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, clock: Clock, asked: AskedBy = NOBODY) -> None:
        """`asked`: who the operator is, and the reason, for the records of the terms."""
        self._store = store
        self._scope = scope
        self._clock = clock
        self._asked = asked

    def switchover(self, *, to: str | None) -> Requested:
        """Ask the leader to finish its batch and hand over to `to`; None: to the best standby.

        Raises UsageError: nobody leads, nobody could take over, the scope is paused, or its leader obeys no request;
        StoreUnavailable, OutcomeUnknown.
        """
        found = self._look()
        if found.seen.leader is None:
            raise UsageError(f"nobody leads scope {self._scope!r}", fix="see tenure list; or use tenure failover")
        self._refuse_in_process(found.seen.members, found.leader_name)
        self._check_target(found, to)
        request = self._request(found, to)
        self._commit(
            writes=(request,), guards=(Exact(LEADER, found.seen.leader.version), found.as_it_is, Absent(PAUSED))
        )
        return Requested(found.office.epoch, found.leader_name, request.value)

    def failover(self, *, to: str | None) -> Requested:
        """Take the office away now, for `to`; None: for the best standby. Pending writes of the leader are refused.

        Raises UsageError: nobody could take over, or the scope is paused; StoreUnavailable, OutcomeUnknown.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._fail_over(to)
            except _TermNoted:
                continue
        return self._fail_over(to)

    def _fail_over(self, to: str | None) -> Requested:
        found = self._look()
        self._check_target(found, to)
        request = self._request(found, to)
        if found.seen.leader is not None:
            asked, at = self._asked, timestamp(self._clock)
            end = End(FAILOVER, f"to {to}" if to else "", asked.by, asked.reason)
            ended = resignation(found.epoch, now=at, why=end.why, uid=new_uid())
            told = end_written(found.seen.terms, found.office.epoch, end, at=at, uid=new_uid())
            vacated = Delete(LEADER, found.seen.leader.version)
            ended_now = Put(EPOCH, ended, replaces=found.epoch.version)
            self._commit(writes=(vacated, ended_now, request, *told), guards=(Absent(PAUSED),))
        else:
            self._commit(writes=(request,), guards=(found.as_it_is, Absent(PAUSED)))
        return Requested(found.office.epoch, found.leader_name, request.value)

    def withdraw(self, requested: Requested) -> bool:
        """Take a request for a switchover back; False: the request was obeyed already, or is not there any more.

        Raises StoreUnavailable; OutcomeUnknown: the request may still stand.
        """
        record = self._store.read(self._scope, SWITCHOVER)
        epoch = self._store.read(self._scope, EPOCH)
        if record is None or record.value != requested.record:
            return False  # a request of another operator is not ours to take back
        if epoch is None or decode_office(epoch).epoch != requested.epoch:
            return False
        guards = (Exact(EPOCH, epoch.version),)
        return self._once(Delete(SWITCHOVER, record.version), record, guards, what="the withdrawal of a switchover")

    def pause(self) -> bool:
        """Let nobody be elected until `resume`. The leader goes on. False: the scope was paused already.

        Raises UsageError: no such scope; StoreUnavailable; OutcomeUnknown: the scope may be paused.
        """
        if any(record.key == PAUSED for record in known_records(self._store, self._scope)):
            return False
        put = Put(PAUSED, self._stamped(**self._asked.fields()), replaces=None)
        return self._once(put, None, what="a pause")  # False: another operator was faster

    def resume(self) -> bool:
        """End a pause. False: there was none.

        Raises UsageError: no such scope; StoreUnavailable; OutcomeUnknown: the pause may have ended.
        """
        records = known_records(self._store, self._scope)
        record = next((record for record in records if record.key == PAUSED), None)
        return record is not None and self._once(Delete(PAUSED, record.version), record, what="the end of a pause")

    def restart(self, member: str) -> None:
        """Ask a member to replace its driver; a leader finishes its batch and resigns first.

        Raises UsageError: no such scope, no such member, or the member has no driver; StoreUnavailable; OutcomeUnknown:
        the member may have been asked, and obeyed.
        """
        records = known_records(self._store, self._scope)
        self._ask_for_driver(records, member, what=f"a restart of member {member!r}")  # False: another has just asked

    def reinit(self, member: str) -> None:
        """Ask a standby to begin anew: with another driver, which mirrors and rehearses from nothing.

        Raises as `restart`; UsageError also where the member leads, or nobody ever led.
        """
        records = known_records(self._store, self._scope)
        found = self._found(records)
        if found.leader_name == member:
            raise UsageError(
                f"member {member!r} leads scope {self._scope!r}: only a standby begins anew",
                fix="first: tenure switchover; or tenure restart, which hands over",
            )
        if not self._ask_for_driver(records, member, (found.as_it_is,), what=f"a new begin of member {member!r}"):
            raise UsageError(f"the records of scope {self._scope!r} changed meanwhile", fix="try again")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _ask_for_driver(
        self, records: Sequence[Record], member: str, guards: tuple[Guard, ...] = (), *, what: str
    ) -> bool:
        """Ask a member for another driver; False: the store refused it, as a record is another now."""
        names = members_in(records)
        if member not in names:
            fix = f"live: {names}" if names else "it has no live member: start tenure run"
            raise UsageError(f"no live member of scope {self._scope!r} is named {member!r}", fix=fix)
        self._refuse_in_process(candidates_in(records), member)
        key = RESTARTS.child(member)
        before = next((record for record in records if record.key == key), None)
        stamped = self._stamped(**self._asked.fields())
        put = Put(key, stamped, replaces=None if before is None else before.version)
        return self._once(put, before, guards, what=what)

    def _look(self) -> _Found:
        return self._found(known_records(self._store, self._scope))

    def _found(self, records: tuple[Record, ...]) -> _Found:
        seen = seen_in(records)
        if seen.epoch is None:
            raise UsageError(f"scope {self._scope!r} never had a leader", fix=f"check --scope; {NEW_SCOPES}")
        return _Found(seen, seen.epoch, decode_office(seen.epoch))

    def _refuse_in_process(self, members: Sequence[Candidate], name: str | None) -> None:
        if any(one.member == name and one.in_process for one in members):
            raise UsageError(
                f"member {name!r} of scope {self._scope!r} is a service that calls tenure.lead, and obeys no request",
                fix="end that service, or take the leadership away with tenure failover",
            )

    def _check_target(self, found: _Found, to: str | None) -> None:
        if found.seen.paused:
            raise UsageError(f"scope {self._scope!r} is paused: nobody would be elected", fix="first: tenure resume")
        ready = [one.member for one in ready_beside(found.seen.members, found.leader_name)]
        if to is None and not ready:
            raise UsageError(f"no standby of scope {self._scope!r} could take over", fix="see tenure list")
        if to is not None and to not in ready:
            raise UsageError(f"member {to!r} of scope {self._scope!r} could not take over", fix=f"ready: {ready}")

    def _request(self, found: _Found, to: str | None) -> Put:
        before = found.seen.switchover
        value = self._stamped(epoch=found.office.epoch, to=to or "", **self._asked.fields())
        return Put(SWITCHOVER, value, replaces=None if before is None else before.version)

    def _stamped(self, **fields: object) -> bytes:
        return encode({**fields, "at": timestamp(self._clock), "uid": new_uid()})

    def _commit(self, *, writes: tuple[Write, ...], guards: tuple[Guard, ...] = ()) -> None:
        """Commit under the leadership that was read, which changes as soon as the request is obeyed."""
        end_s = self._clock.monotonic_s() + _SETTLE_S
        try:
            commit_settled(
                self._store,
                self._scope,
                guards=guards,
                writes=writes,
                go_on=lambda: self._clock.monotonic_s() < end_s,
                clock=self._clock,
            )
        except GuardFailed as changed:
            what = f"the leadership of scope {self._scope!r} changed meanwhile"
            if changed.earlier_request_may_apply:
                raise OutcomeUnknown(f"{what}, perhaps by this request", fix=_LOOK) from changed
            if isinstance(changed.guard, Exact) and changed.guard.key.is_under(TERMS):
                raise _TermNoted(what, fix=_LOOK) from changed
            raise UsageError(what, fix="look with tenure list, and try again") from changed
        except OutcomeUnknown as unknown:
            raise self._unknown("a switchover", unknown) from unknown

    def _once(self, write: Write, before: Record | None, guards: tuple[Guard, ...] = (), *, what: str) -> bool:
        """Send a request once; False: the store refused it, as another record stands there now."""
        try:
            commit_once(self._store, self._scope, write, before=before, guards=guards, clock=self._clock)
        except GuardFailed:
            return False
        except OutcomeUnknown as unknown:
            raise self._unknown(what, unknown) from unknown
        return True

    def _unknown(self, what: str, unknown: OutcomeUnknown) -> OutcomeUnknown:
        known = f"it is not known whether {what} of scope {self._scope!r} was asked for, and perhaps obeyed"
        return OutcomeUnknown(f"{known}: {unknown.what}", fix=_LOOK)


class _TermNoted(UsageError):
    """The leader has just added to the record of its term: nothing was written, and the leadership is as it was."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A scope that had a leader at least once."""

    seen: Seen
    epoch: Record
    office: Office

    @property
    def as_it_is(self) -> Exact:
        """Holds until anybody is elected, resigns, or is removed."""
        return Exact(EPOCH, self.epoch.version)

    @property
    def leader_name(self) -> str | None:
        """The leader; None: nobody leads."""
        return None if self.seen.leader is None else self.office.holder
