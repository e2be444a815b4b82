"""The figures of a member for Prometheus. Counters and histograms follow the events; the state is that of the moment.

Promise: every figure of Tenure has the labels `scope` and `member`; `process_*`, those of the agent's process, have
none. A counter is there with 0 before its first event, so that `increase()` sees the first. A figure of a term goes
with the term: no alarm fires for a member that led once. The values of a label are a closed list, or names that the
pipeline declares. `METRICS` has every figure.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from tenure.agent.condition import Condition
from tenure.clock import Clock
from tenure.coordination.candidates import State
from tenure.coordination.terms import WHYS
from tenure.coordination.timed_store import AWAY, KINDS
from tenure.events import (
    BatchCommitted,
    BatchMeasured,
    BatchStarted,
    Event,
    JvmStarted,
    OfBatch,
    QueryStarted,
    TermEnded,
    TermWon,
)
from tenure.metric import Kind, Metric

OTHER: Final = "other"
"""The value of a label that is not in its closed list: the holder of a term learned of its end, and did not tell it."""

_CLOSED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("terms_ended", "why"): (*WHYS, OTHER),
    ("away", "what"): ("source", "sink", "storage"),
    ("writes_refused", "by"): ("store", "sink"),
}
"""Metric and label -> all its values."""

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The buckets of every histogram: from a plan to a batch of minutes."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that is read when the page is served. `values`: the condition -> labels' values -> the figure."""

    name: str
    what: str
    labels: tuple[str, ...]
    values: Callable[[Condition], Mapping[tuple[str, ...], float]]


def _one(value: Callable[[Condition], float | None]) -> Callable[[Condition], Mapping[tuple[str, ...], float]]:
    def of(condition: Condition) -> Mapping[tuple[str, ...], float]:
        found = value(condition)
        return {} if found is None else {(): float(found)}

    return of


OF_STATE: Final = (
    Figure(
        "state",
        "1 for the state that the member is in",
        ("state",),
        lambda now: {(state.value,): float(state is now.state) for state in State},
    ),
    Figure("leader", "1 while the member leads", (), _one(lambda now: now.state is State.LEADING)),
    Figure("leader_seen", "1 while the member knows of a leader", (), _one(lambda now: bool(now.leader))),
    Figure("epoch", "The newest epoch that the member has heard of", (), _one(lambda now: now.newest_epoch)),
    Figure("ready", "1 while the member leads, or its first batch would be fast", (), _one(lambda now: now.ready)),
    Figure("paused", "1 while the scope is paused after failures", (), _one(lambda now: bool(now.paused))),
    Figure("failing", "1 after a failure, until its query makes progress", (), _one(lambda now: bool(now.failing))),
    Figure("store_away", "1 while the store refuses service to the member", (), _one(lambda now: bool(now.away))),
    Figure("driver_silent_seconds", "Since the driver's last sign of life", (), _one(lambda now: now.silent_s)),
    Figure("session_remaining_seconds", "Until the session ends unrenewed", (), _one(lambda now: now.session_s)),
    Figure(
        "mirror_lag_batches",
        "Batches that the mirrors are behind",
        (),
        _one(lambda now: None if now.lag is None else now.lag.batches),
    ),
    Figure(
        "mirror_lag_bytes",
        "Bytes that the mirrors miss",
        (),
        _one(lambda now: None if now.lag is None else now.lag.bytes),
    ),
)
"""The figures of a member's condition."""

OF_EVENTS: Final[Mapping[str, Metric]] = {
    metric.name: metric for kind in Event.kinds.values() for metric in kind.metrics
}
"""The figures that follow the events, by their names."""

BUILD: Final = "build_info"
RUNNING: Final = "batch_running_seconds"
TAKEOVER: Final = "takeover_duration_seconds"
BACKLOG: Final = "source_backlog"
BEGAN: Final = "term_start_timestamp_seconds"
COMMITTED: Final = "last_commit_timestamp_seconds"
REQUESTS: Final = "store_request_duration_seconds"
REFUSED: Final = "store_errors_total"
CONTACT: Final = "store_last_contact_timestamp_seconds"
FREE: Final = "storage_free_bytes"

