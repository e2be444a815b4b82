"""The agent's HTTP server: /leader, /standby, /health, /livez, /readyz, /status, /events, /batches, /metrics.

Promise: each answer is the member's own knowledge at that moment. A probe never asks the store or the driver, so
neither can make the probe hang. 200: yes; 503: no; the body is the member's `Condition` as JSON. A member whose term
may be over does not answer as leader. Not promised: secrecy; bind the server to an address that only your probes reach.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tenure.agent.condition import Condition
from tenure.agent.metrics import Metrics
from tenure.agent.rings import Rings
from tenure.coordination.candidates import State
from tenure.errors import UsageError

QUESTIONS: dict[str, Callable[[Condition], bool]] = {
    "/leader": lambda condition: condition.state is State.LEADING,
    "/standby": lambda condition: condition.state in (State.FAILING, State.READY, State.WARM),
    "/health": lambda condition: condition.state is not State.STARTING and not condition.is_silent,
    "/livez": lambda condition: True,
    "/readyz": lambda condition: condition.ready and not condition.is_silent,
    "/status": lambda condition: True,
}
"""Path -> its question. `/livez` asks only whether the agent answers at all; `/status` answers always."""


def parse_address(text: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`, `:PORT` (all addresses) or `[::1]:8008`. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise UsageError(f"--http {text!r} is no address", fix="write HOST:PORT, for example 127.0.0.1:8008")
    return host.strip("[]"), int(port)


class ProbeServer:
    """Serves on a thread of its own until `close`."""

    def __init__(self, address: str, *, condition: Callable[[], Condition], metrics: Metrics, rings: Rings) -> None:
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
            _application(condition, metrics, rings),
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


def _application(condition: Callable[[], Condition], metrics: Metrics, rings: Rings) -> Starlette:
    def answer(question: Callable[[Condition], bool]) -> Callable[[Request], Response]:
        async def answered(request: Request) -> Response:
            now = condition()
            return JSONResponse(asdict(now), status_code=200 if question(now) else 503)

        return answered  # type: ignore[return-value] # Starlette takes coroutine functions as well

    async def page(request: Request) -> Response:
        return Response(metrics.page(condition()), media_type="text/plain; version=0.0.4")

    def kept(of: Callable[..., Sequence[Mapping[str, Any]]]) -> Callable[[Request], Response]:
        async def answered(request: Request) -> Response:
            after = request.query_params.get("after", "0")
            if not after.isdecimal():
                return PlainTextResponse(f"after={after!r} is no number\n", status_code=400)
            lines = "".join(f"{json.dumps(one)}\n" for one in of(after=int(after)))
            return Response(lines, media_type="application/x-ndjson")

        return answered  # type: ignore[return-value] # as above

    routes = [Route(path, answer(question), methods=["GET", "HEAD", "OPTIONS"]) for path, question in QUESTIONS.items()]
    routes += [Route("/metrics", page), Route("/events", kept(rings.events)), Route("/batches", kept(rings.batches))]
    return Starlette(routes=routes)
