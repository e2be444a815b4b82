"""How long each session of a store has been silent, as this process may count it, for longer than a client is open.

Promise: `Silence` is pure. A session is dead once the observer has seen the same state of its object for the whole ttl,
on its own monotonic clock. No wall clock and no time of another process takes part. Time in which the observer could
not read, or did not look, does not count: between two looks at most half of the ttl counts, and nothing while a look
fails. So an observer that was stopped, or cut off from the server, never ends a session that renews when it can.

An observer goes on where an observer of the same process left off, as long as the object is still in the state that it
saw (`Sightings`). So a process that looks for less than the ttl, again and again, sees a death. Between two observers
nobody looks, and `Silence` counts that time as between two looks. A forked child begins anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from copy import copy
from dataclasses import dataclass
from typing import Final

from tenure.coordination.records import Scope, SessionId

_FIRST = 0.5
"""The share of the ttl after which an observer that hears of renewals asks for the object. Who lives renews at a third
of the ttl."""
_MOST = 0.5
"""The share of the ttl that counts at most between two looks."""
_NEXT = 0.25
_AGAIN_S = 0.5
"""The pause after a look that failed."""


@dataclass(slots=True)
class Silence:
    """The silence of one session since it was seen to renew. `version`: of its object, compared by equality only."""

    version: str
    ttl_s: float
    seen_s: float
    """When the version was seen first, or confirmed last."""
    first: float = _FIRST
    """The share of the ttl after which the observer looks again."""
    counted_s: float = 0.0
    next_look_s: float = 0.0

    def __post_init__(self) -> None:
        self.next_look_s = self.seen_s + self.first * self.ttl_s

    def confirmed(self, *, asked_s: float, answered_s: float) -> None:
        """A look has shown the same version again."""
        self.counted_s += max(0.0, min(asked_s - self.seen_s, _MOST * self.ttl_s))
        self.seen_s = answered_s
        rest_s = self.ttl_s - self.counted_s
        self.next_look_s = answered_s + min(max(rest_s, 0.0), min(self.first, _NEXT) * self.ttl_s)

    def interrupted(self, *, at_s: float) -> None:
        """A look has failed: the time since the last look does not count."""
        self.seen_s = at_s
        self.next_look_s = at_s + min(_AGAIN_S, _NEXT * self.ttl_s)

    @property
    def is_death(self) -> bool:
        """Whether the whole ttl has passed in silence."""
        return self.counted_s >= self.ttl_s - 1e-6


_KEPT_S: Final = 3600.0
"""After this time, and the ttl, without a look a sighting is forgotten."""


class Sightings:
    """The silences of the sessions of a store, and when its remains are due to be removed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two below
        self._silences: dict[SessionId, Silence] = {}
        self._due: dict[tuple[SessionId, Scope | None], float] = {}

    def silence(
        self, session: SessionId, version: str, *, ttl_s: float, now_s: float, first: float = _FIRST
    ) -> Silence:
        """The silence of a session whose object has this version: as it was last noted, else it begins now."""
        with self._lock:
            self._forget_old(now_s)
            known = self._silences.get(session)
            if known is None or known.version != version or known.ttl_s != ttl_s:
                known = self._silences[session] = Silence(version, ttl_s, now_s, first)
            return copy(known)

    def note(self, session: SessionId, silence: Silence) -> None:
        """Note the silence after a look."""
        with self._lock:
            self._silences[session] = copy(silence)

    def due(self, session: SessionId, scope: Scope | None = None, *, at_s: float, now_s: float) -> float:
        """When the remains of a session in the scope, or in all its scopes, are to be removed: as it was said first."""
        with self._lock:
            self._forget_old(now_s)
            return self._due.setdefault((session, scope), at_s)

    def done(self, session: SessionId, scope: Scope | None = None) -> None:
        """Forget the remains of a session in the scope; without a scope, also the session."""
        with self._lock:
            self._due.pop((session, scope), None)
            if scope is None:
                self._silences.pop(session, None)

    def _forget_old(self, now_s: float) -> None:
        for session, silence in list(self._silences.items()):
            if now_s - silence.seen_s > _KEPT_S + silence.ttl_s:
                del self._silences[session]
        for what, at_s in list(self._due.items()):
            if now_s - at_s > _KEPT_S:
                del self._due[what]


_of_places: dict[Hashable, Sightings] = {}


def sightings_of(place: Hashable) -> Sightings:
    """The sightings of this process at a place. Names of sessions are random, so it does no harm if the place has
    become another cluster meanwhile."""
    return _of_places.setdefault(place, Sightings())  # one step of the interpreter


os.register_at_fork(after_in_child=_of_places.clear)
