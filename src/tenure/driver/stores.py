"""The two stores of a driver: the records that its agent sends, and a connection of its own for a leadership.

Promise: a standby's driver makes no request to the store. `HeardStore` answers from what the agent has sent: `glance`
as the records arrived last, `read` and `list` as the agent answers. `LeadersStore` refuses everything until the member
is elected; it then connects at once, beside the first steps of the leadership, and closes when the member stands by
again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, NoReturn

from tenure.coordination.records import Commit, Guard, Key, Listing, Record, Revision, Scope, Write
from tenure.coordination.store import Changes, CoordinationStore, Guarantees, Session
from tenure.coordination.term import LEADER
from tenure.errors import StoreError, StoreUnavailable
from tenure.link.records import HeardRecords

_READS_ONLY: Final = Guarantees(
    name="the records of the agent", max_record_bytes=0, max_writes=0, survives_restart=False, list_is_one_instant=False
)


class HeardStore:
    """A store to read from, which makes no request."""

    guarantees = _READS_ONLY

    def __init__(self, heard: HeardRecords) -> None:
        self._heard = heard

    def read(self, scope: Scope, key: Key) -> Record | None:
        return next((record for record in self._heard.ask() if record.key == key), None)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return _below(prefix, self._heard.ask())

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return _below(prefix, self._heard.last())

    def scopes(self) -> Sequence[Scope]:
        _refuse()

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        _refuse()

    def watch(self, scope: Scope, *, after: Revision) -> Changes:
        _refuse()

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> Session:
        _refuse()

    def end_session(self, testament: str) -> None:
        _refuse()

    def close(self) -> None:
        """There is nothing to release."""


class LeadersStore:
    """The store of a member's leaderships. Thread-safe."""

    def __init__(self, make: Callable[[], CoordinationStore], scope: Scope) -> None:
        """`make`: makes a client of the store, without a request. It imports the client's library, which takes long, so
        it is called before the election."""
        self._make = make
        self._scope = scope
        self._lock = threading.Lock()  # guards the two below
        self._next = make()
        self._store: CoordinationStore | None = None  # None: the member stands by

    def elected(self) -> None:
        """Permit requests, and connect in a thread of its own. Returns at once."""
        with self._lock:
            if self._store is not None:
                return
            store = self._store = self._next

        def connect() -> None:
            with suppress(StoreError):  # the leadership's first request has its own answer
                store.read(self._scope, LEADER)

        threading.Thread(target=connect, name="tenure-connect", daemon=True).start()

    def rest(self) -> None:
        """Close the connection: the member stands by."""
        with self._lock:
            store, self._store = self._store, None
            if store is not None:
                self._next = self._make()
        if store is not None:
            store.close()

    @property
    def guarantees(self) -> Guarantees:
        return self._used().guarantees

    def read(self, scope: Scope, key: Key) -> Record | None:
        return self._used().read(scope, key)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self._used().list(scope, prefix)

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self._used().glance(scope, prefix)

    def scopes(self) -> Sequence[Scope]:
        return self._used().scopes()

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        return self._used().commit(scope, guards=guards, writes=writes)

    def watch(self, scope: Scope, *, after: Revision) -> Changes:
        return self._used().watch(scope, after=after)

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> Session:
        return self._used().open_session(ttl=ttl, purpose=purpose)

    def end_session(self, testament: str) -> None:
        self._used().end_session(testament)

    def close(self) -> None:
        self.rest()
        self._next.close()

    def _used(self) -> CoordinationStore:
        with self._lock:
            if self._store is None:
                _refuse()
            return self._store


def _below(prefix: str, records: Sequence[Record]) -> Listing:
    return Listing(tuple(record for record in records if record.key.is_under(prefix)), Revision(0))


def _refuse() -> NoReturn:
    raise StoreUnavailable("the driver of a standby makes no request to the store")
