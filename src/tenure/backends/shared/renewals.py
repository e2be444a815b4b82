"""Which sessions renew, where a session is a row that its owner counts up.

Promise: a session counts as dead when this observer has read the same number of renewals for the whole ttl on its own
clock. No wall clock and no time of another process takes part. So an observer waits a full ttl after its first look,
and never ends a session too early. The observer is the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tenure.clock import Clock, SystemClock
from tenure.coordination.records import SessionId


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the database has it."""

    id: SessionId
    ttl_s: float
    renewals: int


Row = TypeVar("Row", bound=SessionRow)


class Sightings:
    """The renewals that the observers of this process have read. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[SessionId, tuple[int, float]] = {}  # guarded by _lock

    def note(self, session: SessionId, renewals: int, *, at_s: float) -> None:
        """Note that this process opened or renewed the session, in a transaction that began at `at_s`."""
        with self._lock:
            self._seen[session] = (renewals, at_s)

    def overdue(self, rows: Sequence[Row], *, asked_at_s: float, answered_at_s: float) -> list[Row]:
        """The sessions that did not renew for their ttl. A new number counts from after the answer, a known number is
        judged before the question: a pause of the observer never ends a session too early."""
        with self._lock:
            for row in rows:
                known = self._seen.get(row.id)
                if known is None or known[0] != row.renewals:
                    self._seen[row.id] = (row.renewals, answered_at_s)
            return [row for row in rows if asked_at_s >= self._seen[row.id][1] + row.ttl_s]

    def keep(self, rows: Sequence[SessionRow]) -> None:
        """Forget all sessions but these, which are all that there are."""
        living = {row.id for row in rows}
        with self._lock:
            self._seen = {session: seen for session, seen in self._seen.items() if session in living}


_SIGHTINGS: Final[dict[Hashable, Sightings]] = {}


def sightings_of(database: Hashable, clock: Clock) -> Sightings:
    """The sightings of a database on a clock, which outlive its stores: a caller that opens the store again and again,
    each time for less than a ttl, notices a stopped member all the same. A forked child begins without them."""
    machine = type(clock) is SystemClock  # all of them show one time
    return _SIGHTINGS.setdefault((database, None if machine else clock), Sightings())


os.register_at_fork(after_in_child=_SIGHTINGS.clear)
