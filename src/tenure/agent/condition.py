"""A member's state as it knows it itself: for probes, metrics and people. Nothing is asked for it.

Promise: a store that is away and a driver that is silent show at once, as far as the agent knows. `Outlook` is written
by the member's threads; any thread may read a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from tenure.agent.failures import pause_line
from tenure.agent.scope_watch import leader_in, skipped_in
from tenure.clock import Clock, timestamp
from tenure.coordination.candidates import Identity, Lag, Pause, State, pause_in
from tenure.coordination.election_rules import office_in
from tenure.coordination.failing import Failing, failing_in
from tenure.coordination.records import Record, Scope
from tenure.coordination.session import Liveness
from tenure.errors import CorruptRecord
from tenure.events import DriverSilent, Events, Once, StoreBack
from tenure.link.driver import MemberDriver
from tenure.progress import Step

SILENT_S: Final = 5.0
"""A driver without a sign of life for so long is silent. It gives a sign each second."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A member's state, as far as the member knows. `epoch`: of its term; None: it holds no term."""

    member: str
    state: State
    epoch: int | None
    ready: bool
    """The member leads, or is ready to: it is warm, or stands by cold as configured, or has nothing to rehearse."""
    lag: Lag | None = None
    """How far the driver's mirrors are behind; None: the driver mirrors nothing."""
    behind: Mapping[str, int] = field(default_factory=dict)
    """Of a leader: query -> the offsets of Kafka that it is behind, where that is known."""
    paused: str = ""
    """Why nobody is elected, after failures; empty: the scope is not paused so."""
    failing: str = ""
    """The last failure of a leadership, until its query makes progress; empty: there is none."""
    scope: str = ""
    leader: str = ""
    """Who leads, as last heard; empty: nobody, or nobody knows."""
    newest_epoch: int = 0
    """The newest epoch, as last heard."""
    away: str = ""
    """Why the store refuses service; empty: it answers."""
    away_since: str = ""
    silent_s: float = 0.0
    """For how long the driver has given no sign of life, in seconds."""
    session_s: float | None = None
    """For how long the session stands without another renewal, in seconds; None: there is no session."""
    spark: str = ""
    """The version of the driver's Spark; empty: it is not known."""
    progress: Sequence[Step] = ()
    """The long work that goes on: the start of Spark, the copy of a state, a cleanup."""

    @property
    def is_silent(self) -> bool:
        """Whether the driver may hang."""
        return self.silent_s > SILENT_S


class Outlook:
    """What a member has heard of its scope, its store and its driver."""

    def __init__(self, scope: Scope, identity: Identity, *, driver: MemberDriver, clock: Clock, events: Events) -> None:
        self._scope = scope
        self._member = identity.member
        self._driver = driver
        self._clock = clock
        self._events = events
        self._skipped = Once(events)
        self._pause: Pause | None = None  # as heard last; None: the scope is not paused
        self._failing: Failing | None = None  # as heard last; None: nothing fails
        self._led: tuple[str, int] = ("", 0)  # the leader and the newest epoch, as heard last
        self._liveness: Liveness | None = None  # None: there was no session yet
        self._away: tuple[str, str, float] | None = None  # why and since when the store is away; None: it answers
        self._is_silent = False  # set once the event of a silence was emitted

    def look(self, records: Sequence[Record]) -> None:
        """Note what the records of the scope say, and tell a silence of the driver."""
        self._pause, self._failing = pause_in(records), failing_in(records)
        with suppress(CorruptRecord):  # the election refuses it, as it decides by it
            office = office_in(records)
            self._led = (leader_in(records)[0], 0 if office is None else office.epoch)
        self._skipped.look(*skipped_in(records, self._scope))
        was_silent, self._is_silent = self._is_silent, self._driver.silent_s > SILENT_S
        if self._is_silent and not was_silent:
            self._events.emit(DriverSilent(self._scope, self._member, round(self._driver.silent_s, 1)))

    def opened(self, liveness: Liveness) -> None:
        """A session is open: the store answers."""
        self._liveness = liveness
        away, self._away = self._away, None
        if away is not None:
            seconds = round(self._clock.monotonic_s() - away[2], 1)
            self._events.emit(StoreBack(self._scope, self._member, seconds))

    def store_away(self, why: str) -> None:
        """The store refuses service."""
        since = (timestamp(self._clock), self._clock.monotonic_s()) if self._away is None else self._away[1:]
        self._away = (why, *since)

    def complete(self, now: Condition) -> Condition:
        """The condition with all that was heard."""
        pause, failing, away, liveness = self._pause, self._failing, self._away, self._liveness
        session_s = None if liveness is None or liveness.over else liveness.until_s - self._clock.monotonic_s()
        return replace(
            now,
            state=State.AWAY if away is not None and now.state is State.STARTING and self._is_up else now.state,
            paused="" if pause is None or not pause.why else pause_line(pause),
            failing="" if failing is None else failing.last.why,
            scope=self._scope,
            leader=self._led[0],
            newest_epoch=max(self._led[1], now.epoch or 0),
            spark=self._driver.spark,
            away="" if away is None else away[0],
            away_since="" if away is None else away[1],
            silent_s=round(self._driver.silent_s, 1),
            session_s=None if session_s is None else round(max(0.0, session_s), 1),
        )

    @property
    def _is_up(self) -> bool:
        return self._driver.gone is None
