"""One member: holds a session, contends, and lets its driver lead under the term that it won.

Promise: the driver gets a term only after it was granted; a term is resigned only after the driver has stopped or
is dead; a member that lost its term, its driver or the store stands by again under a new session. Not promised:
that a first start succeeds: what is wrong with it is raised.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from tenure.clock import Clock
from tenure.coordination.election import Election, Flag
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import (
    DriverDied,
    GuardFailed,
    OutcomeUnknown,
    SessionEnded,
    StoreError,
    StoreUnavailable,
    TermLost,
    UsageError,
)
from tenure.events import DriverEnded, Events, MemberReady, StoreAway, TermWon
from tenure.events import TermLost as TermLostEvent
from tenure.pipelines.lifecycle import AFTER, Ended
from tenure.retry import RetryPolicy, exponential_delay

DRIVER_RESTART = exponential_delay(initial=timedelta(seconds=3), maximum=timedelta(minutes=1))
"""How long a member waits before it starts another driver: its successor's first batches need the cores."""

STORE_RETRY = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=5))


class Driver(Protocol):
    """What runs the queries of a pipeline. Used by one thread."""

    def prepare(self, *, scope: str, stop: threading.Event) -> bool:
        """Make it able to lead; return whether that had to be done (False also when `stop` was set meanwhile).

        Raises TenureError: what is wrong with the pipeline; DriverDied.
        """
        ...

    @property
    def gone(self) -> str | None:
        """Why it must be prepared again before it can lead: how it ended, or that it answers no more. None: it can."""
        ...

    def lead(self, term: Term, *, stop: Flag) -> Ended:
        """Run the queries until the term is lost, `stop` is set, or they end; they are stopped on return.

        Raises the error of a query that failed, TermLost when the store said so, DriverDied.
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
        hold: bool = True,
    ) -> None:
        """`hold`: ride out the loss of a store that was there; else it is an error, at the first failed renewal."""
        self._store = store
        self._scope = scope
        self._identity = identity
        self._driver = driver
        self._ttl = ttl
        self._clock = clock
        self._events = events
        self._hold = hold
        self._election = Election(store, scope, member=identity.member, clock=clock)
        self._had_session = False
        self._was_ready = False

    def run(self, *, stop: threading.Event) -> Ended:
        """Stand by and lead until the pipeline is done (IDLE) or `stop` is set (STOPPED).

        Raises what the driver raises; DriverDied when it dies before it was ready for the first time;
        StoreUnavailable when no session can be had at the start; UsageError (member name).
        """
        restarts, retries = _Delays(DRIVER_RESTART), _Delays(STORE_RETRY)
        while not stop.is_set():
            began_s = self._clock.monotonic_s()
            try:
                ended = self._under_a_session(stop)
            except SessionEnded:
                continue  # paused for longer than the ttl: stand by again under a new session
            except DriverDied as died:
                if not self._was_ready:
                    raise
                again_s = restarts.after(self._clock.monotonic_s() - began_s)
                self._events.emit(
                    DriverEnded(self._scope, member=self._identity.member, why=str(died), again_s=round(again_s, 1))
                )
                self._clock.wait(stop, timeout_s=again_s)
            except (StoreUnavailable, OutcomeUnknown) as away:
                if not (self._had_session and self._hold):
                    raise
                again_s = retries.after(self._clock.monotonic_s() - began_s)
                self._events.emit(
                    StoreAway(self._scope, member=self._identity.member, why=str(away), again_s=round(again_s, 1))
                )
                self._clock.wait(stop, timeout_s=again_s)
            else:
                if not AFTER[ended].again:
                    return ended
        return Ended.STOPPED

    def _under_a_session(self, stop: threading.Event) -> Ended:
        with SessionKeeper(self._store, ttl=self._ttl, clock=self._clock) as keeper:
            self._had_session = True
            self._join(keeper, stop=stop)
            if self._driver.prepare(scope=self._scope, stop=stop):
                self._was_ready = True
                self._events.emit(MemberReady(scope=self._scope, member=self._identity.member))
            term = self._election.campaign(keeper, stop=_Either(stop, self._driver))
            if term is not None:
                ended = self._lead(term, stop=stop if self._hold else _StopOrStoreLost(stop, term))
                if ended is Ended.STOPPED and not (self._hold or stop.is_set()):
                    cause = term.liveness.cause
                    raise StoreUnavailable(f"the store is away, and on_store_loss says stop: {cause}") from cause
                return ended
            gone = self._driver.gone
            if gone is not None and not stop.is_set():
                raise DriverDied(gone)
            return Ended.STOPPED

    def _lead(self, term: Term, *, stop: Flag) -> Ended:
        self._events.emit(TermWon(scope=self._scope, member=self._identity.member, epoch=term.epoch))
        try:
            ended = self._driver.lead(term, stop=stop)
        except TermLost:
            ended = Ended.LOST
        except DriverDied:
            self._give_up(term, Ended.LOST if term.lost else Ended.STOPPED if stop.is_set() else Ended.DIED)
            raise
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


class _Either:
    """Set when the member was asked to stop, or its driver is gone: either way it must not go on contending."""

    def __init__(self, stop: threading.Event, driver: Driver) -> None:
        self._stop = stop
        self._driver = driver

    def is_set(self) -> bool:
        return self._stop.is_set() or self._driver.gone is not None


class _StopOrStoreLost:
    """Set when the member was asked to stop, or a renewal failed; then it stays so."""

    def __init__(self, stop: Flag, term: Term) -> None:
        self._stop = stop
        self._term = term
        self._lost = False

    def is_set(self) -> bool:
        self._lost = self._lost or self._term.liveness.cause is not None
        return self._lost or self._stop.is_set()


class _Delays:
    """The delays of a policy, from the first one on again after things went well for a while."""

    _well_s = 60.0

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._delays: Iterator[float] = policy.delays_s()

    def after(self, lasted_s: float) -> float:
        """How long to wait when what was tried last went on for `lasted_s`."""
        if lasted_s > self._well_s:
            self._delays = self._policy.delays_s()
        return next(self._delays)
