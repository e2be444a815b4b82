"""The work of a driver, done only where the storage is that of the store.

Promise (I10): it is compared after each grant, before anything is read or planned under the term, and in each sweep; a
leadership whose sweep finds another owner ends, with that error. A refusal is an OwnerMismatch, on which the agent
resigns and ends: the next grant would end the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tenure.coordination.term import Term
from tenure.driver.serving import Work
from tenure.errors import OwnerMismatch
from tenure.link.lifecycle import Ended
from tenure.link.words import Pulse
from tenure.ownership.owner import Owner


class OwnedWork:
    """A `Work` around another one, which calls `look` before each of its sweeps."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._around: Work | None = None  # None: around none yet
        self._lock = threading.Lock()  # guards the two below, which the sweeping thread sets, or uses
        self._stop: threading.Event | None = None  # None: it does not lead
        self._refused: OwnerMismatch | None = None  # None: nothing spoke against the leadership

    def around(self, work: Work) -> OwnedWork:
        """The same, around this work."""
        self._around = work
        return self

    @property
    def _work(self) -> Work:
        assert self._around is not None, "it is around no work yet"
        return self._around

    def prepare(self) -> Mapping[str, float]:
        """As `Work`."""
        return self._work.prepare()

    def stand_by(self) -> None:
        """As `Work`."""
        self._work.stand_by()

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        """As `Work`. Raises OwnerMismatch too."""
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
        """As `Work`. Raises OwnerMismatch too."""
        self._owner.check()
        return self._work.clean(term, stop=stop)

    def pulse(self) -> Pulse:
        """As `Work`."""
        return self._work.pulse()

    def close(self) -> None:
        """As `Work`."""
        self._work.close()

    def look(self) -> None:
        """Compare, before a sweep; on a refusal the leadership ends. Raises OwnerMismatch, and what kept it from being
        compared."""
        try:
            self._owner.check()
        except OwnerMismatch as refused:
            with self._lock:
                self._refused = refused
                if self._stop is not None:
                    self._stop.set()
            raise
