"""Sweeps beside the batches of a leader: what dead leaders and members left goes, as long as the term is held.

Promise: no batch waits for it: it has a thread of its own, begins when `ready` says so, and an error of it is an event.
It looks again by the policy, failed or not, since a run directory is named until its checkpoints are dropped, and a
fenced leader may leave something at any time. Not promised: that `stop` waits for a removal that has
begun; that is harmless at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from tenure.cleanup.cleaner import LOOK_S, STOPPED, Cleaner, Left, StopOrLost, pause, told
from tenure.clock import Clock
from tenure.coordination.election import Flag
from tenure.coordination.term import Term
from tenure.errors import OwnerMismatch, TermLost
from tenure.events import Events, OrphansFound, Swept
from tenure.retry import RetryPolicy, exponential_delay
from tenure.wording import sentence

LOOKS = exponential_delay(initial=timedelta(seconds=1), maximum=timedelta(hours=1))
"""How long after each sweep the next one is."""


class Sweeper:
    """The sweeps of one term. Used by one thread, and has one."""

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
        """`look_first` raises what speaks against any sweep: OwnerMismatch is the last word, other errors are of this
        one. `policy`: without delays there is one."""
        self._cleaner = cleaner
        self._term = term
        self._look_first = look_first
        self._policy = policy
        self._clock = clock
        self._events = events
        self._stopped = threading.Event()
        self._turn = threading.Lock()  # held by the one sweep that goes on, guards the next one
        self._left = 0  # how much the last sweep left

    def start(self, *, ready: Callable[[], bool]) -> None:
        """Begin once `ready()` is true, in a thread that ends with `stop` or with the term."""
        threading.Thread(target=self._run, args=(ready,), name="tenure-sweep", daemon=True).start()

    def stop(self) -> None:
        """Begin no further removal."""
        self._stopped.set()

    def last(self, *, stop: Flag) -> None:
        """After `stop()`: sweep once more, in this thread, until `stop` is set or the term is over. A pipeline that is
        run now and then, and ends each time, would never be swept otherwise. Raises OwnerMismatch."""
        with suppress(TermLost):
            self._sweep(StopOrLost(stop, self._term))

    def _run(self, ready: Callable[[], bool]) -> None:
        over = StopOrLost(self._stopped, self._term)
        while not ready():
            if not pause(LOOK_S, over=over, clock=self._clock):
                return
        delays = self._policy.delays_s()
        while not over.is_set():
            try:
                self._sweep(over)
            except (TermLost, OwnerMismatch):  # who looks first has told the latter, and ends the leadership
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
            removed, left = self._walk(over, found)
            before, self._left = self._left, len(left)
        finally:
            self._turn.release()
        if removed or left or before:
            seconds = self._clock.monotonic_s() - began_s
            swept = Swept(scope, epoch=epoch, removed=removed, left=len(left), first=told(left), seconds=seconds)
            self._events.emit(swept)

    def _walk(self, over: Flag, found: Callable[[str, int], None]) -> tuple[int, list[Left]]:
        """How much went, and what is left; what nobody tried to remove is neither. Raises TermLost, OwnerMismatch."""
        try:
            self._look_first()
            removed, left = self._cleaner.walk(self._term, stop=over, on_found=found)
        except (TermLost, OwnerMismatch):
            raise
        except Exception as error:  # noqa: BLE001 - a storage's client raises what it likes, and no batch depends on it
            return 0, [Left("storage", "what is there", sentence(str(error)) or type(error).__name__)]
        return removed, [one for one in left if one.why != STOPPED]
