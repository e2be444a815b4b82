"""Sessions of the store in a bucket: an object each.

Promise: a session lives for its ttl after its last renewal reached the server, as each observer counts it. Every change
of the object replaces the very state that the owner knows, so an owner whose session was ended by an observer learns it
from its next request, and never brings the session back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, NoReturn

from tenure.backends.buckets import session_object
from tenure.backends.buckets.bucket import Bucket, NotAsSeen, SeenJson
from tenure.backends.buckets.observer import BucketObserver, name_of
from tenure.backends.buckets.session_object import Json
from tenure.coordination.records import Key, Scope, SessionId
from tenure.errors import OutcomeUnknown, SessionEnded, StoreUnavailable

SHARE: Final = 3
"""A renewal takes at most this part of the ttl."""
_ATTEMPTS: Final = 10
"""How often the object is read again after a write whose outcome was unknown, or an edit by hand."""

Amend = Callable[[Scope, Key, bytes, SessionId], None]


class BucketSession:
    """A session of a `BucketStore`. Thread-safe."""

    def __init__(
        self, session: SessionId, bucket: Bucket, observer: BucketObserver, found: SeenJson, *, amend: Amend
    ) -> None:
        self.id = session
        self.testament = str(session)
        self.ttl = timedelta(seconds=session_object.ttl_s(found.data))
        self._bucket = bucket.within(self.ttl.total_seconds() / SHARE)
        self._observer = observer
        self._amend = amend
        self._lock = threading.Lock()  # guards the two below, and is held while the object is replaced
        self._found = found
        self._ended = False
        observer.sees(session, found)

    def renew(self) -> None:
        with self._lock:
            self._replace(session_object.renewed, "renew a session")

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        self._amend(scope, key, value, self.id)

    def joins(self, scope: Scope) -> None:
        """Prove that the session lives, and name the scope in its object, before its first record there. Raises
        SessionEnded, StoreUnavailable: no record was written."""
        with self._lock:
            try:
                self._replace(lambda data: session_object.with_scope(data, scope), "name a scope")
            except OutcomeUnknown as unknown:
                raise StoreUnavailable(str(unknown)) from unknown

    def close(self) -> None:
        with self._lock:
            if not self._ended:
                with suppress(SessionEnded):
                    self._replace(session_object.ended, "end a session")
            self._ended = True
            if self._found.data["ended"]:
                self._observer.finish(self.id, self._found.data)
                self._found = SeenJson({**self._found.data, "scopes": []}, self._found.tag)  # all is done

    def _replace(self, change: Callable[[Json], Json], what: str) -> None:
        """Replace the object. Raises SessionEnded, StoreUnavailable, OutcomeUnknown."""
        if self._ended:
            raise SessionEnded(self.id)
        for _ in range(_ATTEMPTS):
            try:
                self._found = self._bucket.put(name_of(self.id), change(self._found.data), what, replaces=self._found)
            except NotAsSeen:
                # It was replaced since: by an earlier request of ours, by an observer, or by hand.
                self._read_again(what)
                continue
            self._observer.sees(self.id, self._found)
            return
        raise StoreUnavailable(f"the object of session {self.id} changes faster than it can be replaced")

    def _read_again(self, what: str) -> None:
        found = self._bucket.get(name_of(self.id), what)
        if found is None:
            self._is_over("its object is gone")
        self._found = SeenJson(session_object.checked(found.data, where=f"object {name_of(self.id)}"), found.tag)
        if self._found.data["ended"]:
            self._is_over("it expired or was closed")

    def _is_over(self, why: str) -> NoReturn:
        self._ended = True
        raise SessionEnded(self.id, why=why)
