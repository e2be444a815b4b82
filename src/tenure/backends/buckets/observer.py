"""The sessions of a store as one client sees them; it ends those that are silent for their ttl.

Promise: a dead session is ended in two steps. First its object is replaced by an ended one, under the tag that was
seen: an owner that renews in between wins, and an owner that renews later learns that it has ended. Only then are its
records removed, scope by scope, and then the object. Every step can be done twice, and by several observers. In each
scope that the object names, the removal writes, even where it finds nothing: so a commit of the session that was
evaluated before is refused by the scope's tag.

Each reader of a scope judges its sessions when a look is due: nothing runs in the background. What an observer has seen
outlives it (`shared/sightings.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from typing import Final

from tenure.backends.buckets import session_object
from tenure.backends.buckets.bucket import Bucket, NotAsSeen, SeenJson
from tenure.backends.buckets.session_object import Json
from tenure.backends.shared.sightings import Sightings, Silence
from tenure.clock import Clock
from tenure.coordination.records import Scope, SessionId
from tenure.errors import CorruptRecord, StoreError

_FIRST: Final = 0.2
"""The share of the ttl between two looks at a session: nobody reports a renewal."""

_ABANDONED: Final = timedelta(days=1)
"""After this time without a renewal, and `_SILENT` times its ttl, a session is ended by any member that starts."""
_SILENT: Final = 100

Remove = Callable[[Scope, SessionId, bool], None]
"""Removes a session and its records from a scope; with True it writes in any case. Raises StoreError."""


def name_of(session: SessionId) -> str:
    """The name of the object of a session."""
    return f"sessions/{session}.json"


class BucketObserver:
    """Judges the sessions of a store. Thread-safe."""

    def __init__(self, bucket: Bucket, *, remove: Remove, sightings: Sightings, clock: Clock) -> None:
        """`sightings`: of this process."""
        self._bucket = bucket
        self._remove = remove
        self._sightings = sightings
        self._clock = clock
        self._judging = threading.Lock()  # held by the thread that judges; other threads go on without
        self._lock = threading.Lock()  # guards the two below
        self._found: dict[SessionId, SeenJson] = {}
        self._silences: dict[SessionId, Silence] = {}

    def sees(self, session: SessionId, found: SeenJson) -> None:
        """Note the object of a session that this client opened or renewed."""
        with self._lock:
            self._note(session, found)

    def judge(self, sessions: Collection[SessionId], scope: Scope) -> bool:
        """Look at those of the scope's sessions whose look is due, and end the dead. Whether the scope has changed by
        that. Raises StoreUnavailable, OutcomeUnknown."""
        due = [session for session in sessions if self._is_due(session)]
        if not due or not self._judging.acquire(blocking=False):
            return False
        try:
            ended = [self._judged(session, scope) for session in due]  # each of them
            return any(ended)
        finally:
            self._judging.release()

    def finish(self, session: SessionId, data: Json) -> None:
        """The second step, for an ended session: its records, scope by scope, then its object. Raises
        StoreUnavailable, OutcomeUnknown."""
        for scope in session_object.scopes_of(data):
            self._remove(scope, session, True)
        self._bucket.delete(name_of(session), "remove an ended session")
        with self._lock:
            self._forget(session)

    def _is_due(self, session: SessionId) -> bool:
        with self._lock:
            silence = self._silences.get(session)
            return silence is None or silence.next_look_s <= self._clock.monotonic_s()

    def _judged(self, session: SessionId, scope: Scope) -> bool:
        """Whether the session has ended, and the scope has changed."""
        with self._lock:
            known = self._found.get(session)
        asked_s = self._clock.monotonic_s()
        try:
            found = self._bucket.get(name_of(session), "look at a session", known=known)
        except StoreError:
            self._interrupted(session)
            raise
        if found is None:  # an observer ended the session, and died before it came to this scope
            self._remove(scope, session, False)
            with self._lock:
                self._forget(session)
            return True
        data = session_object.checked(found.data, where=f"object {name_of(session)}")
        if data["ended"] or self._is_dead(session, found, asked_s=asked_s):
            return self._ended(session, found)
        return False

    def _is_dead(self, session: SessionId, found: SeenJson, *, asked_s: float) -> bool:
        with self._lock:
            silence = self._silences.get(session)
            if silence is None or silence.version != found.tag:
                self._note(session, found)
                return False
            silence.confirmed(asked_s=asked_s, answered_s=self._clock.monotonic_s())
            self._sightings.note(session, silence)
            return silence.is_death

    def _ended(self, session: SessionId, found: SeenJson) -> bool:
        """Both steps. The owner, or another observer, may be faster: then the next look shows why."""
        data = found.data
        if not data["ended"]:
            data = session_object.ended(data)
            try:
                self._bucket.put(name_of(session), data, "end a session", replaces=found)
            except NotAsSeen:
                return False
        self.finish(session, data)
        return True

    def _interrupted(self, session: SessionId) -> None:
        with self._lock:
            silence = self._silences.get(session)
            if silence is not None:
                silence.interrupted(at_s=self._clock.monotonic_s())
                self._sightings.note(session, silence)

    def prune(self) -> None:
        """End the sessions that nobody has renewed for days, by the clock of the server: no reader comes upon a session
        whose scope nobody looks at. An error is left to the next member that starts."""
        with suppress(StoreError, CorruptRecord):
            for name, age in self._bucket.ages("sessions", "list the sessions"):
                if age > _ABANDONED:
                    self._prune(SessionId(name.removesuffix(".json")), age.total_seconds())

    def _prune(self, session: SessionId, age_s: float) -> None:
        found = self._bucket.get(name_of(session), "look at a session")
        if found is None:
            return
        data = session_object.checked(found.data, where=f"object {name_of(session)}")
        if data["ended"] or age_s > _SILENT * session_object.ttl_s(data):
            self._ended(session, found)

    # --- under the lock ---------------------------------------------------------------------------------------------

    def _note(self, session: SessionId, found: SeenJson) -> None:
        self._found[session] = found
        silence = self._silences.get(session)
        if silence is None or silence.version != found.tag:
            ttl_s, now_s = session_object.ttl_s(found.data), self._clock.monotonic_s()
            self._silences[session] = self._sightings.silence(
                session, found.tag, ttl_s=ttl_s, now_s=now_s, first=_FIRST
            )

    def _forget(self, session: SessionId) -> None:
        self._found.pop(session, None)
        self._silences.pop(session, None)
        self._sightings.done(session)
