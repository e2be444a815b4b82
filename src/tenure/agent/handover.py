"""After a resignation on a signal: did another member take office?

Promise: a member that has resigned looks for its successor for a bounded time, also when the store hangs, and returns
one event about it. The look ends early when a member has taken office, when nobody can, or at a second signal. It
writes nothing and holds no session, so it cannot delay the successor. Not promised: that the successor leads for long.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Final

from tenure.agent.handover_rules import NoSuccessor, Successor, find_successor
from tenure.clock import Clock
from tenure.coordination.election import Flag
from tenure.coordination.reading import read_again, wait_for_change
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import CorruptRecord, StoreError
from tenure.events import Event, HandedOver, NobodyTookOver, SuccessorUnknown

AT_MOST: Final = timedelta(seconds=5)
"""How long a look lasts at most. Orchestrators leave 30 s in all."""

_SHARE: Final = 4

_TURN: Final = timedelta(milliseconds=200)
"""How often the records are read when no change is reported."""

_SILENCE_S: Final = 1.0
"""A read without an answer for so long makes an earlier answer too old; nobody waits longer for a store that hangs."""

_WAIT_S: Final = 0.02


def patience_for(stop_patience: timedelta) -> timedelta:
    """How long a look may last where the queries may take `stop_patience` to stop: a quarter of it, at most 5 s."""
    return min(stop_patience / _SHARE, AT_MOST)


class Handover:
    """The look of one member for its successor. Used by one thread."""

    def __init__(
        self, store: CoordinationStore, scope: Scope, *, member: str, at_most: timedelta, clock: Clock
    ) -> None:
        self._store = store
        self._scope = scope
        self._member = member
        self._at_most = at_most
        self._clock = clock
        self._resigned: tuple[int, float] | None = None  # None: no term was resigned on a signal

    def resigned(self, epoch: int) -> None:
        """Note that the member has just resigned the term `epoch`, as it was asked to stop."""
        self._resigned = (epoch, self._clock.monotonic_s())

    def outcome(self, *, hurry: Flag) -> Event | None:
        """Look for the successor until `hurry` is set, and return the event to emit; None: no term was resigned."""
        if self._resigned is None:
            return None
        epoch, resigned_s = self._resigned
        began_s = self._clock.monotonic_s()
        look = _Look(
            self._store, self._scope, member=self._member, epoch=epoch, at_most=self._at_most, clock=self._clock
        )
        hurried = look.wait(until_s=began_s + self._at_most.total_seconds(), hurry=hurry)
        waited_s = min(self._clock.monotonic_s() - began_s, self._at_most.total_seconds())
        match look.found:
            case Successor() as next_leader:
                seconds = look.found_s - resigned_s
                return HandedOver(self._scope, to=next_leader.member, epoch=next_leader.epoch, seconds=seconds)
            case NoSuccessor() as nobody if look.failed is None and not look.silent:
                why = "a second signal ended the look" if hurried else nobody.why
                standbys = ", ".join(nobody.standbys)
                waited_s = 0.0 if nobody.final else waited_s
                return NobodyTookOver(self._scope, epoch=epoch, why=why, standbys=standbys, waited_s=waited_s)
        why = "a second signal ended the look" if hurried else look.failed or "the store does not answer"
        return SuccessorUnknown(self._scope, epoch=epoch, why=why)


class _Look:
    """A thread that reads the records until it finds a successor, or that there is none. It is left behind when the
    store hangs."""

    def __init__(
        self,
        store: CoordinationStore,
        scope: Scope,
        *,
        member: str,
        epoch: int,
        at_most: timedelta,
        clock: Clock,
    ) -> None:
        self.found: Successor | NoSuccessor | None = None  # None: the store has not answered yet
        self.found_s = clock.monotonic_s()
        """When `found` was found."""
        self.failed: str | None = None  # None: the store answers
        self._store = store
        self._scope = scope
        self._member = member
        self._epoch = epoch
        self._at_most = at_most
        self._clock = clock
        self._over = threading.Event()
        self._done = threading.Event()
        self._asked_s: float | None = None  # None: no read is under way

    @property
    def silent(self) -> bool:
        """Whether the store leaves a read without an answer."""
        asked_s = self._asked_s
        return asked_s is not None and self._clock.monotonic_s() - asked_s >= _SILENCE_S

    def wait(self, *, until_s: float, hurry: Flag) -> bool:
        """Look until there is an answer, until `until_s`, or until `hurry` is set. Return whether it was hurried."""
        looking = threading.Thread(target=self._run, name="tenure-successor", daemon=True)
        looking.start()
        try:
            while not self._done.is_set() and not hurry.is_set():
                left_s = until_s - self._clock.monotonic_s()
                if left_s <= 0:
                    return False
                self._clock.wait(self._done, timeout_s=min(left_s, _WAIT_S))
            return not self._done.is_set()
        finally:
            self._over.set()
            looking.join(timeout=_SILENCE_S)

    def _run(self) -> None:
        try:
            self._look()
        except (StoreError, CorruptRecord) as failed:
            self.failed = str(failed)
        finally:
            self._done.set()

    def _look(self) -> None:
        revision = Revision(0)
        while not self._over.is_set():
            self._asked_s = self._clock.monotonic_s()
            listing = read_again(
                lambda: self._store.list(self._scope, ""),
                over=self._over.is_set,
                at_most=self._at_most,
                clock=self._clock,
            )
            found = find_successor(listing.records, member=self._member, epoch=self._epoch)
            self.found_s = self._clock.monotonic_s()
            self.found = found
            self._asked_s = None
            if isinstance(found, Successor) or found.final:
                return
            revision = max(revision, listing.revision)
            wait_for_change(self._store, self._scope, after=revision, timeout=_TURN, clock=self._clock)
