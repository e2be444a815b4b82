"""What a member adds to the records of its terms, for people: how the queries began, and an end that it told late.

Promise: nothing here is on the way of a batch, and nothing waits for it. The record is written once after the first
batch of each query, by the thread that watches over the office. A store that refuses a write costs the line alone.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tenure.checkpoints.store import planned_last
from tenure.clock import Clock, timestamp
from tenure.coordination.records import Record
from tenure.coordination.term import Term
from tenure.coordination.term_records import OwnTerms
from tenure.coordination.terms import Opening
from tenure.errors import Corrupt, StoreError, TermLost
from tenure.events import BatchCommitted, CheckpointSaved, Event, QueryStarted, RunDirectorySeeded


class Openings:
    """A subscriber. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the fields below
        self._epoch = 0
        self._known: dict[str, Opening] = {}
        self._is_news = False

    def __call__(self, event: Event) -> None:
        """Note a step of a query. Its first batch completes the opening."""
        if not isinstance(event, (RunDirectorySeeded, QueryStarted, CheckpointSaved, BatchCommitted)):
            return
        now = timestamp(self._clock)
        with self._lock:
            if event.epoch != self._epoch:
                self._epoch, self._known, self._is_news = event.epoch, {}, False
            known = self._known.get(event.query, Opening())
            match event:
                case RunDirectorySeeded():
                    seconds = round(event.seconds, 3)
                    known = replace(known, seeded_at=now, seed_s=seconds, files=event.files, mirrored=event.mirrored)
                case QueryStarted():
                    known = replace(known, started_at=now)
                case CheckpointSaved():
                    known = replace(known, planned_at=known.planned_at or now)
                case BatchCommitted():
                    self._is_news = self._is_news or not known.committed_at
                    known = replace(known, committed_at=known.committed_at or now)
            self._known[event.query] = known

    def news(self, epoch: int) -> Mapping[str, Opening] | None:
        """The queries of the term, once after the first batch of each; None: there is nothing new."""
        with self._lock:
            if epoch != self._epoch or not self._is_news:
                return None
            self._is_news = False
            return dict(self._known)


class Telling:
    """Adds to the records of the terms of one member."""

    def __init__(self, own: OwnTerms, openings: Openings | None) -> None:
        self._own = own
        self._openings = openings
        self._untold: tuple[int, str] | None = None  # epoch and end of an own term, if the store does not have it

    def look(self, term: Term) -> None:
        """As a leader: record how the queries began, if there is something new."""
        found = None if self._openings is None else self._openings.news(term.epoch)
        if found is not None:
            with suppress(TermLost, StoreError):
                self._own.note_openings(term, found)

    def over(self, epoch: int, *, untold: str) -> None:
        """A term is over. `untold`: how, if the store does not have it; empty: the store has it."""
        self._untold = (epoch, untold) if untold else None

    def tell_late(self) -> None:
        """In a new session: add to the record of the last term an end that the store did not take then."""
        untold, self._untold = self._untold, None
        if untold is not None:
            with suppress(StoreError):
                self._own.note_end(*untold)


def last_write(records: Sequence[Record], epoch: int) -> str:
    """When the newest batch of an epoch was planned; empty: not known. A damaged checkpoint is the driver's to
    refuse."""
    with suppress(Corrupt):
        return planned_last(records, epoch)
    return ""
