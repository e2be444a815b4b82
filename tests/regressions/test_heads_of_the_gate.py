"""The gate of the S3 tests answered a HEAD with a body. The client kept the line, read the body as the head of the next
answer, and gave up after a minute."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from tests.kit.waiting import NEVER_S
from tests.s3 import DENY, Gate


def test_the_next_answer_follows_the_head_of_a_refused_head() -> None:
    nobody: Any = SimpleNamespace(port=0)
    with Gate(nobody) as gate:
        gate.rule = lambda method, path: DENY
        address = ("127.0.0.1", urlsplit(gate.url).port)
        with socket.create_connection(address, timeout=NEVER_S) as line, line.makefile("rb") as answers:
            line.sendall(b"HEAD /bucket/key HTTP/1.1\r\nHost: here\r\n\r\n")
            assert answers.readline() == b"HTTP/1.1 403 Forbidden\r\n"
            while answers.readline() != b"\r\n":
                pass
            line.sendall(b"GET /bucket/key HTTP/1.1\r\nHost: here\r\n\r\n")
            assert answers.readline() == b"HTTP/1.1 403 Forbidden\r\n"
