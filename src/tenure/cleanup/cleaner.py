"""Walks the plan until nothing remains, or the policy gives up. Each row may be walked again at any time.

Promise (I9): after any interruption the next walk goes on, and a further walk changes nothing. A failed removal is
reported, and tried again by the policy; meanwhile the other rows go on. A row is listed first, and then the store is
asked whether the term stands. So everything that is removed, however late, existed while the term stood, and no later
leader made it. Not promised: that a fenced leader puts nothing there again; the next walk removes that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.cleanup.plan import PLAN, Cleanable, Row, awaited
from tenure.clock import Clock
from tenure.coordination.election import Flag, When
from tenure.coordination.term import Term
from tenure.errors import Corrupt, HandleLocked, StorageError, StoreError
from tenure.events import CleanupDelayed, CleanupEnded, Events
from tenure.progress import EVENT_S, CleanupProgress, Paced, Progress, Step, unseen
from tenure.retry import RetryPolicy

CANNOT = (Corrupt, HandleLocked, StorageError, StoreError)
"""The errors that keep a single thing from being removed; any other error ends the cleanup."""

LISTING = "the listing"
"""The name of the remainder of a row that could not be listed."""

STOPPED = "the walk was stopped"
"""The reason of a remainder that nobody tried to remove."""

LOOK_S: Final = 0.2
"""How often a waiting cleanup looks whether it shall stop."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """A thing that was not removed."""

    row: str
    name: str
    why: str


def stop_or_lost(stop: Flag, term: Term) -> Flag:
    """Set when `stop` is set, or the term is over."""
    return When(lambda: stop.is_set() or term.lost)


def pause(seconds: float, *, over: Flag, clock: Clock) -> bool:
    """Wait for that time, or until `over` is set; return whether the cleanup shall go on."""
    end_s = clock.monotonic_s() + seconds
    while not over.is_set():
        remaining_s = end_s - clock.monotonic_s()
        if remaining_s <= 0:
            return True
        clock.sleep(min(remaining_s, LOOK_S))
    return False


class Cleaner:
    """Walks `PLAN` over `cleanables`, which are named as its rows. Used by one thread."""

    def __init__(
        self,
        cleanables: Mapping[str, Cleanable],
        *,
        check: Callable[[Term], None],
        scope: str,
        policy: RetryPolicy,
        clock: Clock,
        events: Events,
    ) -> None:
        """`check` asks the store whether a term stands, and raises TermLost."""
        unknown = set(cleanables) - {row.name for row in PLAN}
        assert not unknown, f"no row of the plan is called {unknown}"
        self._cleanables = cleanables
        self._check = check
        self._scope = scope
        self._policy = policy
        self._clock = clock
        self._events = events

    def run(self, term: Term, *, stop: Flag) -> Sequence[Remainder]:
        """Clean until nothing remains, `stop` is set or the policy gives up. Return the remainders. Raises TermLost."""
        began_s = self._clock.monotonic_s()

        def tell(step: Step) -> None:
            event = CleanupProgress(self._scope, row=step.what, removed=int(step.done), of=int(step.of or 0))
            self._events.emit(event)

        told = Paced(tell, every_s=EVENT_S, clock=self._clock)
        delays = self._policy.delays_s()
        removed = 0
        while True:
            gone, remaining = self.walk(term, stop=stop, told=told)
            count, first = len(remaining), first_in_words(remaining)
            removed += gone
            again_s = next(delays, None) if remaining else None
            if again_s is None or stop.is_set():
                break
            self._events.emit(CleanupDelayed(self._scope, left=count, first=first, again_s=round(again_s, 1)))
            pause(again_s, over=stop, clock=self._clock)
        if not stop.is_set():
            seconds = self._clock.monotonic_s() - began_s
            self._events.emit(CleanupEnded(self._scope, removed=removed, left=count, first=first, seconds=seconds))
        return remaining

    def walk(
        self,
        term: Term,
        *,
        stop: Flag,
        on_found: Callable[[str, int], None] = lambda row, count: None,
        told: Progress = unseen,
    ) -> tuple[int, list[Remainder]]:
        """Walk over all rows once; return the number of removed things, and the remainders. `on_found` is called with
        each row and its number of things, before any of them is removed; `told` after each thing. Raises TermLost."""
        removed = 0
        remaining: list[Remainder] = []
        for row in PLAN:
            if row.name not in self._cleanables:
                continue
            waits_for = awaited(row, remaining={remainder.row for remainder in remaining})
            if waits_for:
                remaining.append(Remainder(row.name, row.what, f"it waits for {' and '.join(waits_for)}"))
                continue
            for remainder in self._walk_row(row, term, stop, on_found, told):
                if remainder is None:
                    removed += 1
                else:
                    remaining.append(remainder)
            if stop.is_set():
                break
        return removed, remaining

    def _walk_row(
        self, row: Row, term: Term, stop: Flag, on_found: Callable[[str, int], None], told: Progress
    ) -> Iterator[Remainder | None]:
        """The outcome for each thing in a row; None: it is gone."""
        cleanables = self._cleanables[row.name]
        try:
            names = cleanables.find()
            if names:
                self._check(term)
                on_found(row.name, len(names))
        except CANNOT as failed:
            yield Remainder(row.name, LISTING, str(failed))
            return
        for number, name in enumerate(names):
            told(Step(row.name, number, len(names), "things"))
            if stop.is_set():
                yield Remainder(row.name, row.what, STOPPED)
                return
            try:
                cleanables.remove(term, name)
            except CANNOT as failed:
                yield Remainder(row.name, name, str(failed))
            else:
                yield None


def first_in_words(remaining: Sequence[Remainder]) -> str:
    """The first remainder, for people; empty: nothing remains."""
    return f"{remaining[0].row}: {remaining[0].name} ({remaining[0].why})" if remaining else ""


class Combined:
    """Things of one kind in several places, as one row. A name begins with its place. Used by one thread."""

    def __init__(self, places: Mapping[str, Cleanable]) -> None:
        self._places = places

    def find(self) -> Sequence[str]:
        """The things in all places. Raises the error of the first place that cannot be listed."""
        return [f"{place}: {name}" for place, cleanables in self._places.items() for name in cleanables.find()]

    def remove(self, term: Term, name: str) -> None:
        place, _, inner = name.partition(": ")
        self._places[place].remove(term, inner)
