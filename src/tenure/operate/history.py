"""The terms of a scope, and the times in which nobody led, as far as the store knows them.

Promise: pure, but for `history`. No moment counts as led that may have been without a leader: where nobody saw a term
end, it counts until its last known write. Times are wall clocks of several hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tenure.checkpoints.store import planned_last
from tenure.coordination.election import View, view_in
from tenure.coordination.election_rules import Grant
from tenure.coordination.records import Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.terms import FAILOVER, SESSION_ENDED, SWITCHOVER_ASKED, Opening, TermRecord

_BLIND_S: Final = 3.0
"""A contender that has not looked for longer than this did not see the end of a term."""

_HANDED_OVER: Final = (SWITCHOVER_ASKED, FAILOVER)


@dataclass(frozen=True, slots=True)
class TermStatus:
    """One term. Times are wall clock (ISO 8601, UTC); empty: not known."""

    epoch: int
    holder: str
    since: str
    until: str
    """When it ended; where nobody saw that, its last known sign. Empty: it is held."""
    until_at_most: str
    """Where nobody saw the end: when the office was found empty. Else as `until`."""
    why: str
    """The word for why the term ended; empty: the term is held."""
    detail: str
    """How the driver died, the error of a failed query, or to whom an operator handed over."""
    by: str = ""
    """The operator who asked for the end."""
    reason: str = ""
    """The reason that the operator gave."""
    note: str = ""
    """What the holder said later about an end that it could not tell."""
    host: str = ""
    version: str = ""
    gap_s: float = 0.0
    """For how long nobody led before this term, in seconds; at most that where nobody saw the term before end."""
    gap_at_least_s: float = 0.0
    openings: Mapping[str, Opening] = field(default_factory=dict)
    """Query -> how it began in this term."""


@dataclass(frozen=True, slots=True)
class TermHistory:
    """The terms of a scope, oldest first."""

    terms: tuple[TermStatus, ...]
    empty_since: str = ""
    """Nobody leads now, and this is when the last term ended, as its `until`. Empty: somebody leads, or nobody ever
    led."""


def history(store: CoordinationStore, scope: Scope) -> TermHistory:
    """The history of the scope now. Raises StoreUnavailable, CorruptRecord, CorruptHandle, CorruptCheckpoint."""
    listing = store.list(scope, "")
    return history_in(view_in(listing), listing.records)


def history_in(view: View, records: Sequence[Record]) -> TermHistory:
    """The history in the records of a scope. Raises CorruptHandle, CorruptCheckpoint."""
    office = view.office
    if office is None:
        return TermHistory(())
    known = {term.epoch: term for term in view.terms}
    told = [_of_grant(grant, known.get(grant.epoch)) for grant in office.grants]
    is_held = view.leader is not None
    if office.until is not None and not told[-1].until:  # its record is missing
        told[-1] = replace(told[-1], until=office.until, why=office.why or "")
    if not is_held and not told[-1].until and not told[-1].found_empty_at:
        told[-1] = replace(told[-1], last_write=planned_last(records, office.epoch))
    found: list[TermStatus] = []
    for number, term in enumerate(told):
        after = told[number + 1] if number + 1 < len(told) else None
        status = _status(term, after, is_held=is_held and after is None)
        if found:
            gaps = [_between(end, status.since) for end in (found[-1].until, found[-1].until_at_most)]
            status = replace(status, gap_s=gaps[0], gap_at_least_s=gaps[1])
        found.append(status)
    return TermHistory(tuple(found), "" if is_held else found[-1].until)


def _of_grant(grant: Grant, known: TermRecord | None) -> TermRecord:
    """The record of a grant; without one, what the grant itself says."""
    return TermRecord(grant.epoch, grant.holder, grant.since) if known is None else known


def _status(term: TermRecord, after: TermRecord | None, *, is_held: bool) -> TermStatus:
    until, at_most, why, detail = term.until, term.until, term.why, term.detail
    if is_held:
        until = at_most = ""
    elif not until:
        at_most = term.found_empty_at or ("" if after is None else after.since)
        until, why = _last_sign(term) or max(term.last_write, term.since), SESSION_ENDED
    if why in _HANDED_OVER and not detail and after is not None:
        detail = f"to {after.holder}"
    return TermStatus(
        term.epoch,
        term.holder,
        term.since,
        until,
        at_most,
        why,
        detail,
        by=term.by,
        reason=term.reason,
        note=term.note,
        host=term.host,
        version=term.version,
        openings=term.openings,
    )


def _last_sign(term: TermRecord) -> str:
    """Until when a term counts that a contender followed; empty: nobody did. A contender looks each second: where it
    could not, as its store was away, the term counts until it saw the term held last."""
    if not term.led_at:
        return ""
    blind_s = _between(term.led_at, term.found_empty_at)
    return term.found_empty_at if blind_s <= _BLIND_S else max(term.led_at, term.last_write)


def _between(first: str, last: str) -> float:
    """Seconds between two times, at least 0: clocks of two hosts may differ. 0 where either is no time."""
    try:
        return round(max(0.0, (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()), 3)
    except (TypeError, ValueError):
        return 0.0
