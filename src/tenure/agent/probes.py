"""The agent's HTTP server: /leader, /standby, /health, /livez, /readyz, /status, /events, /batches, /metrics, /ui.

Promise: each answer is the member's own knowledge at that moment. A probe never asks the store or the driver, so
neither can make the probe hang; the page for people, under /ui, reads the store on threads of its own. 200: yes; 503:
no; the body is the member's `Condition` as JSON, the figures of the queries that it leads, and how long ago `/metrics`
was asked for. A member whose term may be over does not answer as leader. Not promised: secrecy; bind the server to an
address that only your probes reach.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tenure.agent.condition import Condition
from tenure.agent.event_stream import EventStreams
from tenure.agent.listening import HttpServer, listen
from tenure.agent.metrics import Metrics
from tenure.agent.rings import Rings
from tenure.coordination.candidates import State

QUESTIONS: dict[str, Callable[[Condition], bool]] = {
    "/leader": lambda condition: condition.state is State.LEADING,
    "/standby": lambda condition: condition.state in (State.FAILING, State.READY, State.WARM),
    "/health": lambda condition: condition.state is not State.STARTING and not condition.is_silent,
    "/livez": lambda condition: True,
    "/readyz": lambda condition: condition.ready and not condition.is_silent,
    "/status": lambda condition: True,
}
"""Path -> its question. `/livez` asks only whether the agent answers at all; `/status` answers always."""


class PeoplePage(Protocol):
    """The application under `/ui`. `close` ends its streams."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def close(self) -> None: ...


class ProbeServer:
    """Serves on a thread of its own until `close`."""

    def __init__(
        self,
        address: str,
        page: PeoplePage | None = None,
        *,
        condition: Callable[[], Condition],
        metrics: Metrics,
        rings: Rings,
    ) -> None:
        """Listen at once. `page`: for people, under `/ui`. Raises UsageError: `address` is malformed or not free."""
        self._page = page
        self._streams = EventStreams(rings)
        application = _application(condition, metrics, rings, self._streams, page)
        self._server = HttpServer(application, listen(address), name="tenure-probes")
        self.port: int = self._server.port
        """The port of the server; chosen by the system when `address` has port 0."""

    def close(self) -> None:
        """Stop listening, and end the streams."""
        self._streams.close()
        if self._page is not None:
            self._page.close()
        self._server.close()


def _application(
    condition: Callable[[], Condition], metrics: Metrics, rings: Rings, streams: EventStreams, people: ASGIApp | None
) -> Starlette:
    def answer(question: Callable[[Condition], bool]) -> Callable[[Request], Response]:
        async def answered(request: Request) -> Response:
            now = condition()
            told = {"queries": rings.queries(), "scraped_s": metrics.scraped_s()}
            return JSONResponse(asdict(now) | told, status_code=200 if question(now) else 503)

        return answered  # type: ignore[return-value] # Starlette takes coroutine functions as well

    async def page(request: Request) -> Response:
        return Response(metrics.page(condition()), media_type="text/plain; version=0.0.4")

    def kept(of: Callable[..., Sequence[Mapping[str, Any]]], *, streamed: bool) -> Callable[[Request], Response]:
        async def answered(request: Request) -> Response:
            after = request.query_params.get("after", "0")
            if not after.isdecimal():
                return PlainTextResponse(f"after={after!r} is no number\n", status_code=400)
            if streamed and streams.is_asked(request):
                return streams.answer(request, after=int(after))
            lines = "".join(f"{json.dumps(one)}\n" for one in of(after=int(after)))
            return Response(lines, media_type="application/x-ndjson")

        return answered  # type: ignore[return-value] # as above

    routes: list[Route | Mount] = [
        Route(path, answer(question), methods=["GET", "HEAD", "OPTIONS"]) for path, question in QUESTIONS.items()
    ]
    routes += [Route("/metrics", page), Route("/events", kept(rings.events, streamed=True))]
    routes += [Route("/batches", kept(rings.batches, streamed=False))]
    if people is not None:
        routes.append(Mount("/ui", people))
    return Starlette(routes=routes)
