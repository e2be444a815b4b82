"""One member: holds a session, contends, and lets its driver lead under the term that it won.

Promise: the driver gets a term only after it was granted; a term is resigned only after the driver has stopped;
a member that lost its term stands by again under a new session. Not promised: that the driver obeys; one that
does not stop in time is DriverStuck, and the process must end.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from tenure.clock import Clock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import GuardFailed, SessionEnded, StoreError, TermLost, UsageError
from tenure.events import Events, MemberReady, TermWon
from tenure.events import TermLost as TermLostEvent
from tenure.pipelines.lifecycle import AFTER, Ended


class Driver(Protocol):
    """What runs the queries of a pipeline. Used by one thread; `stop` may be called from any."""

    def prepare(self) -> None:
        """Become able to lead: everything that needs no term. Raises TenureError."""
        ...

    def lead(self, term: Term, *, stop: threading.Event) -> Ended:
        """Run the queries until the term is lost, `stop` is set, or they end; they are stopped on return.

        Raises the error of a query that failed, TermLost when the store said so, DriverStuck.
        """
        ...

    def close(self) -> None:
        """Release everything."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a member is."""

    member: str
    host: str
    pid: int


class Member:
    """Runs one member until its pipeline is done or it is asked to stop."""

    def __init__(
        self,
        store: CoordinationStore,
        scope: Scope,
        *,
        identity: Identity,
        driver: Driver,
        ttl: timedelta,
        clock: Clock,
        events: Events,
    ) -> None:
        self._store = store
        self._scope = scope
        self._identity = identity
        self._driver = driver
        self._ttl = ttl
        self._clock = clock
        self._events = events
        self._election = Election(store, scope, member=identity.member, clock=clock)

    def run(self, *, stop: threading.Event) -> Ended:
        """Stand by and lead until the pipeline is done (IDLE) or `stop` is set (STOPPED).

        Raises what the driver raises, StoreUnavailable when no session can be had, UsageError (member name).
        """
        self._driver.prepare()
        self._events.emit(MemberReady(scope=self._scope, member=self._identity.member))
        while not stop.is_set():
            with SessionKeeper(self._store, ttl=self._ttl, clock=self._clock) as keeper:
                try:
                    self._join(keeper, stop=stop)
                    term = self._election.campaign(keeper, stop=stop)
                except SessionEnded:
                    continue  # paused for longer than the ttl: stand by again under a new session
                if term is None:
                    break
                ended = self._lead(term, stop=stop)
                if not AFTER[ended].again:
                    return ended
        return Ended.STOPPED

    def _lead(self, term: Term, *, stop: threading.Event) -> Ended:
        self._events.emit(TermWon(scope=self._scope, member=self._identity.member, epoch=term.epoch))
        try:
            ended = self._driver.lead(term, stop=stop)
        except TermLost:
            ended = Ended.LOST
        except Exception:
            self._give_up(term, Ended.FAILED)
            raise
        self._give_up(term, ended)
        return ended

    def _give_up(self, term: Term, ended: Ended) -> None:
        word = AFTER[ended].resign
        why = term.liveness.why or "refused"
        if word is not None:
            try:
                self._election.resign(term, why=word)
                why = word
            except TermLost:
                why = "refused"
            except StoreError as failed:
                why = f"not resigned, it ends with the session: {failed}"
        self._events.emit(TermLostEvent(scope=self._scope, member=self._identity.member, epoch=term.epoch, why=why))

    def _join(self, keeper: SessionKeeper, *, stop: threading.Event) -> None:
        """Announce the member; its own earlier session may have to end first."""
        deadline_s = self._clock.monotonic_s() + 2 * self._ttl.total_seconds()
        while True:
            try:
                return self._election.join(keeper, host=self._identity.host, pid=self._identity.pid)
            except GuardFailed as taken:
                if self._clock.monotonic_s() > deadline_s:
                    raise UsageError(
                        f"a live member of scope {self._scope!r} is named {self._identity.member!r}",
                        fix="give this one another --member name",
                    ) from taken
                self._clock.wait(stop, timeout_s=0.2)
