"""A store around another, which tells how long each request took, and which requests failed.

Promise: the store answers, raises and guarantees what the inner store does. The listener hears of each request once,
after its end, in the thread of the caller. It does not hear of a glance or a watch that succeeds, as neither is a
request. Not promised: the answer of the store where the listener raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Protocol

from tenure.clock import Clock
from tenure.coordination.records import Commit, Guard, Key, Listing, Record, Revision, Scope, SessionId, Write
from tenure.coordination.store import Changes, CoordinationStore, Guarantees, Session
from tenure.errors import AccessDenied, OutcomeUnknown, StoreError, StoreUnavailable

KINDS: Final[tuple[tuple[str, type[StoreError]], ...]] = (
    ("denied", AccessDenied),
    ("unavailable", StoreUnavailable),
    ("unknown", OutcomeUnknown),
)
"""The errors that are no answer to a request, by their names; the first that fits counts. A guard that fails, an ended
session and a commit that is too large are answers."""

AWAY: Final = frozenset({"unavailable", "unknown"})
"""The errors after which nobody knows whether the store was there."""


class Told(Protocol):
    """Hears of the requests. Called by any thread."""

    def request(self, op: str, seconds: float | None, *, error: str) -> None:
        """A request ended. `op`: the name of the method. `seconds` None: it is no request of which the time counts.
        `error`: of `KINDS`; empty: the store answered."""


class TimedStore(CoordinationStore):
    """A coordination store that tells."""

    def __init__(self, inner: CoordinationStore, *, told: Told, clock: Clock) -> None:
        self._inner = inner
        self._told = told
        self._clock = clock

    @property
    def guarantees(self) -> Guarantees:
        return self._inner.guarantees

    @contextmanager
    def timed(self, op: str) -> Iterator[None]:
        """Tell of the request in the block."""
        began_s = self._clock.monotonic_s()
        error = ""
        try:
            yield
        except StoreError as failed:
            error = _kind(failed)
            raise
        finally:
            self._told.request(op, self._clock.monotonic_s() - began_s, error=error)

    @contextmanager
    def watched(self, op: str) -> Iterator[None]:
        """Tell of the errors in the block."""
        try:
            yield
        except StoreError as failed:
            if error := _kind(failed):
                self._told.request(op, None, error=error)
            raise

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> Session:
        with self.timed("open_session"):
            session = self._inner.open_session(ttl=ttl, purpose=purpose)
        return _TimedSession(session, self)

    def end_session(self, testament: str) -> None:
        with self.timed("end_session"):
            self._inner.end_session(testament)

    def read(self, scope: Scope, key: Key) -> Record | None:
        with self.timed("read"):
            return self._inner.read(scope, key)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        with self.timed("list"):
            return self._inner.list(scope, prefix)

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        with self.watched("glance"):
            return self._inner.glance(scope, prefix)

    def scopes(self) -> Sequence[Scope]:
        with self.timed("scopes"):
            return self._inner.scopes()

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        with self.timed("commit"):
            return self._inner.commit(scope, guards=guards, writes=writes)

    def watch(self, scope: Scope, *, after: Revision) -> Changes:
        return _TimedChanges(self._inner.watch(scope, after=after), self)

    def close(self) -> None:
        self._inner.close()


class _TimedSession(Session):
    def __init__(self, inner: Session, store: TimedStore) -> None:
        self._inner = inner
        self._store = store
        self.id: SessionId = inner.id
        self.ttl = inner.ttl
        self.testament = inner.testament

    def renew(self) -> None:
        with self._store.timed("renew"):
            self._inner.renew()

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        with self._store.timed("amend"):
            self._inner.amend(scope, key, value)

    def close(self) -> None:
        with self._store.timed("close_session"):
            self._inner.close()


class _TimedChanges(Changes):
    def __init__(self, inner: Changes, store: TimedStore) -> None:
        self._inner = inner
        self._store = store

    def wait(self, *, timeout: timedelta) -> Revision | None:
        with self._store.watched("watch"):
            return self._inner.wait(timeout=timeout)

    def close(self) -> None:
        self._inner.close()


def _kind(failed: StoreError) -> str:
    return next((name for name, error in KINDS if isinstance(failed, error)), "")
