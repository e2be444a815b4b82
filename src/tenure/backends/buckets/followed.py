"""The newest state of a scope that a client knows; a bucket reports no change, so who waits asks once a second.

Promise: the state never goes back: an answer that comes late changes nothing. Only an object that was restored from an
older copy goes back: the answer is older than the knowledge before the question. No change after the revision that a
reader knows is missed. Where nobody waits or glances, nothing is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tenure.backends.buckets.bucket import SeenJson
from tenure.backends.shared.following import Followed
from tenure.backends.shared.scope_objects import SeenScope
from tenure.backends.shared.scope_state import ScopeState
from tenure.clock import Clock
from tenure.coordination.records import Listing, Scope

POLL_S: Final = 1.0
"""How old a picture may be for a glance, and how often a waiter asks."""


class BucketFollowed(Followed):
    """The knowledge of one scope."""

    def __init__(
        self,
        scope: Scope,
        *,
        ask: Callable[[SeenScope[SeenJson] | None], SeenScope[SeenJson]],
        judge: Callable[[ScopeState], bool],
        clock: Clock,
    ) -> None:
        """`ask` reads the object, or returns the state that it is given where that is still so; raises
        StoreUnavailable, CorruptRecord. `judge` ends dead sessions of a state: whether the scope has changed."""
        super().__init__(scope, clock=clock)
        self.turn = threading.Lock()
        """Held by a commit, so that threads of one client do not overtake each other."""
        self._ask = ask
        self._judge = judge
        self._polling = threading.Lock()  # held by the thread that asks for all that wait
        self._picture = threading.Lock()  # guards the three below
        self._seen: SeenScope[SeenJson] | None = None  # None: nothing is known
        self._taken = 0  # how often a state was taken: dates an answer
        self._asked_s = float("-inf")

    @property
    def known(self) -> SeenScope[SeenJson] | None:
        """The newest; None: nothing is known."""
        return self._seen

    def ask(self) -> SeenScope[SeenJson]:
        """The object now, after the end of its dead sessions. Raises StoreUnavailable, CorruptRecord."""
        seen = self.read()
        if self._judge(seen.state):
            seen = self.read()
        return seen

    def read(self) -> SeenScope[SeenJson]:
        """The object now. Raises StoreUnavailable, CorruptRecord."""
        with self._picture:
            known, taken = self._seen, self._taken
        asked_s = self._clock.monotonic_s()
        seen = self._ask(known)
        self.take(seen, after=taken)
        with self._picture:
            self._asked_s = max(self._asked_s, asked_s)
        self._compared(agrees=True)
        return seen

    def take(self, seen: SeenScope[SeenJson], *, after: int | None = None) -> None:
        """Take a state. `after`: how many states had been taken when it was asked for; None: it is of a commit, so it
        is newer than the state that it replaced."""
        with self._picture:
            known, state = self._seen, seen.state
            if known is seen:
                return
            same_life = known is not None and known.state.origin == state.origin
            is_older = known is not None and same_life and state.revision <= known.state.revision
            if is_older and after is None:
                return  # another client's commit was read meanwhile
            if (is_older or not same_life) and after is not None and after != self._taken:
                return  # another answer came meanwhile, and neither lives of a scope nor copies of it have an order
            self._seen, self._taken = seen, self._taken + 1
            anew = known is not None and (is_older or not same_life)
            self._take(state.records, state.revision, changed=state.revision, anew=anew)

    def until_look_s(self) -> float:
        with self._picture:
            due_s = self._asked_s + POLL_S
        return max(0.0, due_s - self._clock.monotonic_s())

    # --- see Followed -------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        if self.until_look_s() > 0:
            return
        with self._polling:
            if self.until_look_s() <= 0:  # no other thread has asked meanwhile
                self.ask()

    def _list(self) -> Listing:
        return self.read().state.listing()

    def _look(self) -> None:
        self.ask()

    def _leave(self) -> None:
        """Nothing: each question has a line of its own."""
