"""The gate of the S3 tests kept silent while its server was slow. The client takes a server that is silent for two
seconds for one that hangs. It gave up an answer that was on its way."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.storage.s3 import S3
from tests.kit.waiting import NEVER_S
from tests.s3 import HANGS_S, SLOW_S, Gate, reached


def test_the_client_waits_for_a_server_that_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Event()
    said: list[int] = []
    say = BaseHTTPRequestHandler.send_response_only

    def counted(self: BaseHTTPRequestHandler, code: int, message: str | None = None) -> None:
        say(self, code, message)
        said.append(code)
        if said.count(HTTPStatus.CONTINUE) * SLOW_S > 2 * HANGS_S:
            late.set()

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert late.wait(NEVER_S)
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"abc")

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 # the base class names it so

    monkeypatch.setattr(BaseHTTPRequestHandler, "send_response_only", counted)
    with HTTPServer(("127.0.0.1", 0), Slow) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        slow: Any = SimpleNamespace(port=server.server_address[1])
        with Gate(slow) as gate, reached(gate.url, monkeypatch, patience_s=HANGS_S):
            assert S3("s3://bucket/rows").read("a") == b"abc"
            assert gate.became("pass") == 1, "the client asks once"
        server.shutdown()
