"""Faults around any coordination store, scripted from outside; no hook in the product.

Promise: a fault bites the next `times` calls that its predicate matches. `Script.fired` counts them, so a test can
check that its fault happened. Faults that match the same call nest, the first scripted outermost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Literal, TypeVar

from tenure.coordination.records import Commit, Guard, Key, Listing, Record, Revision, Scope, SessionId, Write
from tenure.coordination.store import Changes, CoordinationStore, Guarantees, Session
from tenure.errors import OutcomeUnknown, StoreError, StoreUnavailable
from tests.kit.waiting import NEVER, NEVER_S

T = TypeVar("T")
Operation = Literal[
    "open_session",
    "renew",
    "close_session",
    "end_session",
    "amend",
    "read",
    "list",
    "glance",
    "scopes",
    "commit",
    "wait",
]
_CHANGING = ("open_session", "renew", "close_session", "end_session", "amend", "commit")


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the store. `path`: the key of a read or an amendment, the prefix of a list or a glance."""

    operation: Operation
    scope: Scope | None = None
    path: str | None = None
    guards: tuple[Guard, ...] = ()
    writes: tuple[Write, ...] = ()
    session: SessionId | None = None


Match = Callable[[Call], bool]
Proceed = Callable[[], Any]
Fault = Callable[[Call, Proceed], Any]


def every_call(call: Call) -> bool:
    """Matches every call."""
    return True


def commits(call: Call) -> bool:
    """Matches commits with writes."""
    return call.operation == "commit" and bool(call.writes)


def writes_under(prefix: str) -> Match:
    """Matches commits that write a record at or below `prefix`."""
    return lambda call: any(write.key == prefix or write.key.is_under(prefix) for write in call.writes)


def operation(*names: Operation) -> Match:
    """Matches calls of these operations."""
    return lambda call: call.operation in names


@dataclass
class Script:
    """A fault that waits for its calls. `times` None: without end. `fired`: how many calls it bit."""

    match: Match
    fault: Fault
    times: int | None
    fired: int = 0

    def takes(self, call: Call) -> bool:
        """Whether the fault bites this call. Counts the call. The store's lock is held."""
        if (self.times is not None and self.fired >= self.times) or not self.match(call):
            return False
        self.fired += 1
        return True


@dataclass
class Late:
    """Requests with an unknown outcome that are still on their way."""

    requests: list[Proceed] = field(default_factory=list)

    def deliver(self) -> list[Any]:
        """Let every late request reach the store, in order; return each answer or StoreError."""
        waiting, self.requests = self.requests, []
        return [_answer(request) for request in waiting]


class Gate:
    """Holds calls at one point until the test lets them go on."""

    def __init__(self) -> None:
        self._arrived = threading.Semaphore(0)
        self._open = threading.Event()

    def wait_arrived(self, *, real_timeout: timedelta = NEVER) -> None:
        """Return when one more call has arrived. Raises TimeoutError."""
        if not self._arrived.acquire(timeout=real_timeout.total_seconds()):
            raise TimeoutError("no call has arrived at the gate")

    def release(self) -> None:
        """Let all calls through, now and later."""
        self._open.set()

    def hold(self) -> None:
        """Wait for the release, in the thread of the call."""
        self._arrived.release()
        if not self._open.wait(NEVER_S):
            raise TimeoutError("the gate was not released in time")


def _answer(proceed: Proceed) -> Any:
    try:
        return proceed()
    except StoreError as error:
        return error


def _lost(call: Call, what: str) -> StoreError:
    """The error for a lost message. Only a call that changes the store can have an unknown outcome."""
    kind = OutcomeUnknown if call.operation in _CHANGING else StoreUnavailable
    return kind(f"{call.operation}: {what} (scripted)")