METRICS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    BUILD: (
        "gauge",
        "1, with the versions; spark and java are empty until the driver has told them",
        ("version", "python", "spark", "java"),
    ),
    **{one.name: ("gauge", one.what, one.labels) for one in OF_STATE},
    **{
        f"{one.name}_total" if one.kind is Kind.COUNTER else one.name: (
            "gauge" if one.kind is Kind.GROWS else one.kind.value,
            one.what,
            tuple(one.labels),
        )
        for one in OF_EVENTS.values()
    },
    RUNNING: ("gauge", "For how long the present batch of a query runs", ("query",)),
    TAKEOVER: ("histogram", "From the grant of a term to the first batch of a query", ("query",)),
    BACKLOG: ("gauge", "How much of a source no batch has taken, where Spark knows it", ("query", "source", "unit")),
    BEGAN: ("gauge", "When the term of the leader began, by its clock", ()),
    COMMITTED: ("gauge", "When the newest batch of a query was in its sink", ("query",)),
    REQUESTS: ("histogram", "How long requests of the agent to the store took, also those that failed", ("op",)),
    REFUSED: ("counter", "Requests of the agent that the store did not answer, or did not permit", ("kind",)),
    CONTACT: ("gauge", "When the store answered the agent last", ()),
    FREE: (
        "gauge",
        "What this user may still write to the disk of the storage; only where the storage is a folder",
        (),
    ),
}
"""Each figure, without `tenure_`: its type, what it says, and its labels beside `scope` and `member`."""


