"""What a member does about a leadership that failed: the kind of the failure, its record, and its event.

Promise: a failure that may pass is noted by the very commit that gives the term up (`coordination.failing`), so each
attempt at a batch counts once, whichever member makes it. After the last attempt the same commit pauses the scope. The
record is removed by a leader, beside its batches, once its query has planned a later batch; if no query failed by
itself, once any query has done a whole batch in one term. Not promised: that a failure is counted whose leader lost its
term, or could not reach the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tenure.checkpoints.store import newest_batches
from tenure.clock import timestamp
from tenure.coordination.candidates import PAUSED, Pause
from tenure.coordination.election import Election
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.failing import (
    FAILED,
    FAILING,
    SINK_AWAY,
    SOURCE_AWAY,
    STORAGE_AWAY,
    Failing,
    Failure,
    after,
    failing_in,
)
from tenure.coordination.reading import SHORT, read_again
from tenure.coordination.records import Delete, Key, Put, Record, Version, Write
from tenure.coordination.term import Term, commit_under
from tenure.coordination.terms import End
from tenure.errors import (
    BatchFailed,
    GuardFailed,
    SinkUnavailable,
    SourceUnavailable,
    StorageError,
    StorageUnavailable,
    StoreError,
    StoreUnavailable,
    TenureError,
    TermLost,
)
from tenure.events import AttemptFailed, Event, ScopePaused, SinkAway, SourceAway, StorageAway
from tenure.scope_context import ScopeContext

_WELL_S: Final = 600.0
"""A leadership of this length shows that nothing is away any more, also where no batch does."""

_WHOLE: Final = 2
"""A query that has planned so many batches in a term has done the first of them whole: source, storage and sink have
answered."""

_ATTEMPTS: Final = 5
"""How often a resignation is tried while operators change the records beside it."""

_KINDS: Final[Mapping[type[TenureError], str]] = {
    SourceUnavailable: SOURCE_AWAY,
    SinkUnavailable: SINK_AWAY,
    StorageUnavailable: STORAGE_AWAY,
    BatchFailed: FAILED,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """When a member gives up."""

    batch_attempts: int = 5
    """How often a batch may fail by the same error before the scope is paused."""
    away: timedelta | None = None
    """How long a source, a sink or the storage may be away before a member ends; None: for ever."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A failure that is in the store. `spent`: it was the last attempt at its batch, and the scope is paused."""

    failing: Failing
    spent: bool


