"""Walks the plan until nothing is left, or the policy gives up. Each row may be walked again at any time.

Promise (I9): whatever stops it, the next walk goes on, and one after the last changes nothing. What cannot be removed
is told, and tried again by the policy; meanwhile the other rows go on. What is there is listed first, and then the
store is asked whether the term stands: so whatever is removed was there while the term stood, however late that
happens, and is nothing that a later leader made. Not promised: that somebody who is fenced does not put something there
again; then the next walk finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.cleanup.plan import PLAN, Cleanable, Row, awaited
from tenure.clock import Clock
from tenure.coordination.election import Flag
from tenure.coordination.term import Term
from tenure.errors import Corrupt, HandleLocked, StorageError, StoreError
from tenure.events import CleanupDelayed, CleanupEnded, Events
from tenure.retry import RetryPolicy

CANNOT = (Corrupt, HandleLocked, StorageError, StoreError)
"""What may keep one thing from being removed; anything else ends the cleanup."""


STOPPED = "the walk was stopped"
"""Why something is left that nobody tried to remove."""

LOOK_S: Final = 0.2
"""How often a cleanup that waits looks whether it shall stop."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something that could not be removed."""

    row: str
    name: str
    why: str


class StopOrLost:
    """Set when it was asked to stop, or the term is over."""

    def __init__(self, stop: Flag, term: Term) -> None:
        self._stop = stop
        self._term = term

    def is_set(self) -> bool:
        return self._stop.is_set() or self._term.lost


def pause(seconds: float, *, over: Flag, clock: Clock) -> bool:
    """Wait for that time, or until `over` is set; return whether the cleanup shall go on."""
    end_s = clock.monotonic_s() + seconds
    while not over.is_set():
        rest_s = end_s - clock.monotonic_s()
        if rest_s <= 0:
            return True
        clock.sleep(min(rest_s, LOOK_S))
    return False


class Cleaner:
    """Walks `PLAN` over `cleanables`, by the names of its rows. Used by one thread."""

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

    def run(self, term: Term, *, stop: Flag) -> Sequence[Left]:
        """Clean until nothing is left, `stop` is set, or the policy gives up; return what is left.

        Raises TermLost: somebody else cleans, or nobody does.
        """
        began_s = self._clock.monotonic_s()
        delays = self._policy.delays_s()
        removed = 0
        while True:
            gone, left = self.walk(term, stop=stop)
            removed += gone
            again_s = next(delays, None) if left else None
            if again_s is None or stop.is_set():
                break
            self._events.emit(CleanupDelayed(self._scope, left=len(left), first=told(left), again_s=round(again_s, 1)))
            pause(again_s, over=stop, clock=self._clock)
        if not stop.is_set():
            seconds = self._clock.monotonic_s() - began_s
            self._events.emit(
                CleanupEnded(self._scope, removed=removed, left=len(left), first=told(left), seconds=seconds)
            )
        return left

    def walk(
        self, term: Term, *, stop: Flag, on_found: Callable[[str, int], None] = lambda row, count: None
    ) -> tuple[int, list[Left]]:
        """One walk over all rows; return how much went, and what is left. `on_found` hears, before anything of a row is
        removed, how much was found in it. Raises TermLost."""
        removed = 0
        left: list[Left] = []
        for row in PLAN:
            if row.name not in self._cleanables:
                continue
            waits_for = awaited(row, left={one.row for one in left})
            if waits_for:
                left.append(Left(row.name, row.what, f"it waits for {' and '.join(waits_for)}"))
                continue
            for step in self._walk_row(row, term, stop, on_found):
                if step is None:
                    removed += 1
                else:
                    left.append(step)
            if stop.is_set():
                break
        return removed, left

    def _walk_row(
        self, row: Row, term: Term, stop: Flag, on_found: Callable[[str, int], None]
    ) -> Iterator[Left | None]:
        """What becomes of each thing in a row: None, it is gone."""
        cleanables = self._cleanables[row.name]
        try:
            names = cleanables.find()
            if names:
                self._check(term)
                on_found(row.name, len(names))
        except CANNOT as failed:
            yield Left(row.name, "what is there", str(failed))
            return
        for name in names:
            if stop.is_set():
                yield Left(row.name, row.what, STOPPED)
                return
            try:
                cleanables.remove(term, name)
            except CANNOT as failed:
                yield Left(row.name, name, str(failed))
            else:
                yield None


def told(left: Sequence[Left]) -> str:
    """The first of what is left, for people; empty: nothing is."""
    return f"{left[0].row}: {left[0].name} ({left[0].why})" if left else ""


class Combined:
    """Things of one kind in several places, as one row; a name says in which place. Used by one thread."""

    def __init__(self, places: Mapping[str, Cleanable]) -> None:
        self._places = places

    def find(self) -> Sequence[str]:
        """What is in all places. Raises what the first one raises that cannot be looked at."""
        return [f"{place}: {name}" for place, cleanables in self._places.items() for name in cleanables.find()]

    def remove(self, term: Term, name: str) -> None:
        place, _, inner = name.partition(": ")
        self._places[place].remove(term, inner)
