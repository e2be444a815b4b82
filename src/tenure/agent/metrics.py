"""Counters and gauges of one member, for Prometheus.

Promise: the figures follow the events; only the state is read when the page is served. Neither the store nor the
driver is asked.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from tenure.agent.member import Condition
from tenure.coordination.candidates import State
from tenure.events import Event


class Metrics:
    """A subscriber that counts. `member` labels every figure, `scope` the figures that follow the events."""

    def __init__(self, *, member: str) -> None:
        self._member = member
        self._registry = CollectorRegistry()
        metrics = {metric.name: metric for kind in Event.kinds.values() for metric in kind.metrics}
        gauges = {metric.name for kind in Event.kinds.values() for metric in kind.metrics if metric.sets}
        self._figures: dict[str, Any] = {
            name: (Gauge if name in gauges else Counter)(
                f"tenure_{name}", metric.what, ("scope", "member", *metric.labels), registry=self._registry
            )
            for name, metric in metrics.items()
        }
        """Name of a metric of events -> its counter or gauge."""
        self._state = self._member_gauge("state", "1 for the state that the member is in", "state")
        self._lag_batches = self._member_gauge("mirror_lag_batches", "Batches that the mirrors are behind")
        self._lag_bytes = self._member_gauge("mirror_lag_bytes", "Bytes that the mirrors miss")
        self._behind = self._member_gauge("source_offsets_behind", "Kafka offsets that a query is behind", "query")
        self._paused = self._member_gauge("paused", "1 while the scope is paused after failures")
        self._failing = self._member_gauge("failing", "1 after a failure, until its query makes progress")

    def _member_gauge(self, name: str, what: str, *labels: str) -> Gauge:
        return Gauge(f"tenure_{name}", what, ("member", *labels), registry=self._registry)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        for metric in event.metrics:
            figure = self._figures[metric.name].labels(
                event.scope, self._member, *(getattr(event, field) for field in metric.labels.values())
            )
            value = getattr(event, metric.value) if isinstance(metric.value, str) else metric.value
            if metric.sets:
                figure.set(value)
            else:
                figure.inc(value)

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
