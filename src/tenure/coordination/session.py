"""Keeps a session alive on one thread, and knows until when its holder may believe in it.

Promise: `Liveness.over` is true from the local monotonic deadline on (send time of the last successful renewal + ttl -
margin), even while a renewal hangs. Not promised: that the session lives until then; only a commit is proof.
"""

from __future__ import annotations

import os
import threading
from datetime import timedelta

from tenure.clock import Clock
from tenure.coordination.records import Key, Scope, SessionId
from tenure.coordination.store import CoordinationStore, Session
from tenure.errors import OutcomeUnknown, SessionEnded, StoreError, StoreUnavailable

_BELIEVED = 0.9
"""The share of its ttl for which the holder of a session believes in it."""

_SLOW = 0.1
"""A session whose opening took more than this share of its ttl is renewed at once."""

_RENEWED = 1 / 3
"""The share of its ttl after which a session is renewed."""

_AGAIN = 1 / 20
"""The same, after a renewal that failed."""


class Liveness:
    """Until when a session or a term may be believed to live. `over` is judged when it is read, so no thread has to
    notice the deadline, and stays true. A child is over when its parent is over, or ended alone (a term ends with its
    session, or by a resignation while the session goes on)."""

    def __init__(self, *, clock: Clock, until_s: float, parent: Liveness | None = None) -> None:
        self._clock = clock
        self._parent = parent
        self._lock = threading.Lock()  # guards the four below
        self._until_s = until_s
        self._why: str | None = None  # None: not ended
        self._cause: Exception | None = None
        self._children: list[Liveness] = []
        if parent is not None:
            parent._adopt(self)

    def child(self) -> Liveness:
        """A liveness that ends with this liveness, or earlier."""
        return Liveness(clock=self._clock, until_s=float("inf"), parent=self)

    @property
    def over(self) -> bool:
        """Whether it was ended, or its deadline has passed; once true it stays so."""
        if self._why is None and self.remaining_s() <= 0:
            self.end("the deadline passed without a renewal")
        return self._why is not None

    @property
    def why(self) -> str | None:
        """Why it is over; None while it is not."""
        return self._why if self.over else None

    @property
    def cause(self) -> Exception | None:
        """The error of the last renewal, if no renewal has succeeded since; None: there is none."""
        return self._cause if self._cause is not None or self._parent is None else self._parent.cause

    def remaining_s(self) -> float:
        """Seconds until the deadline; 0 or less: over."""
        if self._why is not None:
            return 0.0
        left = self.until_s - self._clock.monotonic_s()
        return left if self._parent is None else min(left, self._parent.remaining_s())

    @property
    def until_s(self) -> float:
        """The deadline on the clock's monotonic scale, which all processes of the machine share."""
        with self._lock:
            own = self._until_s
        return own if self._parent is None else min(own, self._parent.until_s)

    def extend(self, until_s: float) -> None:
        """Move the deadline; ignored when it is over: an ended session never comes back."""
        if self.over:
            return
        with self._lock:
            self._until_s = max(self._until_s, until_s)
            self._cause = None

    def failed(self, cause: Exception) -> None:
        """Note why a renewal failed; the next renewal that succeeds clears the note."""
        with self._lock:
            if self._why is None:
                self._cause = cause

    def end(self, why: str) -> None:
        """End it now; the first reason stays."""
        with self._lock:
            if self._why is None:
                self._why = why
            children = list(self._children)
        for child in children:
            child.end(why)

    def _adopt(self, child: Liveness) -> None:
        with self._lock:
            self._children = [known for known in self._children if known._why is None]
            self._children.append(child)
        if self.over:
            child.end(self._why or "")


class SessionKeeper:
    """`with SessionKeeper(...) as keeper:` opens a session, renews it on one thread, and closes it at the end."""

    def __init__(self, store: CoordinationStore, *, ttl: timedelta, clock: Clock, purpose: str = "") -> None:
        """`purpose`: see `CoordinationStore.open_session`."""
        self._store = store
        self._ttl_s = ttl.total_seconds()
        self._purpose = purpose
        self._clock = clock
        self._stop = threading.Event()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None  # None: not open
        self._session: Session | None = None  # None: not open
        self._liveness: Liveness | None = None  # None: not open

    @property
    def session_id(self) -> SessionId:
        """The id of the session that is kept."""
        assert self._session is not None, "the keeper is not open"
        return self._session.id

    @property
    def testament(self) -> str:
        """See `Session.testament`."""
        assert self._session is not None, "the keeper is not open"
        return self._session.testament

    @property
    def ttl(self) -> timedelta:
        """The time to live of the session."""
        return timedelta(seconds=self._ttl_s)

    @property
    def liveness(self) -> Liveness:
        """Until when the holder may believe in the session."""
        assert self._liveness is not None, "the keeper is not open"
        return self._liveness

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        """See `Session.amend`."""
        assert self._session is not None, "the keeper is not open"
        self._session.amend(scope, key, value)

    def __enter__(self) -> SessionKeeper:
        """Open the session and start renewing. Raises StoreUnavailable or OutcomeUnknown."""
        sent_s = self._open()
        self._liveness = Liveness(clock=self._clock, until_s=self._deadline_s(sent_s))
        self._thread = threading.Thread(
            target=self._renew_until_stopped, args=(sent_s,), name="tenure-session", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop renewing and close the session. If closing fails, the session ends by its ttl. A forked child that
        leaves the block ends nothing: the session is its parent's."""
        if self._pid != os.getpid():
            return
        assert self._thread is not None
        assert self._session is not None
        self._stop.set()
        self._thread.join(timeout=self._ttl_s)
        self.liveness.end("closed")
        try:
            self._session.close()
        except StoreError as failed:
            self.liveness.failed(failed)

    def _open(self) -> float:
        """Open the session, and return when the request left from which its ttl counts at the latest. The store may
        look for a server that answers before it sends the request: a renewal goes over the line that stands then."""
        began_s = self._clock.monotonic_s()
        session = self._session = self._store.open_session(ttl=self.ttl, purpose=self._purpose)
        sent_s = self._clock.monotonic_s()
        if sent_s - began_s <= _SLOW * self._ttl_s:
            return began_s
        try:
            session.renew()
        except StoreError:  # SessionEnded, too: the thread finds that out, or the deadline passes
            return began_s
        return sent_s

    def _deadline_s(self, sent_s: float) -> float:
        return sent_s + _BELIEVED * self._ttl_s

    def _renew_until_stopped(self, sent_s: float) -> None:
        assert self._session is not None
        again_s = sent_s + _RENEWED * self._ttl_s
        while not self._clock.wait(self._stop, timeout_s=again_s - self._clock.monotonic_s()):
            if self.liveness.over:
                return
            sent_s = self._clock.monotonic_s()
            try:
                self._session.renew()
            except SessionEnded as ended:
                self.liveness.end(str(ended))
                return
            except (StoreUnavailable, OutcomeUnknown) as failed:
                self.liveness.failed(failed)
                again_s = self._clock.monotonic_s() + _AGAIN * self._ttl_s
            else:
                self.liveness.extend(self._deadline_s(sent_s))
                again_s = sent_s + _RENEWED * self._ttl_s
