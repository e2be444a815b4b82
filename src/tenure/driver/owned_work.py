"""The work of a driver, done only where the storage belongs to the store's scope.

Promise (I10): the owners are compared after each grant, before anything is read or planned under the term, and in each
sweep. A leadership whose sweep sees another owner ends with that error. A refusal is an OwnerMismatch, on which the
agent resigns and ends: the next grant would end the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from tenure.coordination.term import Term
from tenure.driver.serving import Work
from tenure.errors import OwnerMismatch
from tenure.link.lifecycle import Ended
from tenure.link.words import Pulse
from tenure.ownership.owner import Owner


class OwnedWork:
    """A `Work` that checks the owner, and leaves all else to an inner `Work`."""

    def __init__(self, owner: Owner, *, around: Callable[[Callable[[], None]], Work]) -> None:
        """`around` makes the inner work, which calls its argument before each of its sweeps."""
        self._owner = owner
        self._work = around(self.look)
        self._lock = threading.Lock()  # guards the two below, which the sweeping thread uses, too
        self._stop: threading.Event | None = None  # None: no leadership
        self._refused: OwnerMismatch | None = None  # None: the owners agree

    def prepare(self) -> Mapping[str, float]:
        return self._work.prepare()

    def stand_by(self) -> None:
        self._work.stand_by()

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        """As `Work.lead`. Raises OwnerMismatch, too."""
        self._owner.own(term)
        with self._lock:
            self._stop, self._refused = stop, None
        ended = self._work.lead(term, stop=stop, finish=finish)
        with self._lock:
            self._stop = None
            if self._refused is not None and not term.lost:
                raise self._refused
        return ended

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        """As `Work.clean`. Raises OwnerMismatch, too."""
        self._owner.check()
        return self._work.clean(term, stop=stop)

    def pulse(self) -> Pulse:
        return self._work.pulse()

    def close(self) -> None:
        self._work.close()

    def look(self) -> None:
        """Compare the owners before a sweep. Raises OwnerMismatch, which also ends the leadership; any error of the
        comparison."""
        try:
            self._owner.check()
        except OwnerMismatch as refused:
            with self._lock:
                self._refused = refused
                if self._stop is not None:
                    self._stop.set()
            raise
