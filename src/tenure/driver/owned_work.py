"""The work of a driver, done only where the storage belongs to the store's scope.

Promise (I10): the owners are compared after each grant, before anything is read or planned under the term, and in each
sweep. While batches run, the marks are compared once a ttl, too: somebody may go on with this storage from another
store (`tenure adopt --lost-store`). A leadership that sees another owner ends with that error. A refusal is an
OwnerMismatch, on which the agent resigns and ends: the next grant would end the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from tenure.cleanup.cleaner import pause, stop_or_lost
from tenure.clock import Clock
from tenure.coordination.election import Flag
from tenure.coordination.term import Term
from tenure.errors import OwnerMismatch, TenureError
from tenure.link.driver import Ended, Work
from tenure.link.words import Pulse
from tenure.ownership.owner import Owner


class OwnedWork:
    """A `Work` that checks the owner, and leaves all else to an inner `Work`."""

    def __init__(
        self, owner: Owner, *, around: Callable[[Callable[[], None]], Work], every: timedelta, clock: Clock
    ) -> None:
        """`around` makes the inner work, which calls its argument before each of its sweeps. `every`: how often the
        marks are compared while batches run."""
        self._owner = owner
        self._every_s = every.total_seconds()
        self._clock = clock
        self._work = around(self.look)
        self._lock = threading.Lock()  # guards the two below, which the sweeping thread uses, too
        self._stop: threading.Event | None = None  # None: no leadership
        self._refused: OwnerMismatch | None = None  # None: the owners agree

    def prepare(self) -> Mapping[str, float]:
        return self._work.prepare()

    def stand_by(self) -> None:
        self._work.stand_by()

    def elected(self) -> None:
        self._work.elected()

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        """As `Work.lead`. Raises OwnerMismatch, too."""
        self._owner.own(term)
        with self._lock:
            self._stop, self._refused = stop, None
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(stop_or_lost(over, term),), name="tenure-owner", daemon=True)
        watch.start()
        try:
            ended = self._work.lead(term, stop=stop, finish=finish)
        finally:
            over.set()
        with self._lock:
            self._stop = None
            refused = self._refused
        if refused is None:
            return ended
        if term.lost:
            return Ended.LOST  # nobody asked this member to stop: the next grant compares the owners again
        raise refused

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        """As `Work.clean`. Raises OwnerMismatch, too."""
        self._owner.check()
        return self._work.clean(term, stop=stop)

    def pulse(self) -> Pulse:
        return self._work.pulse()

    def close(self) -> None:
        self._work.close()

    def begun(self) -> Sequence[int | None]:
        return self._work.begun()

    def look(self) -> None:
        """Compare the owners before a sweep. Raises OwnerMismatch, which also ends the leadership; any error of the
        comparison."""
        self._compare(self._owner.check)

    def _watch(self, over: Flag) -> None:
        """Compare the marks from time to time, as long as batches run: an idle leader asks nobody."""
        seen: Sequence[int | None] = ()
        while pause(self._every_s, over=over, clock=self._clock):
            before, seen = seen, self._work.begun()
            if None not in seen and seen == before:
                continue
            try:
                self._compare(self._owner.check_marks)
            except OwnerMismatch:
                return
            except TenureError:
                continue  # a store or storage that is away is noticed by the batches

    def _compare(self, check: Callable[[], object]) -> None:
        try:
            check()
        except OwnerMismatch as refused:
            with self._lock:
                self._refused = refused
                if self._stop is not None:
                    self._stop.set()
            raise
