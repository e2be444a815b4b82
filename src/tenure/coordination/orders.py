"""What operators ask of a scope: switchover, failover, pause, resume, restart. Written once, for every store.

Promise: each request is one commit that presents what it was decided on, so it is for the leadership that the operator
saw, or it is refused. A request is a record; members obey it by the rules in `election_rules`. Records: `switchover`
(for one epoch), `paused`, `restarts/<member>`. Not promised: that a batch which hangs ever ends; `failover` waits for
none.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from tenure.clock import Clock
from tenure.coordination.candidates import PAUSED, RESTARTS, SWITCHOVER, members_in, ready_beside
from tenure.coordination.election import seen_in
from tenure.coordination.election_rules import Office, Seen, decode_office, resignation
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.records import Delete, Exact, Guard, Put, Record, Scope, Write
from tenure.coordination.settle import commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH, LEADER
from tenure.errors import GuardFailed, UsageError

_SETTLE_S = 10.0
"""How long a request whose reply was lost is sought."""


@dataclass(frozen=True, slots=True)
class Requested:
    """A request that was committed. `epoch`: the newest epoch then. `leader`: who led; None: nobody."""

    epoch: int
    leader: str | None


class Orders:
    """An operator's hand on one scope."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._clock = clock

    def switchover(self, *, to: str | None) -> Requested:
        """Ask the leader to finish its batch and hand over to `to`; None: to the best standby.

        Raises UsageError: nobody leads, or nobody could take over; StoreUnavailable, OutcomeUnknown.
        """
        found = self._look()
        if found.seen.leader is None:
            raise UsageError(f"nobody leads scope {self._scope!r}", fix="see tenure list; or use tenure failover")
        self._check_target(found, to)
        self._commit(found, writes=(self._request(found, to),), guards=(Exact(LEADER, found.seen.leader.version),))
        return Requested(found.office.epoch, found.leader_name)

    def failover(self, *, to: str | None) -> Requested:
        """Take the office away from whoever holds it, now, for `to`; None: for the best standby. What the old leader
        is about to write is refused.

        Raises UsageError: nobody could take over; StoreUnavailable, OutcomeUnknown.
        """
        found = self._look()
        self._check_target(found, to)
        writes: tuple[Write, ...] = (self._request(found, to),)
        if found.seen.leader is not None:
            ended = resignation(found.epoch, now=self._now(), why="failover", uid=new_uid())
            writes = (
                Delete(LEADER, found.seen.leader.version),
                Put(EPOCH, ended, replaces=found.epoch.version),
                *writes,
            )
            self._commit(found, writes=writes)
        else:
            self._commit(found, writes=writes, guards=(Exact(EPOCH, found.epoch.version),))
        return Requested(found.office.epoch, found.leader_name)

    def withdraw(self, requested: Requested) -> bool:
        """Take a request for a switchover back; False: it was obeyed already, or is not there any more."""
        record = self._store.read(self._scope, SWITCHOVER)
        epoch = self._store.read(self._scope, EPOCH)
        if record is None or epoch is None or decode_office(epoch).epoch != requested.epoch:
            return False
        try:
            self._settled(writes=(Delete(SWITCHOVER, record.version),), guards=(Exact(EPOCH, epoch.version),))
        except GuardFailed:
            return False
        return True

    def pause(self) -> bool:
        """Let nobody be elected until `resume`. The leader goes on. False: it was paused already."""
        if self._store.read(self._scope, PAUSED) is not None:
            return False
        put = Put(PAUSED, encode({"at": self._now(), "uid": new_uid()}), replaces=None)
        try:
            self._settled(writes=(put,))
        except GuardFailed:
            return False  # somebody else was faster
        return True

    def resume(self) -> bool:
        """End a pause. False: there was none."""
        record = self._store.read(self._scope, PAUSED)
        if record is None:
            return False
        try:
            self._settled(writes=(Delete(PAUSED, record.version),))
        except GuardFailed:
            return False
        return True

    def restart(self, member: str) -> None:
        """Ask a member to replace its driver; a leader finishes its batch and resigns first.

        Raises UsageError: no such member.
        """
        records = self._store.list(self._scope, "").records
        names = members_in(records)
        if member not in names:
            raise UsageError(f"no live member of scope {self._scope!r} is named {member!r}", fix=f"live: {names}")
        key = RESTARTS.child(member)
        before = next((record for record in records if record.key == key), None)
        value = encode({"at": self._now(), "uid": new_uid()})
        with suppress(GuardFailed):  # somebody else has just asked for it
            self._settled(writes=(Put(key, value, replaces=None if before is None else before.version),))

    # --- inside ---------------------------------------------------------------------------------------------------

    def _look(self) -> _Found:
        seen = seen_in(self._store.list(self._scope, "").records)
        if seen.epoch is None:
            raise UsageError(f"scope {self._scope!r} never had a leader", fix="check --scope; start tenure run")
        return _Found(seen, seen.epoch, decode_office(seen.epoch))

    def _check_target(self, found: _Found, to: str | None) -> None:
        ready = [one.member for one in ready_beside(found.seen.members, found.leader_name)]
        if to is None and not ready:
            raise UsageError(f"no standby of scope {self._scope!r} could take over", fix="see tenure list")
        if to is not None and to not in ready:
            raise UsageError(f"member {to!r} of scope {self._scope!r} could not take over", fix=f"ready: {ready}")

    def _request(self, found: _Found, to: str | None) -> Put:
        value = encode({"epoch": found.office.epoch, "to": to or "", "at": self._now(), "uid": new_uid()})
        return Put(SWITCHOVER, value, replaces=None if found.seen.switchover is None else found.seen.switchover.version)

    def _commit(self, found: _Found, *, writes: tuple[Write, ...], guards: tuple[Guard, ...] = ()) -> None:
        try:
            self._settled(writes=writes, guards=guards)
        except GuardFailed as changed:
            raise UsageError(
                f"the leadership of scope {self._scope!r} changed meanwhile", fix="look with tenure list, and try again"
            ) from changed

    def _settled(self, *, writes: tuple[Write, ...], guards: tuple[Guard, ...] = ()) -> None:
        end_s = self._clock.monotonic_s() + _SETTLE_S
        commit_settled(
            self._store,
            self._scope,
            guards=guards,
            writes=writes,
            go_on=lambda: self._clock.monotonic_s() < end_s,
            clock=self._clock,
        )

    def _now(self) -> str:
        return self._clock.now().isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class _Found:
    """A scope that had a leader at least once."""

    seen: Seen
    epoch: Record
    office: Office

    @property
    def leader_name(self) -> str | None:
        """Who leads; None: nobody."""
        return None if self.seen.leader is None else self.office.holder
