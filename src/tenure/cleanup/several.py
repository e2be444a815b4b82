"""Several leavings as one row of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.cleanup.cleaner import Leavings
from tenure.coordination.term import Term


class Several:
    """Leavings of one kind in several places; a name says in which. Used by one thread."""

    def __init__(self, places: Mapping[str, Leavings]) -> None:
        self._places = places
        self._found: dict[str, tuple[Leavings, str]] = {}

    def find(self) -> Sequence[str]:
        """What is in all places. Raises what the first one raises that cannot be looked at."""
        self._found = {
            f"{place}: {name}": (leavings, name) for place, leavings in self._places.items() for name in leavings.find()
        }
        return list(self._found)

    def remove(self, term: Term, name: str) -> None:
        """Remove one that was found the last time."""
        leavings, inner = self._found[name]
        leavings.remove(term, inner)
