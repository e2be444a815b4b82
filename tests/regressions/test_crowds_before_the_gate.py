"""The gates of the tests and benches had a queue of five connections. delta-rs opens hundreds at once, the kernel
dropped some, and a batch in S3 took 7 to 51 s more: the times after which a client's kernel tries a connection again.
With a longer queue the gate met descriptors above 1,023, which `select` refuses."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kit.servers import SeaweedFs
from tests.kit.servers.seaweedfs import BUCKET
from tests.kit.waiting import NEVER_S
from tests.s3 import Gate
from tests.support.api_gate import ApiGate

CROWD = 200
SELECTABLE = 1024


def test_a_crowd_of_connections_is_queued() -> None:
    server: Any = SimpleNamespace(port=1)
    gate = Gate(server)  # it listens, and does not accept yet
    with ExitStack() as stack:
        stack.callback(gate._http.server_close)
        address = ("127.0.0.1", int(gate.url.rpartition(":")[2]))
        for _ in range(CROWD):
            stack.enter_context(socket.create_connection(address, timeout=NEVER_S))


def test_an_answer_comes_over_any_descriptor(seaweedfs: SeaweedFs) -> None:
    with ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * SELECTABLE), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        gate = stack.enter_context(Gate(seaweedfs))
        for _ in range(SELECTABLE):
            stack.enter_context(open(os.devnull, "rb"))
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{gate.url}/{BUCKET}/nothing", timeout=NEVER_S)
        refused.value.close()
        assert refused.value.code in (403, 404), "the answer of the server"


def test_the_gate_before_kubernetes_has_the_same_queue() -> None:
    server: Any = SimpleNamespace(port=1)
    with ApiGate(server) as api, Gate(server) as s3:
        assert api._http.request_queue_size == s3._http.request_queue_size
