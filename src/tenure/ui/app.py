"""The application: pages, their streams, signing in, and actions.

Promise: every answer has the headers that keep other sites out, and a request under a foreign Host has no other answer
than 400. Without a token in its `Access`, the application changes nothing and has no path that could. All texts come
from `static` and the store; nothing is fetched from elsewhere. No answer waits for the store but that of an action, and
the figures for Prometheus, which wait on threads of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asgi

from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.errors import OutcomeUnknown, StoreUnavailable, TenureError, UsageError
from tenure.operate.scopes import scope_pictures
from tenure.ui import access_rules
from tenure.ui.access_rules import COOKIE, LASTS, Access, RequestFacts
from tenure.ui.actions import ACTIONS, Action, act
from tenure.ui.boards import Boards, TooManyViewers
from tenure.ui.fleet_figures import fleet_page
from tenure.ui.store_client import StoreClient
from tenure.ui.streams import EventStream

STATIC: Final = Path(__file__).with_name("static")

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_BODY_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Site:
    """What an application serves. `only`: its one scope; None: all scopes of the store."""

    client: StoreClient
    clock: Clock
    access: Access
    store_name: str
    """How the store is shown: without a password."""
    only: Scope | None = None


class Page:
    """The application, as `asgi`. `close` ends its threads and streams."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._boards = Boards(site.client, clock=site.clock, name=site.store_name)
        self.asgi: Final[ASGIApp] = Starlette(
            routes=self._routes(),
            middleware=[Middleware(_Guard, access=site.access)],
            exception_handlers={TenureError: _refused},
        )

    def close(self) -> None:
        """End all streams and threads."""
        self._boards.close()

    def _routes(self) -> list[Route | Mount]:
        routes: list[Route | Mount] = [
            Route("/favicon.svg", _favicon),
            Route("/", self._document),
            Route("/p/{scope}", self._document),
            Route("/api/session", self._session),
            Route("/api/live", self._live_fleet),
            Route("/api/p/{scope}/live", self._live_scope),
            *([Route("/metrics", self._metrics)] if self._site.only is None else []),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        if self._site.access.token is not None:
            routes += [
                Route("/api/session", self._sign_in, methods=["POST"]),
                Route("/api/session", self._sign_out, methods=["DELETE"]),
                Route("/api/p/{scope}/{kind}", self._act, methods=["POST"]),
            ]
        return routes

    async def _document(self, request: Request) -> Response:
        scope = request.path_params.get("scope", self._site.only or "")
        root = request.scope.get("root_path", "").rstrip("/")
        text = (STATIC / "index.html").read_text(encoding="utf-8")
        fields = {"root": root, "scope": scope, "alone": "yes" if self._site.only else ""}
        for name, value in fields.items():
            text = text.replace(f"{{{name}}}", escape(value, quote=True))
        return HTMLResponse(text, headers={"cache-control": "no-cache"})

    async def _live_fleet(self, request: Request) -> Any:
        self._check_reader(request)
        return EventStream(self._boards, self._site.only, clock=self._site.clock)

    async def _live_scope(self, request: Request) -> Any:
        self._check_reader(request)
        scope = Scope(request.path_params["scope"])
        if self._site.only not in (None, scope):
            raise UsageError(f"scope {scope!r} is not shown here", fix="run tenure ui for all scopes of the store")
        return EventStream(self._boards, scope, clock=self._site.clock)

    async def _metrics(self, request: Request) -> Response:
        """The figures of all scopes; 503 while the store is away, so that Prometheus sees the scrape fail."""
        self._check_reader(request)
        return Response(await asyncio.to_thread(self._figures), media_type="text/plain; version=0.0.4")

    def _figures(self) -> str:
        with self._site.client.use() as store:
            return fleet_page(scope_pictures(store, now=self._site.clock.now()))

    async def _session(self, request: Request) -> Response:
        """Who is signed in, and what the page allows."""
        access, asked = self._site.access, _asked(request)
        name = access_rules.operator_of(access, asked, now_s=self._now_s())
        return JSONResponse({"acts": access.token is not None, "reads": access.reads_openly, "name": name})

    async def _sign_in(self, request: Request) -> Response:
        asked, given = _asked(request), await _body(request)
        name, token = str(given.get("name", "")), self._site.access.token
        assert token is not None, "the route is not there without it"
        if not access_rules.is_own_origin(asked):
            return _no("the request does not come from this page", 403)
        if not access_rules.is_name(name):
            return _no("a name has 1 to 64 letters, digits, '.', '_', '@', '-'", 400)
        if not access_rules.is_the_token(token, str(given.get("token", ""))):
            return _no("this is not the token", 403)
        answer = JSONResponse({"acts": True, "reads": self._site.access.reads_openly, "name": name})
        answer.set_cookie(
            COOKIE,
            access_rules.cookie_for(token, name, now_s=self._now_s()),
            max_age=int(LASTS.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _sign_out(self, request: Request) -> Response:
        answer = JSONResponse({"name": None})
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    async def _act(self, request: Request) -> Response:
        given = await _body(request)
        asked = _asked(request, by=str(given.get("by", "")))
        name = access_rules.actor_of(self._site.access, asked, now_s=self._now_s())
        if name is None:
            return _no("only an operator who is signed in, on this page or with the token, may do that", 403)
        scope, kind = Scope(request.path_params["scope"]), request.path_params["kind"]
        if kind not in ACTIONS or self._site.only not in (None, scope):
            return _no("there is no such action", 404)
        words = {word: str(given.get(word, "")) for word in ("member", "reason", "typed")}
        done = await asyncio.to_thread(
            act, self._site.client, Action(kind, scope, **words), by=name, clock=self._site.clock
        )
        return JSONResponse({"done": done})

    def _check_reader(self, request: Request) -> None:
        if not access_rules.may_read(self._site.access, _asked(request), now_s=self._now_s()):
            raise NotSignedIn("this page is for operators who are signed in", fix="sign in with the token")

    def _now_s(self) -> float:
        return self._site.clock.now().timestamp()


class NotSignedIn(TenureError):
    """The page is not open to everybody, and the request has neither a token nor a cookie."""


_STATUS: Final[tuple[tuple[type[TenureError], int], ...]] = (
    (NotSignedIn, 401),
    (TooManyViewers, 503),
    (UsageError, 409),
    (OutcomeUnknown, 503),
    (StoreUnavailable, 503),
)


async def _refused(request: Request, error: Exception) -> Response:
    return _no(str(error), next((code for kind, code in _STATUS if isinstance(error, kind)), 500))


def _no(why: str, code: int) -> Response:
    return JSONResponse({"error": why}, status_code=code)


async def _favicon(request: Request) -> Response:
    return Response((STATIC / "favicon.svg").read_bytes(), media_type="image/svg+xml")


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request. Raises UsageError. Only a page of the same site can send this type unasked."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UsageError("the request is no JSON", fix="send content-type: application/json")
    read = b""
    async for chunk in request.stream():
        read += chunk
        if len(read) > _BODY_MOST:
            raise UsageError("the request is too long", fix=f"send at most {_BODY_MOST} bytes")
    try:
        found = json.loads(read or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError("the request is no JSON object", fix="send one")
    return found


def _asked(request: Request, *, by: str = "") -> RequestFacts:
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    return RequestFacts(
        host=request.headers.get("host", ""),
        origin=request.headers.get("origin", ""),
        bearer=bearer.strip() if kind.lower() == "bearer" else "",
        cookie=request.cookies.get(COOKIE, ""),
        by=by,
    )


class _Guard:
    """Refuses foreign hosts, and adds the headers to every answer. It never buffers an answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        app: Callable[[Asgi, Receive, Send], Awaitable[None]] = self._app
        if scope["type"] == "http":
            hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
            if len(hosts) != 1 or not access_rules.is_known_host(hosts[0], self._access.hosts):
                app = _no("this page is not served under that name; see tenure ui --allow-host", 400)
        await app(scope, receive, sent)
