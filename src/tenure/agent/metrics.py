"""Counters and gauges of one member, for Prometheus.

Promise: the figures follow the events; only the state is read when the page is served. Neither the store nor the
driver is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from tenure.agent.member import Condition
from tenure.coordination.candidates import State
from tenure.events import (
    BatchCommitted,
    DriverEnded,
    Event,
    OrphansFound,
    QueryFailed,
    RunDirectorySeeded,
    SinkAway,
    SourceAway,
    StorageAway,
    StoreAway,
    Swept,
    TermLost,
    TermWon,
    WriteRefused,
)

_ABSENCES: Mapping[type[Event], str] = {SourceAway: "source", SinkAway: "sink", StorageAway: "storage"}


class Metrics:
    """A subscriber that counts. `member` labels every figure, `scope` the figures that follow the events."""

    def __init__(self, *, member: str) -> None:
        self._member = member
        self._registry = CollectorRegistry()
        self._state = self._member_gauge("state", "1 for the state that the member is in", "state")
        self._epoch = self._gauge("epoch", "Epoch of the term that the member won last")
        self._terms = self._counter("terms_won", "Terms won")
        self._ended = self._counter("terms_ended", "Terms that ended", "why")
        self._batches = self._counter("batches_committed", "Batches that a sink took", "query")
        self._last = self._gauge("last_batch", "Number of the newest batch", "query")
        self._seconds = self._gauge("last_batch_seconds", "How long the newest batch took", "query")
        self._seed = self._gauge("last_seed_seconds", "How long the last run directory took to fill", "query")
        self._refused = self._counter("writes_refused", "Late writes that were refused", "by")
        self._lag_batches = self._member_gauge("mirror_lag_batches", "Batches that the mirrors are behind")
        self._lag_bytes = self._member_gauge("mirror_lag_bytes", "Bytes that the mirrors miss")
        self._behind = self._member_gauge("source_offsets_behind", "Kafka offsets that a query is behind", "query")
        self._orphans = self._gauge("orphans", "Orphans of dead leaders and members that are not removed yet")
        self._removed = self._counter("orphans_removed", "Orphans of dead leaders and members that were removed")
        self._drivers = self._counter("drivers_replaced", "Drivers that ended by themselves")
        self._away = self._counter("store_failures", "Times that the store was away")
        self._absences = self._counter("away", "Times that a leader gave up because this was away", "what")
        self._failures = self._counter("batches_failed", "Batches that failed by themselves", "query")
        self._paused = self._member_gauge("paused", "1 while the scope is paused after failures")
        self._failing = self._member_gauge("failing", "1 after a failure, until its query makes progress")

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"tenure_{name}", what, ("scope", "member", *labels), registry=self._registry)

    def _gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(f"tenure_{name}", what, ("scope", "member", *labels), registry=self._registry)

    def _member_gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(f"tenure_{name}", what, ("member", *labels), registry=self._registry)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        who = (event.scope, self._member)
        match event:
            case TermWon():
                self._terms.labels(*who).inc()
                self._epoch.labels(*who).set(event.epoch)
            case TermLost():
                self._ended.labels(*who, event.why.split(":", 1)[0]).inc()
                self._orphans.labels(*who).set(0)  # from now on the orphans are another leader's
            case OrphansFound():
                self._orphans.labels(*who).inc(event.count)
            case Swept():
                self._removed.labels(*who).inc(event.removed)
                self._orphans.labels(*who).set(event.left)
            case BatchCommitted():
                self._batches.labels(*who, event.query).inc()
                self._last.labels(*who, event.query).set(event.batch)
                self._seconds.labels(*who, event.query).set(event.seconds)
            case RunDirectorySeeded():
                self._seed.labels(*who, event.query).set(event.seconds)
            case WriteRefused():
                self._refused.labels(*who, event.by).inc()
            case DriverEnded():
                self._drivers.labels(*who).inc()
            case StoreAway():
                self._away.labels(*who).inc()
            case _:
                self._count_failure(event, who)

    def _count_failure(self, event: Event, who: tuple[str, str]) -> None:
        what = _ABSENCES.get(type(event))
        if what is not None:
            self._absences.labels(*who, what).inc()
        elif isinstance(event, QueryFailed):
            self._failures.labels(*who, event.query).inc()

    def page(self, condition: Condition) -> bytes:
        """The page in Prometheus' text format."""
        for state in State:
            self._state.labels(self._member, state.value).set(state is condition.state)
        self._paused.labels(self._member).set(bool(condition.paused))
        self._failing.labels(self._member).set(bool(condition.failing))
        for gauge in (self._lag_batches, self._lag_bytes, self._behind):
            gauge.clear()
        if condition.lag is not None:
            self._lag_batches.labels(self._member).set(condition.lag.batches)
            self._lag_bytes.labels(self._member).set(condition.lag.bytes)
        for query, offsets in condition.behind.items():
            self._behind.labels(self._member, query).set(offsets)
        return generate_latest(self._registry)
