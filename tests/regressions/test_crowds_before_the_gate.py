"""The gates of the tests and benches had a queue of five connections. delta-rs opens dozens at once, the kernel dropped
some, and a batch in S3 took 7 to 51 s more: the times after which a client's kernel tries a connection again."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from tests.kit.waiting import NEVER_S
from tests.s3 import Gate
from tests.support.api_gate import ApiGate

CROWD = 200


def test_a_crowd_of_connections_is_queued() -> None:
    server: Any = SimpleNamespace(port=1)
    gate = Gate(server)  # it listens, and does not accept yet
    with ExitStack() as stack:
        stack.callback(gate._http.server_close)
        address = ("127.0.0.1", int(gate.url.rpartition(":")[2]))
        for _ in range(CROWD):
            stack.enter_context(socket.create_connection(address, timeout=NEVER_S))


def test_the_gate_before_kubernetes_has_the_same_queue() -> None:
    server: Any = SimpleNamespace()
    with ApiGate(server) as api, Gate(SimpleNamespace(port=1)) as s3:  # type: ignore[arg-type]
        assert api._http.request_queue_size == s3._http.request_queue_size
