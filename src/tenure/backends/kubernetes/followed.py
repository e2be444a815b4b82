"""The newest state of a scope that a client knows, from its own answers and from the watch of its ConfigMap.

Promise: the state never goes back: an event that comes late, also of a ConfigMap that was removed meanwhile, changes
nothing. Only a cluster that was restored from a backup goes back: its answer is older than the knowledge before the
question, and then the next list is taken as it is. No change after the revision that a reader knows is missed, also
when the line breaks. While there is no line, a waiter gets StoreUnavailable. A ConfigMap that does not decode is loud
in the next read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tenure.backends.kubernetes.api import Object
from tenure.backends.kubernetes.follower import Follower, Listener
from tenure.backends.kubernetes.objects import version_of
from tenure.backends.shared.following import Followed
from tenure.backends.shared.scope_objects import SeenScope
from tenure.backends.shared.scope_state import ScopeState
from tenure.clock import Clock
from tenure.coordination.records import Listing, Scope
from tenure.errors import CorruptRecord


class KubernetesFollowed(Followed):
    """The knowledge of one scope. It is followed from the first glance or watch on."""

    def __init__(
        self,
        scope: Scope,
        *,
        follow: Callable[[Listener], Follower],
        ask: Callable[[], SeenScope[Object]],
        decode: Callable[[Object | None], SeenScope[Object]],
        news: Callable[[ScopeState], None],
        clock: Clock,
    ) -> None:
        """`follow` opens the watch of the ConfigMap; `ask` reads it, and raises StoreUnavailable; `decode` raises
        CorruptRecord; `news` hears of each state."""
        super().__init__(scope, clock=clock)
        self.turn = threading.Lock()
        """Held by a commit, so that threads of one client do not overtake each other."""
        self._open = follow
        self._ask = ask
        self._decode = decode
        self._news = news
        self._begins = threading.Lock()  # guards _follower
        self._follower: Follower | None = None  # None: the scope is not followed yet
        self._picture = threading.Lock()  # guards the four below
        self._seen: SeenScope[Object] | None = None  # None: nothing is known
        self._newest = 0
        self._anew = False  # the next state is taken as it is
        self._damage: CorruptRecord | None = None  # why the newest ConfigMap does not decode; None: it does

    @property
    def known(self) -> SeenScope[Object] | None:
        """The newest; None: nothing is known."""
        return self._seen

    @property
    def newest(self) -> int:
        """The newest resourceVersion that was seen, also of a ConfigMap that is gone. Asked before a read, it dates the
        answer that there is none."""
        return self._newest

    def begin(self) -> Follower:
        """Follow the scope from now on."""
        with self._begins:
            if self._follower is None:
                self._follower = self._open(self)
            return self._follower

    def take(self, seen: SeenScope[Object], *, at: int) -> None:
        """Take a state. `at`: the resourceVersion of the object; where there is none, one at which there was none."""
        with self._picture:
            known, state = self._seen, seen.state
            is_late = at < self._newest or (at == self._newest and known is not None and seen.found is not None)
            if not self._anew and (is_late or seen == known):
                return
            self._newest, self._seen, self._damage = at, seen, None
            anew = self._anew or (known is not None and known.state.origin != state.origin)
            self._anew = False
            self._take(state.records, state.revision, changed=state.revision, anew=anew)
        self._news(state)

    def told(self, at: int | None, *, asked_at: int) -> None:
        """Compare the picture with the resourceVersion of the ConfigMap; None: there is none. `asked_at`: the newest
        before the question."""
        with self._picture:
            there = self._seen is not None and self._seen.found is not None
            agrees = asked_at <= at <= self._newest if at is not None else not there
        self._compared(agrees=agrees)

    def close(self) -> None:
        with self._begins:
            follower = self._follower
        super().close()
        if follower is not None:
            follower.close()

    # --- what the follower tells ----------------------------------------------------------------------------------

    def listed(self, objects: Sequence[Object], *, at: int) -> None:
        """See `Listener.listed`."""
        found = next(iter(objects), None)
        self._hear(found, at if found is None else version_of(found))
        self._compared(agrees=True)

    def changed(self, kind: str, found: Object) -> None:
        """See `Listener.changed`."""
        self._hear(None if kind == "DELETED" else found, version_of(found))

    def spoke(self) -> None:
        """See `Listener.spoke`."""
        self.wake()

    def _hear(self, found: Object | None, at: int) -> None:
        try:
            self.take(self._decode(found), at=at)
        except CorruptRecord as damage:
            with self._picture:
                self._damage = damage
            self.wake()

    # --- see Followed -------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Raises CorruptRecord, too: the newest ConfigMap does not decode."""
        self.begin().check()
        if self._damage is not None:
            raise self._damage

    def _list(self) -> Listing:
        return self._ask().state.listing()

    def _look(self) -> None:
        """Nothing: the picture has the client's own answers already."""

    def _leave(self) -> None:
        with self._picture:
            self._anew = True
        self.begin().begin_anew()