class Metrics:
    """A subscriber. Thread-safe."""

    def __init__(self, *, member: str, clock: Clock) -> None:
        self._member = member
        self._clock = clock
        # A second series for each counter, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call] # prometheus_client gives it no types
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # of the agent: processor, memory, files
        self._lock = threading.Lock()  # guards the fields below
        self._scope: str | None = None  # None: no event and no page named it yet
        self._served_s: float | None = None  # when the page was served last, monotonic; None: never
        self._java = ""  # the version of the driver's JVM; empty: the driver has not told it
        self._queries: set[str] = set()
        self._won: tuple[int, float] | None = None  # the epoch, and when on the monotonic clock; None: no term is held
        self._opened: set[str] = set()  # queries with a batch in this term
        self._running: dict[str, float] = {}  # query -> when its present batch began
        self._figures: dict[str, Any] = {name: self._made(name, *about) for name, about in METRICS.items()}

    def _made(self, name: str, kind: str, what: str, labels: tuple[str, ...]) -> Any:
        about = (f"tenure_{name.removesuffix('_total')}", what, ("scope", "member", *labels))
        if kind == "histogram":
            return Histogram(*about, buckets=_SECONDS, registry=self._registry)
        return (Counter if kind == "counter" else Gauge)(*about, registry=self._registry)

    def __call__(self, event: Event) -> None:
        """Count one event."""
        with self._lock:
            self._know(event.scope)
            now_s, wall_s = self._clock.monotonic_s(), self._clock.now().timestamp()
            match event:
                case TermWon():
                    self._won, self._opened = (event.epoch, now_s), set()
                    self._of(BEGAN).set(wall_s)
                case JvmStarted():
                    self._java = event.java
                case QueryStarted():
                    self._meet(event.query)
                case BatchStarted() if self._is_present(event):
                    self._running[event.query] = now_s
                case BatchCommitted() if self._is_present(event):
                    self._committed(event.query, now_s, wall_s)
                case BatchMeasured() if self._is_present(event):
                    self._behind(event)
            if isinstance(event, OfBatch):
                self._meet(event.query)
            for metric in event.metrics:
                if not metric.of_term or self._is_present(event):
                    self._change(metric, event)
            if isinstance(event, TermEnded):
                self._end_term()

    def _is_present(self, event: Event) -> bool:
        """Whether the event may change figures of the present term. A driver tells some events late."""
        return self._won is not None and getattr(event, "epoch", self._won[0]) == self._won[0]

    def _committed(self, query: str, now_s: float, wall_s: float) -> None:
        self._running.pop(query, None)
        self._of(COMMITTED, query).set(wall_s)
        if self._won is not None and query not in self._opened:
            self._opened.add(query)
            self._of(TAKEOVER, query).observe(now_s - self._won[1])

    def _behind(self, event: BatchMeasured) -> None:
        """Put the backlog of the query's sources: those that the event names, and no other."""
        self._figures[BACKLOG].remove_by_labels({"query": event.query})
        for source, units in event.backlog.items():
            for unit, count in units.items():
                self._of(BACKLOG, event.query, source, unit).set(count)

    def request(self, op: str, seconds: float | None, *, error: str) -> None:
        """Count a request to the store, see `coordination.timed_store.Told`."""
        with self._lock:
            assert self._scope is not None, "`know` comes before the first request"
            if seconds is not None:
                self._of(REQUESTS, op).observe(seconds)
            if error:
                self._of(REFUSED, error).inc()
            if error not in AWAY:
                self._of(CONTACT).set(self._clock.now().timestamp())

    def has_free(self, free: int | None) -> None:
        """The free bytes of the disk of the storage; None: they are not known."""
        with self._lock:
            if free is None:
                self._figures[FREE].clear()
            elif self._scope is not None:
                self._of(FREE).set(free)

    def know(self, scope: str) -> None:
        """The member's scope, as soon as it is known."""
        with self._lock:
            self._know(scope)

    def page(self, condition: Condition) -> bytes:
        """The page in Prometheus' text format."""
        with self._lock:
            self._served_s = self._clock.monotonic_s()
            self._know(condition.scope)
            self._figures[BUILD].clear()
            self._of(BUILD, version("tenure"), platform.python_version(), condition.spark, self._java).set(1)
            for figure in OF_STATE:
                gauge = self._figures[figure.name]
                gauge.clear()
                for labels, value in figure.values(condition).items():
                    self._of(figure.name, *labels).set(value)
            self._figures[RUNNING].clear()
            for query, since_s in self._running.items():
                self._of(RUNNING, query).set(self._clock.monotonic_s() - since_s)
            return generate_latest(self._registry)

    def scraped_s(self) -> float | None:
        """How long ago the page was served last, in seconds; None: never."""
        with self._lock:
            return None if self._served_s is None else round(self._clock.monotonic_s() - self._served_s, 1)

    def _of(self, name: str, *labels: str) -> Any:
        return self._figures[name].labels(self._scope, self._member, *labels)

    def _know(self, scope: str) -> None:
        """Put the counters that no event has changed yet."""
        if self._scope is None and scope:
            self._scope = scope
            for metric in OF_EVENTS.values():
                for labels in _known_labels(metric) if metric.kind is Kind.COUNTER else ():
                    self._of(f"{metric.name}_total", *labels)
            for kind, _ in KINDS:
                self._of(REFUSED, kind)

    def _meet(self, query: str) -> None:
        """Put the counters of a query that no event has changed yet."""
        if query not in self._queries:
            self._queries.add(query)
            for metric in OF_EVENTS.values():
                if tuple(metric.labels) == ("query",) and metric.kind is Kind.COUNTER:
                    self._of(f"{metric.name}_total", query)

    def _change(self, metric: Metric, event: Event) -> None:
        labels = [_among(metric.name, label, getattr(event, one)) for label, one in metric.labels.items()]
        value = getattr(event, metric.value) if isinstance(metric.value, str) else metric.value
        if value is None:
            return
        match metric.kind:
            case Kind.COUNTER:
                self._of(f"{metric.name}_total", *labels).inc(value)
            case Kind.GROWS:
                self._of(metric.name, *labels).inc(value)
            case Kind.GAUGE:
                self._of(metric.name, *labels).set(value)
            case Kind.HISTOGRAM:
                self._of(metric.name, *labels).observe(value)

    def _end_term(self) -> None:
        """Remove the figures of a term: from now on they are another leader's."""
        self._won = None
        self._running.clear()
        for metric in OF_EVENTS.values():
            if metric.of_term:
                self._figures[metric.name].clear()
        for name in (BEGAN, COMMITTED, BACKLOG):
            self._figures[name].clear()


def _among(metric: str, label: str, value: str) -> str:
    closed = _CLOSED.get((metric, label))
    return value if closed is None or value in closed else OTHER


def _known_labels(metric: Metric) -> Iterator[tuple[str, ...]]:
    """All values of the labels of a metric; none: a label's values are not known before."""
    lists = [_CLOSED.get((metric.name, label)) for label in metric.labels]
    if all(one is not None for one in lists):
        yield from product(*(one for one in lists if one is not None))
