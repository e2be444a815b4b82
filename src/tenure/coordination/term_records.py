"""The records of terms as one member writes them: of its own terms, and of the end of the term before.

Promise: nothing here decides anything, or is on the way of a batch. Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenure.clock import Clock, timestamp
from tenure.coordination.election_rules import Emptiness, office_in
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Put, Record, Scope, Version
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import LEADER, Term, commit_under
from tenure.coordination.terms import End, Opening, read_term, term_key

LastWrite = Callable[[Sequence[Record], int], str]
"""When the newest batch of an epoch was planned (ISO 8601, UTC), among the records of a scope; empty: not known."""


class Sightings:
    """Remembers when a contender saw the newest term held, and over."""

    def __init__(self) -> None:
        self._led = self._empty = (0, "")  # epoch, and when its term was seen held last; seen over first

    def look(self, records: Sequence[Record], *, now: str, last_write: LastWrite) -> Emptiness:
        """The end of the newest term as this contender knows it after a look at `now`. Raises CorruptRecord."""
        office = office_in(records)
        if office is None:
            return Emptiness()
        if any(record.key == LEADER for record in records):
            self._led = (office.epoch, now)
            return Emptiness()
        if self._empty[0] != office.epoch:
            self._empty = (office.epoch, now)
        led_at = self._led[1] if self._led[0] == office.epoch else ""
        wrote = "" if office.until is not None else last_write(records, office.epoch)
        return Emptiness(led_at, self._empty[1], wrote)


class OwnTerms:
    """Writes the records of the terms of a member."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, member: str, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._member = member
        self._clock = clock
        self._known: Record | None = None  # of the last term, as written or read last; None: there is no record

    def wrote(self, put: Put, version: Version) -> None:
        """Note that the record of a term was written."""
        self._known = Record(put.key, put.value, version, None)

    def note_openings(self, term: Term, openings: Mapping[str, Opening]) -> None:
        """Record how the queries began in the term. Raises TermLost, StoreUnavailable; GuardFailed: the record has just
        got its end."""
        known = read_term(self._known)
        if known is not None and known.epoch == term.epoch:
            put = known.opened(openings).put(uid=new_uid(), replaces=self._known)
            commit = commit_under(self._store, term, writes=(put,), clock=self._clock)
            self.wrote(put, commit.versions[put.key])

    def note_end(self, epoch: int, note: str) -> None:
        """Add to the record of a former term how it ended for this member, unless somebody told the end. Raises
        StoreError: it is not added."""
        record = self._store.read(self._scope, term_key(epoch))
        known = read_term(record)
        if known is not None and known.holder == self._member and not known.until:
            put = known.noted(note).put(uid=new_uid(), replaces=record)
            self._store.commit(self._scope, guards=(), writes=(put,))

    def ending(self, term: Term, end: End, *, afresh: bool) -> Sequence[Put]:
        """The write that adds the end to the record of the term; none: there is no record. `afresh`: the record has
        changed since it was written. Raises StoreUnavailable."""
        key = term_key(term.epoch)
        if afresh or self._known is None or self._known.key != key:
            self._known = self._store.read(self._scope, key)
        known = read_term(self._known)
        if known is None:
            return ()
        return (known.ended(end, at=timestamp(self._clock)).put(uid=new_uid(), replaces=self._known),)
