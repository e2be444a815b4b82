"""Which server is the database that this process knows, and which is an old primary.

Promise: pure, but for the memory of the process. PostgreSQL gives a cluster one system identifier for its life, and a
new timeline at each promotion. So a server of a lower timeline than was seen before is a primary that another
server has followed. Not promised: that a process knows a promotion that it has not seen. Then synchronous replication
alone keeps an old primary from committing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of one server. `system`: the identifier of its cluster. `started`: when it started, by its own clock;
    compared by equality only. `origin`: the name of the store in its database; empty: there is no store yet."""

    system: str
    timeline: int
    started: str
    origin: str = ""

    @property
    def home(self) -> str:
        """The name of this life: locks that were taken in it go when it ends."""
        return f"{self.system}/{self.timeline}/{self.started}"


@dataclass(frozen=True, slots=True)
class Foreign:
    """Why a server is refused, and the fix."""

    why: str
    fix: str


def judged(known: Incarnation | None, found: Incarnation) -> Foreign | None:
    """Why the server that was found is not the database that is known; None: it is. `known` None: none is."""
    if known is None:
        return None
    if known.system != found.system or (known.origin and found.origin and known.origin != found.origin):
        return Foreign("it has another database than before", "restore the former; for another, restart this process")
    if found.timeline < known.timeline:
        why = f"it is an old primary: its timeline is {found.timeline}, and the database was on {known.timeline} since"
        return Foreign(why, "stop it, and let it follow the new primary")
    return None


class Lineages:
    """The databases as this process has seen them last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _known
        self._known: dict[Hashable, Incarnation] = {}

    def admit(self, place: Hashable, found: Incarnation) -> Foreign | None:
        """Take the server as the database of the place, if it is; else return why not."""
        with self._lock:
            foreign = judged(self._known.get(place), found)
            if foreign is None:
                known = self._known.get(place)
                origin = found.origin or (known.origin if known is not None else "")
                self._known[place] = Incarnation(found.system, found.timeline, found.started, origin)
            return foreign

    def forget(self) -> None:
        """In a forked child: begin anew."""
        self._lock = threading.Lock()
        self._known.clear()


LINEAGES: Final = Lineages()
os.register_at_fork(after_in_child=LINEAGES.forget)
