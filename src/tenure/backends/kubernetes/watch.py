"""Watches of the Kubernetes store: one line a scope, which all waiters of a client share.

Promise: no change after the revision that a reader knows is missed, also when the line breaks: the watch goes on after
its last event, and after `410 Gone` the ConfigMap is listed again. While there is no line, a waiter gets
StoreUnavailable; once there is a line again, it waits. A ConfigMap that does not decode is loud in the next read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from weakref import WeakSet

from tenure.backends.kubernetes.api import Api, Object
from tenure.backends.kubernetes.follower import Follower
from tenure.backends.kubernetes.known import Known, version_of
from tenure.backends.kubernetes.objects import ScopeState
from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import Changes
from tenure.errors import CorruptRecord, StoreUnavailable


class Followed:
    """One scope that is followed, for as long as its store is open."""

    def __init__(
        self,
        api: Api,
        scope: Scope,
        path: Callable[[], str],
        *,
        name: str,
        known: Known,
        take: Callable[[Object | None, int], None],
        clock: Clock,
    ) -> None:
        """`name`: of the ConfigMap. `take` notes in `known` a ConfigMap, or that there is none at a resourceVersion; it
        raises CorruptRecord."""
        self.scope = scope
        self._name = name
        self.known = known
        self._note = take
        self._lock = threading.Lock()  # guards the three below
        self._waiters: WeakSet[threading.Event] = WeakSet()
        self.amendments = 0
        self.damage: CorruptRecord | None = None
        """Why the newest ConfigMap does not decode; None: it does."""
        self._follower = Follower(
            api,
            path,
            selector=lambda: ("fieldSelector", f"metadata.name={name}"),
            owner=self,
            clock=clock,
            name="tenure-kubernetes-scope",
        )

    @property
    def follows(self) -> bool:
        """Whether the known state is kept up now."""
        return self._follower.follows and self.damage is None

    @property
    def error(self) -> StoreUnavailable | None:
        """Why there is no line; None: there is one, or none was tried yet."""
        return self._follower.error

    def check_rights(self) -> None:
        """Raises AccessDenied: this account may not follow the scope, so it would learn of nothing in time."""
        self._follower.check_rights()

    def wake(self, *, amended: bool = False) -> None:
        """Let all waiters look. `amended`: a value was amended, which moves no revision."""
        with self._lock:
            self.amendments += amended
            waiters = list(self._waiters)
        for event in waiters:
            event.set()

    def add(self, event: threading.Event) -> None:
        """Set the event at every change."""
        with self._lock:
            self._waiters.add(event)

    def close(self) -> None:
        """Stop following."""
        self._follower.close()
        self.wake()

    # --- what the follower tells ----------------------------------------------------------------------------------

    def listed(self, objects: Sequence[Object], *, at: int) -> None:
        """See `Owner.listed`."""
        found = next((one for one in objects if one["metadata"]["name"] == self._name), None)
        self._take(found, at if found is None else version_of(found))

    def changed(self, kind: str, found: Object) -> None:
        """See `Owner.changed`."""
        self._take(None if kind == "DELETED" else found, version_of(found))

    def spoke(self) -> None:
        """See `Owner.spoke`."""
        self.wake()

    def _take(self, found: Object | None, at: int) -> None:
        try:
            self._note(found, at)
        except CorruptRecord as damage:
            self.damage = damage
        else:
            self.damage = None
        self.wake()


class KubernetesChanges(Changes):
    """A watch on one scope of a `KubernetesStore`."""

    def __init__(self, followed: Followed, *, after: Revision, clock: Clock) -> None:
        self._followed = followed
        self._seen = after
        self._amendments = followed.amendments
        self._origin = self._state().origin
        self._clock = clock
        self._news = threading.Event()
        self._closed = False
        followed.add(self._news)

    def wait(self, *, timeout: timedelta) -> Revision | None:
        deadline_s = self._clock.monotonic_s() + timeout.total_seconds()
        while True:
            self._news.clear()  # before the look: a later change is not lost
            if self._closed:
                raise StoreUnavailable(f"watch on scope {self._followed.scope!r} is closed")
            state, amendments = self._state(), self._followed.amendments
            if state.revision > self._seen or state.origin != self._origin or amendments != self._amendments:
                self._seen, self._origin = Revision(state.revision), state.origin
                self._amendments = amendments
                return self._seen
            if self._followed.damage is not None:
                raise self._followed.damage
            if self._followed.error is not None:
                raise self._followed.error
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            self._clock.wait(self._news, timeout_s=left_s)

    def close(self) -> None:
        self._closed = True
        self._news.set()

    def _state(self) -> ScopeState:
        seen = self._followed.known.seen
        return ScopeState() if seen is None else seen.state