class FaultyStore:
    """Wraps a store, and the sessions and watches that are opened through it."""

    def __init__(self, store: CoordinationStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._scripts: list[Script] = []  # guarded by _lock
        self._calls: list[Call] = []  # guarded by _lock
        self._sessions: dict[SessionId, Session] = {}  # guarded by _lock

    # --- the script ---------------------------------------------------------------------------------------

    def script(self, fault: Fault, *, when: Match = every_call, times: int | None = 1) -> Script:
        """Add a fault. `times` None: without end."""
        script = Script(when, fault, times)
        with self._lock:
            self._scripts.append(script)
        return script

    def heal(self) -> None:
        """Remove every fault."""
        with self._lock:
            self._scripts.clear()

    def be_unavailable(self, *, when: Match = every_call, times: int | None = 1) -> Script:
        """The call is StoreUnavailable; nothing is sent."""

        def fault(call: Call, proceed: Proceed) -> Any:
            raise StoreUnavailable(f"{call.operation}: the store is unreachable (scripted)")

        return self.script(fault, when=when, times=times)

    def lose_reply(self, *, when: Match = commits, times: int | None = 1) -> Script:
        """The store does the work. For the caller the outcome is unknown."""

        def fault(call: Call, proceed: Proceed) -> Any:
            _answer(proceed)
            raise _lost(call, "the reply was lost")

        return self.script(fault, when=when, times=times)

    def lose_request(self, *, when: Match = commits, times: int | None = 1) -> Script:
        """Nothing is sent. The error is that of a lost reply."""

        def fault(call: Call, proceed: Proceed) -> Any:
            raise _lost(call, "the request was lost")

        return self.script(fault, when=when, times=times)

    def be_late(self, *, when: Match = commits, times: int | None = 1) -> tuple[Script, Late]:
        """The outcome is unknown now. The request reaches the store at `Late.deliver`."""
        late = Late()

        def fault(call: Call, proceed: Proceed) -> Any:
            late.requests.append(proceed)
            raise _lost(call, "the request is late")

        return self.script(fault, when=when, times=times), late

    def pause(
        self, *, when: Match = commits, point: Literal["before", "after"] = "before", times: int | None = 1
    ) -> tuple[Script, Gate]:
        """The call stops until the gate is released: before it is sent, or after the store has answered."""
        gate = Gate()

        def fault(call: Call, proceed: Proceed) -> Any:
            if point == "before":
                gate.hold()
                return proceed()
            try:
                return proceed()
            finally:
                gate.hold()

        return self.script(fault, when=when, times=times), gate

    def expire(self, session: SessionId) -> None:
        """End a session in the store. Its holder does not notice."""
        with self._lock:
            inner = self._sessions[session]
        inner.close()

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call so far, in the order of their beginnings."""
        with self._lock:
            return tuple(self._calls)

    def make(self, call: Call, proceed: Callable[[], T]) -> T:
        """Record the call and send it through the faults that match."""
        with self._lock:
            self._calls.append(call)
            faults = [script.fault for script in self._scripts if script.takes(call)]
        step: Proceed = proceed
        for fault in reversed(faults):
            step = partial(fault, call, step)
        result: T = step()
        return result

    # --- CoordinationStore -----------------------------------------------------------------------------------

    @property
    def guarantees(self) -> Guarantees:
        return self._store.guarantees

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> Session:
        session = self.make(Call("open_session"), lambda: self._store.open_session(ttl=ttl, purpose=purpose))
        with self._lock:
            self._sessions[session.id] = session
        return FaultySession(self, session)

    def end_session(self, testament: str) -> None:
        self.make(Call("end_session"), lambda: self._store.end_session(testament))

    def read(self, scope: Scope, key: Key) -> Record | None:
        return self.make(Call("read", scope, path=key), lambda: self._store.read(scope, key))

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self.make(Call("list", scope, path=prefix), lambda: self._store.list(scope, prefix))

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self.make(Call("glance", scope, path=prefix), lambda: self._store.glance(scope, prefix))

    def scopes(self) -> Sequence[Scope]:
        return self.make(Call("scopes"), self._store.scopes)

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        call = Call("commit", scope, guards=tuple(guards), writes=tuple(writes))
        return self.make(call, lambda: self._store.commit(scope, guards=call.guards, writes=call.writes))

    def watch(self, scope: Scope, *, after: Revision) -> Changes:
        return FaultyChanges(self, scope, self._store.watch(scope, after=after))

    def close(self) -> None:
        self._store.close()


class FaultySession:
    """A session whose calls go through the faults."""

    def __init__(self, store: FaultyStore, session: Session) -> None:
        self._store = store
        self._session = session
        self.id = session.id
        self.ttl = session.ttl
        self.testament = session.testament

    def renew(self) -> None:
        self._store.make(Call("renew", session=self.id), self._session.renew)

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        call = Call("amend", scope, path=key, session=self.id)
        self._store.make(call, lambda: self._session.amend(scope, key, value))

    def close(self) -> None:
        self._store.make(Call("close_session", session=self.id), self._session.close)


class FaultyChanges(Changes):
    """A watch whose waits go through the faults."""

    def __init__(self, store: FaultyStore, scope: Scope, changes: Changes) -> None:
        self._store = store
        self._scope = scope
        self._changes = changes

    def wait(self, *, timeout: timedelta) -> Revision | None:
        return self._store.make(Call("wait", self._scope), lambda: self._changes.wait(timeout=timeout))

    def close(self) -> None:
        self._changes.close()
