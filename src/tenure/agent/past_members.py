"""What a member notes of the members that come and go, for people: as a leader of all, at its own end of itself.

Promise: nothing here is on the way of a batch: a leader writes on the thread that watches over the office, under the
guards of its term. A store that refuses a write costs the line alone, and delays no end of a run. A member says nothing
in a scope that nobody ever led, nor where the store is away or not its own. Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tenure.clock import timestamp
from tenure.coordination.candidates import Identity, candidates_in
from tenure.coordination.encoding import new_uid
from tenure.coordination.past_members import (
    EXITED,
    FINISHED,
    MEMBERS_PAST,
    RETURNS,
    STOPPED,
    LifeKey,
    PastMember,
    past_in,
    put_past,
    roll_call,
    with_word,
)
from tenure.coordination.records import Record
from tenure.coordination.term import EPOCH, Term, commit_under
from tenure.errors import CorruptRecord, GuardFailed, OwnerMismatch, StoreError, TenureError, TermLost
from tenure.link.driver import Ended
from tenure.scope_context import ScopeContext

_ATTEMPTS: Final = 5
"""How often a member's own word is sent again because others have changed the record."""


class PastMembers:
    """The record `members_past`, as one member writes it."""

    def __init__(self, context: ScopeContext, identity: Identity) -> None:
        self._store, self._scope, self._clock = context.store, context.scope, context.clock
        self._identity = identity
        self._joined: str | None = None  # when this member joined last; None: it never did
        self._seen: dict[LifeKey, str] = {}  # when each member of the last look was seen

    def joined(self, since: str) -> None:
        """This member has announced itself."""
        self._joined = since

    def look(self, records: Sequence[Record], term: Term | None = None) -> None:
        """See the members. `term`: of this member; None: it does not lead, and writes nothing."""
        now, present = timestamp(self._clock), candidates_in(records)
        known = past_in(records)
        rows = known if term is None else roll_call(known, present, now=now, seen=self._seen)
        self._seen = {(one.member, one.since): now for one in present}
        if term is None or rows == known:
            return
        write = put_past(rows, uid=new_uid(), replaces=_record_in(records))
        with suppress(TermLost, StoreError):  # the next look tries again, or the next leader
            commit_under(self._store, term, writes=(write,), clock=self._clock)

    def left(self, ended: Ended | TenureError) -> None:
        """This member's run has ended."""
        if self._joined is None or isinstance(ended, StoreError | OwnerMismatch):
            return
        row = PastMember(self._identity.member, self._identity.host, self._identity.pid, self._joined)
        now = timestamp(self._clock)
        if isinstance(ended, TenureError):
            row = row.ended(EXITED, at=now, exit_code=ended.exit_code, line=str(ended))
        else:
            row = row.ended(STOPPED if ended is Ended.STOPPED else FINISHED, at=now)
        with suppress(StoreError, CorruptRecord):  # the end of the run keeps its own error
            self._say(row)

    def returns(self, why: str) -> None:
        """This member leaves for a moment, and comes back with another driver. `why`: how the last driver ended."""
        if self._joined is not None:
            row = PastMember(self._identity.member, self._identity.host, self._identity.pid, self._joined)
            with suppress(StoreError, CorruptRecord):
                self._say(row.ended(RETURNS, at=timestamp(self._clock), line=why))

    def _say(self, row: PastMember) -> None:
        """Raises StoreError, CorruptRecord."""
        for _ in range(_ATTEMPTS):
            listing = self._store.list(self._scope, "")
            rows = with_word(past_in(listing.records), row)
            if rows is None or not any(record.key == EPOCH for record in listing.records):
                return
            write = put_past(rows, uid=new_uid(), replaces=_record_in(listing.records))
            with suppress(GuardFailed):  # a leader has just noted something
                self._store.commit(self._scope, guards=(), writes=(write,))
                return


def _record_in(records: Sequence[Record]) -> Record | None:
    return next((record for record in records if record.key == MEMBERS_PAST), None)
