"""A gate before the API server, which counts requests, refuses them, and loses answers, at will.

Promise: a request that it lets through reaches the server once, with its token, and watches are passed on event by
event. It speaks HTTP without TLS to its clients, so that a kubeconfig with its address is enough.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, Self

from tests.kit.servers import KubernetesServer
from tests.kit.waiting import NEVER_S
from tests.support.http_server import GateServer

_HOP: Final = ("connection", "transfer-encoding", "content-length", "host", "keep-alive")
_CHUNK: Final = 65536


class Rule:
    """What becomes of the next requests whose method, path and body match."""

    def __init__(self, pattern: str, times: int, *, body: str = "") -> None:
        self._pattern = re.compile(pattern)
        self._body = re.compile(body)
        self._left = times
        self._lock = threading.Lock()
        self.used: Final = threading.Event()
        """It was applied at least once."""
        self.status: int | None = None  # None: the request is passed on
        self.headers: Mapping[str, str] = {}
        self.loses_answer = False
        self.meanwhile: Callable[[], object] | None = None  # None: nothing happens before it is passed on

    def end(self) -> None:
        """Apply it no more."""
        with self._lock:
            self._left = 0

    def applies(self, request: str, body: str) -> bool:
        """Whether it is for this request, `METHOD path?query`."""
        with self._lock:
            if self._left <= 0 or not self._pattern.search(request) or not self._body.search(body):
                return False
            self._left -= 1
        self.used.set()
        return True


class ApiGate:
    """Listens on a port of loopback before the server."""

    def __init__(self, server: KubernetesServer) -> None:
        self.server: Final = server
        self._rules: list[Rule] = []
        self._lock = threading.Lock()  # guards the four below
        self.requests: Counter[str] = Counter()
        """`METHOD configmaps` and the like -> how many were passed on or refused; a watch is `WATCH leases`."""
        self.statuses: Counter[int] = Counter()
        self._lines: set[Any] = set()
        self._silent: set[Any] = set()  # lines on which nothing is passed on
        self.token: str | None = None
        """The only token that is accepted; None: the server judges."""
        self._http = GateServer(self._handler())
        self.url: Final = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, name="api-gate", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self.break_lines()

    def kubeconfig(self, user: str = "admin") -> Path:
        """A kubeconfig whose server is the gate."""
        direct = self.server.kubeconfig(user)
        settings = json.loads(direct.read_text(encoding="utf-8"))
        settings["clusters"][0]["cluster"] = {"server": self.url}
        path = direct.with_name(f"gate-{self._http.server_port}-{direct.name}")
        path.write_text(json.dumps(settings), encoding="utf-8")
        return path

    def refuse(self, pattern: str, status: int, *, times: int = 1, headers: Mapping[str, str] | None = None) -> Rule:
        """Answer the next requests by a status, and pass nothing on."""
        rule = Rule(pattern, times)
        rule.status, rule.headers = status, headers or {}
        return self._add(rule)

    def lose_answer(self, pattern: str, *, times: int = 1) -> Rule:
        """Pass the next requests on, and break the line in the place of the answer."""
        rule = Rule(pattern, times)
        rule.loses_answer = True
        return self._add(rule)

    def before(self, pattern: str, happens: Callable[[], object], *, body: str = "", times: int = 1) -> Rule:
        """Let something happen when the next request has come, before it is passed on. `body`: what such a request has
        in its body."""
        rule = Rule(pattern, times, body=body)
        rule.meanwhile = happens
        return self._add(rule)

    def break_lines(self) -> None:
        """Break every line that is open."""
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            with suppress(OSError):
                line.shutdown(2)

    def swallow(self) -> None:
        """Pass nothing on to the watches that are open, not even their end."""
        with self._lock:
            self._silent |= self._lines

    def _add(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    def _rule_for(self, request: str, body: str) -> Rule | None:
        with self._lock:
            rules = list(self._rules)
        return next((rule for rule in rules if rule.applies(request, body)), None)

    def _count(self, method: str, path: str, status: int) -> None:
        kind = next((kind for kind in ("configmaps", "leases") if f"/{kind}" in path), "other")
        with self._lock:
            self.requests["WATCH " + kind if "watch=true" in path else f"{method} {kind}"] += 1
            self.statuses[status] += 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10 * NEVER_S

            def setup(self) -> None:
                super().setup()
                with gate._lock:
                    gate._lines.add(self.connection)

            def finish(self) -> None:
                with gate._lock:
                    gate._lines.discard(self.connection)
                with suppress(OSError):
                    super().finish()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the library's name
                """Say nothing."""

            def handle(self) -> None:
                with suppress(OSError):
                    super().handle()

            def answer(self) -> None:
                """Pass a request on, unless a rule says otherwise."""
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                told = self.headers.get("Authorization", "").partition(" ")[2]
                if gate.token is not None and told != gate.token:
                    self.say(401, {}, b'{"message":"the gate does not know this token"}')
                    return
                rule = gate._rule_for(f"{self.command} {self.path}", body.decode())
                if rule is not None and rule.status is not None:
                    gate._count(self.command, self.path, rule.status)
                    self.say(rule.status, rule.headers, b'{"message":"refused by the gate"}')
                    return
                if rule is not None and rule.meanwhile is not None:
                    rule.meanwhile()
                self.pass_on(body, loses_answer=rule is not None and rule.loses_answer)

            def pass_on(self, body: bytes, *, loses_answer: bool) -> None:
                context = ssl.create_default_context(cafile=gate.server.authority)
                upstream = http.client.HTTPSConnection(
                    "127.0.0.1", gate.server.port, context=context, timeout=10 * NEVER_S
                )
                headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
                try:
                    upstream.request(self.command, self.path, body=body or None, headers=headers)
                    response = upstream.getresponse()
                    gate._count(self.command, self.path, response.status)
                    if loses_answer:
                        response.read()
                        self.close_connection = True
                        self.connection.shutdown(2)
                    elif "watch=true" in self.path and response.status == 200:
                        self.stream(response)
                    else:
                        kept = {k: v for k, v in response.getheaders() if k.lower() not in _HOP}
                        self.say(response.status, kept, response.read())
                except (OSError, http.client.HTTPException):
                    self.close_connection = True
                    with suppress(OSError):
                        self.connection.shutdown(2)
                finally:
                    upstream.close()

            def say(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def stream(self, response: http.client.HTTPResponse) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while chunk := response.read1(_CHUNK):
                    if self.connection not in gate._silent:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                        self.wfile.flush()
                if self.connection in gate._silent:
                    self.rfile.read(1)  # until the client ends the line
                    self.close_connection = True
                    return
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = answer  # noqa: N815 # the library's names

        return Handler
