"""What this process has seen of the sessions of a store, for longer than a client of the store is open.

Promise: an observer goes on where an observer of the same process left off, as long as the Lease is still in the state
that it saw. So a process that looks for less than the ttl, again and again, sees a death. Between two observers nobody
looks, and `Silence` counts that time as between two looks. A forked child begins anew.
"""

from __future__ import annotations

import os
import threading
from copy import copy
from typing import Final

from tenure.backends.kubernetes.silence import Silence
from tenure.backends.kubernetes.url import Place
from tenure.coordination.records import Scope, SessionId

_KEPT_S: Final = 3600.0
"""After this time, and the ttl, without a look a sighting is forgotten."""


class Sightings:
    """The silences of the sessions of a store, and when its remains are due to be removed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two below
        self._silences: dict[SessionId, Silence] = {}
        self._due: dict[tuple[SessionId, Scope | None], float] = {}

    def silence(self, session: SessionId, version: str, *, ttl_s: float, now_s: float) -> Silence:
        """The silence of a session whose Lease has this version: as it was last noted, else it begins now."""
        with self._lock:
            self._forget_old(now_s)
            known = self._silences.get(session)
            if known is None or known.version != version or known.ttl_s != ttl_s:
                known = self._silences[session] = Silence(version, ttl_s, now_s)
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


_of_places: dict[Place, Sightings] = {}


def sightings_of(place: Place) -> Sightings:
    """The sightings of this process at a place. Names of sessions are random, so it does no harm if the place has
    become another cluster meanwhile."""
    return _of_places.setdefault(place, Sightings())  # one step of the interpreter


os.register_at_fork(after_in_child=_of_places.clear)
