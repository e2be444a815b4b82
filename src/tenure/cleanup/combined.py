"""Several cleanables as one row of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.cleanable import Cleanable
from tenure.coordination.term import Term


class Combined:
    """Cleanable of one kind in several places; a name says in which. Used by one thread."""

    def __init__(self, places: Mapping[str, Cleanable]) -> None:
        self._places = places
        self._found: dict[str, tuple[Cleanable, str]] = {}

    def find(self) -> Sequence[str]:
        """What is in all places. Raises what the first one raises that cannot be looked at."""
        self._found = {
            f"{place}: {name}": (cleanables, name)
            for place, cleanables in self._places.items()
            for name in cleanables.find()
        }
        return list(self._found)

    def remove(self, term: Term, name: str) -> None:
        """Remove one that was found the last time."""
        cleanables, inner = self._found[name]
        cleanables.remove(term, inner)
