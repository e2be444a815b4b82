"""S3 for a test: a real server reached by the environment, directly or through a gate that refuses, loses and hangs."""

from __future__ import annotations

import http.client
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final, Protocol, Self

import fsspec.config
import pytest
import s3fs

from tests.kit.servers.seaweedfs import environment
from tests.kit.waiting import NEVER_S
from tests.support.http_server import GateServer

PASS, SLOW_DOWN, DENY, MISSING, LOSE, CUT, HANG = "pass", "slow down", "deny", "missing", "lose", "cut", "hang"
CLAIM = "claim"
"""What the gate does with a request: let it through; answer 503, 403 or 404 in the server's stead; let it through and
lose the answer, or its second half; let the client wait; claim that it is done."""

_INSTEAD: Final = {SLOW_DOWN: (503, "SlowDown"), DENY: (403, "AccessDenied"), MISSING: (404, "NoSuchBucket")}
HANGS_S: Final = 2
"""A client of a gate takes a server that says nothing for so long for one that hangs."""
SLOW_S: Final = 0.5
"""So often the gate says to a client that the server is slow."""


@contextmanager
def reached(url: str, patch: pytest.MonkeyPatch, *, patience_s: float = NEVER_S) -> Iterator[None]:
    """s3fs speaks to this endpoint within the block, and waits so long for an answer. It tries again as s3fs does, not
    as botocore does as well."""
    for name, value in environment(url).items():
        patch.setenv(name, value)
    client = {"connect_timeout": 20, "read_timeout": patience_s, "retries": {"total_max_attempts": 1}}
    patch.setitem(fsspec.config.conf, "s3", {"config_kwargs": client})
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        yield
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


class HasPort(Protocol):
    """A server on loopback."""

    @property
    def port(self) -> int: ...


class Gate:
    """Stands before a server. `rule` says what becomes of a request (`GET`, `/bucket/key?...`); everything passes
    until a test says otherwise."""

    def __init__(self, server: HasPort) -> None:
        self.rule: Callable[[str, str], str] = lambda method, path: PASS
        self.seen: list[tuple[str, str, str]] = []
        """Method, path and what became of it."""
        self._closed = threading.Event()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    self.raw_requestline = self.rfile.readline(65537)
                except ConnectionResetError:  # the client has gone
                    self.raw_requestline = b""
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                gate.handle(self, server.port)

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 # the base class names it so

        self._http = GateServer(Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def became(self, what: str) -> int:
        """How many requests this became of."""
        return sum(1 for _, _, became in self.seen if became == what)

    def handle(self, request: BaseHTTPRequestHandler, port: int) -> None:
        """One request."""
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        what = self.rule(request.command, request.path)
        self.seen.append((request.command, request.path, what))
        if what == HANG:
            self._closed.wait(NEVER_S)
            request.close_connection = True
            return
        if what in _INSTEAD:
            status, code = _INSTEAD[what]
            _answer(request, status, f"<Error><Code>{code}</Code><Message>of the gate</Message></Error>".encode(), {})
            return
        if what == CLAIM:
            _answer(request, HTTPStatus.OK, b"", {"ETag": '"of the gate"'})
            return
        behind = http.client.HTTPConnection("127.0.0.1", port, timeout=NEVER_S)
        try:
            behind.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                behind.putheader(name, value)
            behind.endheaders(body)
            answers = select.poll()  # `select` takes no descriptor above 1,023, and a crowd has more
            answers.register(behind.sock, select.POLLIN)
            while not answers.poll(SLOW_S * 1000):
                request.send_response_only(HTTPStatus.CONTINUE)  # a server that is slow does not hang
                request.end_headers()
            answer = behind.getresponse()
            content = answer.read()
        finally:
            behind.close()
        if what == LOSE:
            request.close_connection = True
            return
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in _OF_THE_LINE}
        if request.command == "HEAD":
            kept["Content-Length"] = answer.getheader("Content-Length") or "0"
        if what == CUT:
            kept["Content-Length"] = str(len(content))
            content = content[: len(content) // 2]
            request.close_connection = True
        _answer(request, answer.status, content, kept)


_OF_THE_LINE: Final = {"connection", "transfer-encoding", "content-length", "date", "server"}


def _answer(request: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str]) -> None:
    request.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        request.send_header(name, value)
    request.end_headers()
    if request.command != "HEAD":  # a body would be read as the head of the next answer
        request.wfile.write(content)
