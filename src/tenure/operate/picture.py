"""All that the store says of a scope, at one instant: the snapshot, the terms, the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tenure.coordination.candidates import Candidate
from tenure.coordination.election import view_in
from tenure.coordination.past_members import PastMember
from tenure.coordination.records import Listing, Scope
from tenure.coordination.store import CoordinationStore
from tenure.operate.history import TermHistory, TermStatus, history_in
from tenure.operate.snapshot import Snapshot, snapshot_in
from tenure.results.result import Result
from tenure.results.store import result_in


@dataclass(frozen=True, slots=True)
class ScopePicture:
    """A scope at one instant."""

    snapshot: Snapshot
    history: TermHistory
    result: Result | None
    """How the pipeline ended for good; None: it goes on."""
    now: datetime

    @property
    def led(self) -> bool:
        """Whether somebody leads."""
        return self.snapshot.leader is not None

    @property
    def last(self) -> TermStatus | None:
        """The newest term; None: there was none."""
        return self.history.terms[-1] if self.history.terms else None

    @property
    def led_until(self) -> str:
        """When a member led last; empty: somebody leads, or nobody ever led. After the first of the failures that the
        scope has noted, a term in which no query finished a batch is an attempt: such a term does not count."""
        failing, empty_since = self.snapshot.failing, self.history.empty_since
        if failing is None or not empty_since:
            return empty_since
        led = [
            term.until
            for term in self.history.terms
            if term.since <= failing.since or any(one.committed_at for one in term.openings.values())
        ]
        return led[-1] if led else min(failing.since, empty_since)

    @property
    def standbys(self) -> tuple[Candidate, ...]:
        """The live members but the leader."""
        return tuple(one for one in self.snapshot.members if one.member != self.snapshot.leader)

    @property
    def gone(self) -> tuple[PastMember, ...]:
        """The members that do not live any more, the last first. The last leader is among them also where nobody
        noted it, and lived at least until the last known sign of its term."""
        found, last = self.snapshot.gone, self.last
        if last is None or any(one.member == last.holder for one in self.snapshot.members):
            return found
        sign = last.until if last.until != last.until_at_most else ""
        if not any(row.member == last.holder for row in found):
            found = (*found, PastMember(last.holder, last.host, 0, last.since))
        found = tuple(
            replace(row, seen=max(row.seen, sign)) if row.member == last.holder and row.told_by_nobody else row
            for row in found
        )
        return tuple(sorted(found, key=lambda row: row.last_sign, reverse=True))


def take_picture(store: CoordinationStore, scope: Scope, *, now: datetime) -> ScopePicture:
    """All that a verdict needs, of one read. Raises StoreUnavailable, Corrupt."""
    return picture_in(scope, store.guarantees.name, store.list(scope, ""), now=now)


def picture_in(scope: Scope, store: str, listing: Listing, *, now: datetime) -> ScopePicture:
    """The picture in all records of a scope. `store`: its kind. Raises Corrupt."""
    view = view_in(listing)
    snapshot = snapshot_in(scope, store, view, listing.records)
    return ScopePicture(snapshot, history_in(view, listing.records), result_in(listing.records), now)
