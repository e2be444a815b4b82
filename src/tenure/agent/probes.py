"""The agent's HTTP server: /leader, /standby, /health, /livez, /readyz, /metrics.

Promise: each answer is the member's own knowledge at that moment. A probe never asks the store or the driver, so
neither can make the probe hang. 200: yes; 503: no; the body is the member's `Condition` as JSON. A member whose term
may be over does not answer as leader. Not promised: secrecy; bind the server to an address that only your probes reach.

The figures of /metrics follow the events; only the state is read when the page is served.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tenure.agent.member import Condition
from tenure.coordination.candidates import State
from tenure.errors import UsageError
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


QUESTIONS: dict[str, Callable[[Condition], bool]] = {
    "/leader": lambda condition: condition.state is State.LEADING,
    "/standby": lambda condition: condition.state in (State.FAILING, State.READY, State.WARM),
    "/health": lambda condition: condition.state is not State.STARTING,
    "/livez": lambda condition: True,
    "/readyz": lambda condition: condition.ready,
}
"""Path -> its question. `/livez` asks only whether the agent answers at all."""


def parse_address(text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`, `:PORT` (all addresses) or `[::1]:8008`. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise UsageError(f"--http {text!r} is no address", fix="write HOST:PORT, for example 127.0.0.1:8008")
    return host.strip("[]"), int(port)


class ProbeServer:
    """Serves on a thread of its own until `close`."""

    def __init__(self, address: str, *, condition: Callable[[], Condition], metrics: Metrics) -> None:
        """Listen at once. Raises UsageError: `address` is malformed or not free."""
        host, port = parse_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"--http {address!r} cannot be listened at: {error.strerror or error}", fix="give a free address"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        """The port of the server; chosen by the system when `address` has port 0."""
        config = uvicorn.Config(
            _application(condition, metrics),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="tenure-probes", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._socket.close()


def _application(condition: Callable[[], Condition], metrics: Metrics) -> Starlette:
    def answer(question: Callable[[Condition], bool]) -> Callable[[Request], Response]:
        async def answered(request: Request) -> Response:
            now = condition()
            return JSONResponse(asdict(now), status_code=200 if question(now) else 503)

        return answered  # type: ignore[return-value] # Starlette takes coroutine functions as well

    async def page(request: Request) -> Response:
        return Response(metrics.page(condition()), media_type="text/plain; version=0.0.4")

    routes = [Route(path, answer(question), methods=["GET", "HEAD", "OPTIONS"]) for path, question in QUESTIONS.items()]
    return Starlette(routes=[*routes, Route("/metrics", page)])
