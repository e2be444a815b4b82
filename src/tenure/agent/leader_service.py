"""The Service that routes to the leader. It is a courtesy to clients, and never a reason to end a term.

Promise: while a member leads, one thread keeps the published address of the scope at the member's own, and tries again
after each failure. After the term the thread withdraws the address. The member waits a second at most for the
withdrawal, also when the server hangs, and only after it has resigned. Each failure is an event, once for each reason.
Not promised: that a route leads to the leader at every moment. A dead leader's route stays until the next leader's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from tenure.clock import Clock
from tenure.coordination.published_address import PublishedAddress
from tenure.coordination.term import Term
from tenure.errors import AccessDenied, NotPublished, OutcomeUnknown, StoreUnavailable, TenureError
from tenure.events import Events, ServiceNotLed
from tenure.retry import RetryPolicy, exponential_delay

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=5))
"""The delays after a server that failed; a member has the same for its store."""

LOOK_S: Final = 60.0
"""How often a route that stands is looked after, and how often a leader asks again after a refusal."""

_WAIT_S: Final = 1.0
"""How long a member waits at most for the withdrawal. A thread whose server hangs is left behind."""


class LeaderService:
    """The route of one member's Service. Used by one thread."""

    def __init__(
        self,
        published: PublishedAddress,
        *,
        at: Callable[[], tuple[str, int]],
        clock: Clock,
        events: Events,
        retry: RetryPolicy = RETRY,
    ) -> None:
        """`at`: the address and the port of this member's probes, as others reach them."""
        self._published = published
        self._at = at
        self._clock = clock
        self._events = events
        self._retry = retry
        self._over = threading.Event()
        self._thread: threading.Thread | None = None  # None: no term is held

    def lead(self, term: Term) -> None:
        """Keep the route under a term, from now until `leave`."""
        self._over = threading.Event()  # a thread that was left behind keeps its own
        route = _Route(self._published, term, over=self._over, clock=self._clock, events=self._events)
        address, port = self._at()
        self._thread = threading.Thread(
            target=route.run, args=(address, port, self._retry), name="tenure-service", daemon=True
        )
        self._thread.start()

    def leave(self) -> None:
        """Withdraw the route, if there is one."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=_WAIT_S)
            self._thread = None

    def close(self) -> None:
        """Release the connections."""
        self.leave()
        self._published.close()


class _Route:
    """The route of one term. `over`: set when the term was given up, or is lost."""

    def __init__(
        self, published: PublishedAddress, term: Term, *, over: threading.Event, clock: Clock, events: Events
    ) -> None:
        self._published = published
        self._term = term
        self._over = over
        self._clock = clock
        self._events = events
        self._told: str | None = None  # None: no failure since the last success
        self._refused = False
        """The last answer was a refusal: there is nothing to withdraw."""

    def run(self, address: str, port: int, retry: RetryPolicy) -> None:
        """Keep the route until the term is over, then withdraw it."""
        delays = retry.delays_s()
        while not self._over.is_set() and not self._term.lost:
            pause_s = LOOK_S
            try:
                self._published.publish(self._term.scope, epoch=self._term.epoch, address=address, port=port)
            except (StoreUnavailable, OutcomeUnknown) as failed:
                self._refused = isinstance(failed, AccessDenied)
                self._tell(failed, kind=str(failed) if self._refused else "away")
                pause_s = LOOK_S if self._refused else next(delays, LOOK_S)
            except TenureError as refused:
                self._refused = isinstance(refused, NotPublished)
                self._tell(refused, kind=str(refused))
            else:
                self._refused, self._told, delays = False, None, retry.delays_s()
            self._clock.wait(self._over, timeout_s=pause_s)
        if not self._refused:
            self._withdraw()

    def _withdraw(self) -> None:
        try:
            self._published.withdraw(self._term.scope, epoch=self._term.epoch)
        except TenureError as failed:
            self._tell(failed, kind="not withdrawn")

    def _tell(self, error: TenureError, *, kind: str) -> None:
        if kind == self._told:
            return
        self._told = kind
        term = self._term
        self._events.emit(
            ServiceNotLed(
                term.scope, member=term.holder, epoch=term.epoch, service=self._published.name, why=str(error)
            )
        )
