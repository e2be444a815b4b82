"""Sessions of the Kubernetes store: a Lease each.

Promise: a session lives for its ttl after its last renewal reached the server, as each observer counts it. Every change
of the Lease replaces the very state that the owner knows, so an owner whose session was ended by an observer learns it
from its next request, and never brings the session back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, NoReturn

from tenure.backends.kubernetes import leases
from tenure.backends.kubernetes.api import Api, Object
from tenure.backends.kubernetes.observer import Observer
from tenure.clock import Clock
from tenure.coordination.records import Key, Record, Scope, SessionId
from tenure.errors import OutcomeUnknown, SessionEnded, StoreUnavailable

_SHARE: Final = 3
"""A renewal takes at most this part of the ttl."""
_ATTEMPTS: Final = 10
"""How often a Lease is read again that others edit meanwhile."""


OwnRecord = Callable[[Scope, Key, bytes, SessionId], Record]
"""The record that a session amends with this value. Raises SessionEnded, CommitRefused, StoreUnavailable."""


class KubernetesSession:
    """A session of a `KubernetesStore`. Thread-safe."""

    def __init__(
        self,
        own_record: OwnRecord,
        api: Api,
        observer: Observer,
        lease: Object,
        *,
        session: SessionId,
        ttl: timedelta,
        clock: Clock,
    ) -> None:
        self.id = session
        self.testament = str(session)
        self.ttl = ttl
        self._own_record = own_record
        self._api = api
        self._observer = observer
        self._clock = clock
        self._timeout_s = ttl.total_seconds() / _SHARE
        self._lock = threading.Lock()  # guards the two below, and is held while the Lease is replaced
        self._lease = lease
        self._ended = False
        observer.sees(lease)

    def renew(self) -> None:
        with self._lock:
            self._replace(lambda lease: leases.renewed(lease, now=self._clock.now()), "renew a session")

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        record = self._own_record(scope, key, value, self.id)
        with self._lock:
            self._replace(lambda lease: leases.with_amended(lease, scope, record, value), "amend a record")

    def joins(self, scope: Scope) -> None:
        """Prove that the session lives, and name the scope in its Lease, before its first record there. Raises
        SessionEnded, StoreUnavailable: no record was written."""
        with self._lock:
            try:
                self._replace(
                    lambda lease: leases.renewed(leases.with_scope(lease, scope), now=self._clock.now()),
                    "name a scope",
                )
            except OutcomeUnknown as unknown:
                raise StoreUnavailable(str(unknown)) from unknown

    def close(self) -> None:
        with self._lock:
            with suppress(SessionEnded):
                self._replace(leases.ended, "end a session")
            self._ended = True
            if not leases.has_ended(self._lease):
                return  # the Lease is gone: observers remove the records
            for scope in leases.scopes_of(self._lease):
                self._observer.remove(scope, self.id, True)
            self._observer.delete(self.id)
            self._lease = {**self._lease, "metadata": {**self._lease["metadata"], "annotations": {}}}  # all is done

    def _replace(self, change: Callable[[Object], Object], what: str) -> None:
        """Replace the Lease. Raises SessionEnded, StoreUnavailable, OutcomeUnknown."""
        if self._ended:
            raise SessionEnded(self.id)
        path = self._observer.path(self.id)
        timeout_s = min(self._timeout_s, self._api.request_s)
        for _ in range(_ATTEMPTS):
            body = self._observer.marked(change(self._lease))
            replaced = self._api.write("PUT", path, what, body=body, timeout_s=timeout_s)
            if replaced is not None:
                self._lease = replaced
                self._observer.sees(replaced)
                return
            # It was replaced since: by an earlier request of ours, by an observer, or by hand.
            found = self._api.find(path, what, timeout_s=timeout_s)
            if found is None:
                self._is_over("its Lease is gone")
            self._lease = found
            if leases.has_ended(self._lease):
                self._is_over("it expired or was closed")
        raise StoreUnavailable(f"the Lease of session {self.id} changes faster than it can be replaced")

    def _is_over(self, why: str) -> NoReturn:
        self._ended = True
        raise SessionEnded(self.id, why=why)


def own(record: Record | None, key: Key, session: SessionId) -> Record:
    """The record, if it is bound to the session. Raises SessionEnded."""
    if record is None or record.session != session:
        raise SessionEnded(session, why=f"its record {key!r} is gone")
    return record
