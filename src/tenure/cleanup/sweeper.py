"""Sweeps beside the batches of a leader: removes the orphans of dead leaders and members while the term is held.

Promise: no batch waits for a sweep. Sweeps have a thread of their own, begin once `ready` returns true, and turn errors
into events. They are repeated by the policy, after a failure or not, since a run directory is named until its
checkpoints are dropped, and a fenced leader may write orphans at any time. Not promised: that `stop` waits for a
removal that has begun, which is harmless at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from tenure.cleanup.cleaner import LOOK_S, STOPPED, Cleaner, Remainder, first_in_words, pause, stop_or_lost
from tenure.clock import Clock
from tenure.coordination.election import Flag
from tenure.coordination.term import Term
from tenure.errors import OwnerMismatch, TermLost
from tenure.events import Events, OrphansFound, Swept
from tenure.retry import RetryPolicy, exponential_delay
from tenure.wording import sentence

LOOKS = exponential_delay(initial=timedelta(seconds=1), maximum=timedelta(hours=1))
"""The time from each sweep to the next."""


class Sweeper:
    """The sweeps of one term. Used by one thread, and has a thread of its own."""

    def __init__(
        self,
        cleaner: Cleaner,
        term: Term,
        *,
        look_first: Callable[[], None] = lambda: None,
        policy: RetryPolicy = LOOKS,
        clock: Clock,
        events: Events,
    ) -> None:
        """`look_first` raises OwnerMismatch to end all sweeps, any other error to prevent the present sweep. `policy`:
        without delays there is a single sweep."""
        self._cleaner = cleaner
        self._term = term
        self._look_first = look_first
        self._policy = policy
        self._clock = clock
        self._events = events
        self._stopped = threading.Event()
        self._turn = threading.Lock()  # held by a sweep; guards `_remaining`
        self._remaining = 0  # remainders of the last sweep

    def start(self, *, ready: Callable[[], bool]) -> None:
        """Begin once `ready()` is true, in a thread that ends with `stop` or with the term."""
        threading.Thread(target=self._run, args=(ready,), name="tenure-sweep", daemon=True).start()

    def stop(self) -> None:
        """Begin no further removal."""
        self._stopped.set()

    def last(self, *, stop: Flag) -> None:
        """After `stop()`: sweep once more, in this thread, until `stop` is set or the term is over. Without this, a
        pipeline that runs for a short time now and then would never be swept. Raises OwnerMismatch."""
        with suppress(TermLost):
            self._sweep(stop_or_lost(stop, self._term))

    def _run(self, ready: Callable[[], bool]) -> None:
        over = stop_or_lost(self._stopped, self._term)
        while not ready():
            if not pause(LOOK_S, over=over, clock=self._clock):
                return
        delays = self._policy.delays_s()
        while not over.is_set():
            try:
                self._sweep(over)
            except (TermLost, OwnerMismatch):  # with the latter, `look_first` ends the leadership
                return
            again_s = next(delays, None)
            if again_s is None or not pause(again_s, over=over, clock=self._clock):
                return

    def _sweep(self, over: Flag) -> None:
        """One sweep. Raises TermLost, OwnerMismatch."""
        scope, epoch = self._term.scope, self._term.epoch
        began_s = self._clock.monotonic_s()

        def found(row: str, count: int) -> None:
            self._events.emit(OrphansFound(scope, epoch=epoch, row=row, count=count))

        while not self._turn.acquire(timeout=LOOK_S):
            if over.is_set():
                return
        try:
            removed, remaining = self._walk(over, found)
            before, self._remaining = self._remaining, len(remaining)
        finally:
            self._turn.release()
        if removed or remaining or before:
            count, first, seconds = len(remaining), first_in_words(remaining), self._clock.monotonic_s() - began_s
            self._events.emit(Swept(scope, epoch=epoch, removed=removed, left=count, first=first, seconds=seconds))

    def _walk(self, over: Flag, found: Callable[[str, int], None]) -> tuple[int, list[Remainder]]:
        """The number of removed things, and the remainders without those that nobody tried to remove. Raises TermLost,
        OwnerMismatch."""
        try:
            self._look_first()
            removed, remaining = self._cleaner.walk(self._term, stop=over, on_found=found)
        except (TermLost, OwnerMismatch):
            raise
        except Exception as error:  # noqa: BLE001 - a storage's client raises any error, and no batch depends on it
            return 0, [Remainder("storage", "the sweep", sentence(str(error)) or type(error).__name__)]
        return removed, [remainder for remainder in remaining if remainder.why != STOPPED]