class Failures:
    """The failures of one scope, as a member meets them."""

    def __init__(self, context: ScopeContext, *, member: str, limits: Limits) -> None:
        self._store, self._scope = context.store, context.scope
        self._clock, self._events = context.clock, context.events
        self._member = member
        self._limits = limits
        self._has_run = False

    def look(self, records: Sequence[Record]) -> None:
        """Note, before a term, whether the storage has ever worked: a query that plans a batch has written there."""
        self._has_run = self._has_run or bool(newest_batches(records))

    def of(self, error: Exception) -> Failure | None:
        """The failure, if it may pass; None: waiting does not help, or it is for others to judge."""
        if not isinstance(error, TenureError):
            return None
        kind = next((word for kind, word in _KINDS.items() if isinstance(error, kind)), None)
        if kind is None and isinstance(error, StorageError) and not error.query and self._has_run:
            kind = STORAGE_AWAY
        return None if kind is None else Failure(kind, error.what, error.query, error.batch, error.fix or "")

    def resign(self, election: Election, term: Term, failure: Failure) -> Noted:
        """Give the term up over a failure. Raises TermLost, StoreError: it is not noted."""
        end = End(failure.kind, failure.what)
        for _ in range(_ATTEMPTS):
            noted, writes = self._noted(term, failure)
            try:
                election.resign(term, end, writes=writes)
            except GuardFailed:
                continue  # an operator has just paused or resumed the scope
            return noted
        raise StoreUnavailable(f"the records of scope {self._scope!r} change faster than a failure can be noted")

    def _noted(self, term: Term, failure: Failure) -> tuple[Noted, Sequence[Write]]:
        listing = read_again(
            lambda: self._store.list(self._scope, ""), over=lambda: term.lost, at_most=SHORT, clock=self._clock
        )
        by_key = {record.key: record for record in listing.records}
        before = failing_in(listing.records)
        if before is not None and before.is_over(newest_batches(listing.records)):
            before = None
        now = timestamp(self._clock)
        attempts = self._limits.batch_attempts
        failing, spent = after(before, failure, member=self._member, at=now, attempts=attempts)
        writes: list[Write] = [Put(FAILING, failing.encode(uid=new_uid()), replaces=_version(by_key, FAILING))]
        if spent and PAUSED not in by_key:
            pause = {"at": now, "why": paused_why(failure), "by": self._member, "uid": new_uid()}
            writes.append(Put(PAUSED, encode(pause), replaces=None))
        return Noted(failing, spent), writes

    def emit(self, failure: Failure, noted: Noted | None, *, again_s: float) -> None:
        """Emit the event of a failure, and that of the pause. `noted` None: the store has no record of it."""
        again_s = round(again_s, 1)
        self._events.emit(self._event(failure, noted, again_s=again_s))
        if noted is not None and noted.spent:
            self._events.emit(ScopePaused(self._scope, member=self._member, why=paused_why(failure)))

    def _event(self, failure: Failure, noted: Noted | None, *, again_s: float) -> Event:
        scope, member, query, why = self._scope, self._member, failure.query, failure.why
        if failure.kind == SOURCE_AWAY:
            return SourceAway(scope, member=member, why=why, again_s=again_s)
        if failure.kind == SINK_AWAY:
            return SinkAway(scope, member=member, query=query, why=why, again_s=again_s)
        if failure.kind == STORAGE_AWAY:
            return StorageAway(scope, member=member, why=why, again_s=again_s)
        attempt = 1 if noted is None else self._limits.batch_attempts if noted.spent else noted.failing.count
        return AttemptFailed(
            scope, member=member, query=query, batch=failure.batch, error=why, attempt=attempt, again_s=again_s
        )

    def gives_up(self, noted: Noted | None) -> bool:
        """Whether the source, sink or storage has been away for longer than the settings allow."""
        if self._limits.away is None or noted is None or not noted.failing.last.is_away:
            return False
        since, at = (datetime.fromisoformat(text) for text in (noted.failing.since, noted.failing.at))
        return at - since >= self._limits.away

    def clear(self, term: Term, records: Sequence[Record], *, began: Mapping[str, int], led_s: float) -> None:
        """As a leader: remove the record of failures that are over. `began`: query -> its newest batch when the term
        began. `led_s`: for how long the term has been held."""
        record = next((record for record in records if record.key == FAILING), None)
        if record is None:
            return
        failing = failing_in([record])
        newest = newest_batches(records)
        passed = led_s > _WELL_S and (failing is None or failing.last.is_away or not failing.last.query)
        if failing is not None:
            passed = passed or failing.is_over(newest)
            if not failing.last.query:
                passed = passed or any(batch >= began.get(query, -1) + _WHOLE for query, batch in newest.items())
        if passed:
            with suppress(TermLost, StoreError):  # the next look tries again, or the next leader
                commit_under(self._store, term, writes=(Delete(FAILING, record.version),), clock=self._clock)


def paused_why(failure: Failure) -> str:
    """Why a scope is paused, in one line."""
    what = f"batch {failure.batch} of {failure.query}" if failure.query else "the pipeline's function"
    return f"{what} fails: {failure.why}"


def pause_line(pause: Pause) -> str:
    """A pause that followed on failures, for people."""
    return f"{pause.why} (paused by {pause.by})" if pause.by else pause.why


def _version(by_key: Mapping[Key, Record], key: Key) -> Version | None:
    record = by_key.get(key)
    return None if record is None else record.version
