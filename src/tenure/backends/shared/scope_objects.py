"""The writing of scopes of which each is one object, which a store replaces as a whole.

Promise: a commit evaluates its guards on one state of the object, and replaces that very state: so leadership and data
change in one compare-and-swap. A refusal is judged on a state that was read after the call began. A session proves that
it lives before its first record in a scope. Threads of one client do not overtake each other.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar

from tenure.backends.shared.scope_state import ScopeState
from tenure.clock import Clock
from tenure.coordination.records import Commit, Guard, Put, Revision, Scope, SessionId, Write, implied_guard
from tenure.coordination.store import Guarantees, check_commit
from tenure.errors import CommitRefused, GuardFailed, SessionEnded, StoreUnavailable
from tenure.retry import RetryPolicy

Object = TypeVar("Object")
"""As the server has it."""

CONFLICTS: Final = RetryPolicy(
    initial=timedelta(milliseconds=10), maximum=timedelta(milliseconds=500), attempts=30, jitter=1.0
)
"""Between the attempts at a commit that others are faster than: at most about 5 s in all."""


@dataclass(frozen=True, slots=True)
class SeenScope(Generic[Object]):
    """The object of a scope and what it holds. `found` None: there is none."""

    found: Object | None
    state: ScopeState


class KnownScope(Protocol[Object]):
    """What a client knows of a scope."""

    turn: threading.Lock
    """Held by a commit."""

    @property
    def known(self) -> SeenScope[Object] | None:
        """The newest; None: nothing is known."""
        ...


class JoiningSession(Protocol):
    """A session that this client has opened."""

    @property
    def id(self) -> SessionId: ...

    def joins(self, scope: Scope) -> None:
        """Prove that the session lives, and name the scope in its object. Raises SessionEnded, StoreUnavailable."""
        ...


class ScopeObjects(ABC, Generic[Object]):
    """The commits of a store. The store says how an object is read and replaced."""

    def __init__(self, guarantees: Guarantees, *, most_bytes: int, kind: str, clock: Clock) -> None:
        """`most_bytes`: of one object, whose name in errors is `kind`."""
        self.guarantees = guarantees
        self._most_bytes = most_bytes
        self._kind = kind
        self._clock = clock
        self._lock = threading.Lock()  # guards _own
        self._own: dict[SessionId, JoiningSession] = {}

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(self.guarantees, guards, writes)
        judged = [*guards, *map(implied_guard, writes)]
        with self._known(scope).turn:
            return self._commit(scope, judged, writes)

    def _commit(self, scope: Scope, judged: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        bound = next((put.session for put in writes if isinstance(put, Put) and put.session is not None), None)
        seen = self._known(scope).known
        fresh = seen is None or not writes
        delays = CONFLICTS.delays_s()
        while True:
            if fresh or seen is None:
                seen, fresh = self._look(scope), True
            failing = next((guard for guard in judged if not seen.state.holds(guard)), None)
            joins = bound is not None and bound not in seen.state.sessions
            if (failing is not None or joins) and not fresh:
                fresh = True
                continue
            if failing is not None:
                raise GuardFailed(failing, scope=scope)
            if not writes:
                return Commit({}, Revision(seen.state.revision))
            if joins:
                assert bound is not None
                self._join(scope, bound)  # after the read: an observer that ends it later writes later
            joined = frozenset(() if bound is None else (bound,))
            state = seen.state.applied(writes, joined=joined)
            if self._replaced(scope, seen, state):
                return state.outcome(writes)
            fresh = True
            self._pause(next(delays, None), scope)

    def _replaced(self, scope: Scope, seen: SeenScope[Object], state: ScopeState) -> bool:
        """Whether the state has taken the place of the state that was seen; no: another writer was faster, look again.
        Raises StoreUnavailable, OutcomeUnknown, CommitRefused."""
        entries = state.entries(scope)
        size = sum(len(name) + len(text.encode()) for name, text in entries.items())
        if size > self._most_bytes:
            raise CommitRefused(
                f"scope {scope!r} would have {size} bytes, over the {self._most_bytes} of one {self._kind}",
                fix="keep larger values in blobs, or fewer records",
            )
        return self._replace(scope, seen, state, entries)

    def _opened(self, session: JoiningSession) -> None:
        """Note a session that this client has opened."""
        with self._lock:
            self._own[session.id] = session

    def _join(self, scope: Scope, session: SessionId) -> None:
        with self._lock:
            own_session = self._own.get(session)
        if own_session is None:
            raise SessionEnded(session, why="this client has not opened it")
        own_session.joins(scope)

    def _pause(self, delay_s: float | None, scope: Scope) -> None:
        if delay_s is None:
            raise StoreUnavailable(f"scope {scope!r} changes faster than it can be written", fix="try again")
        self._clock.sleep(delay_s)

    # --- what a store says ------------------------------------------------------------------------------------------

    @abstractmethod
    def _known(self, scope: Scope) -> KnownScope[Object]: ...

    @abstractmethod
    def _look(self, scope: Scope) -> SeenScope[Object]:
        """The object now, after the end of its dead sessions, where a reader ends them. Raises StoreUnavailable,
        CorruptRecord."""

    @abstractmethod
    def _replace(self, scope: Scope, seen: SeenScope[Object], state: ScopeState, entries: dict[str, str]) -> bool:
        """Replace the object that was seen, and know the state. No: another writer was faster. Raises
        StoreUnavailable, OutcomeUnknown."""
