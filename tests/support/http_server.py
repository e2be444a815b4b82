"""The HTTP server behind every gate of the tests."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_LINES = 1024


class GateServer(ThreadingHTTPServer):
    """Listens on a port of loopback. A client may open many connections at once: those beyond the queue of a socket are
    dropped by the kernel, and the client's kernel tries again after 1, 3, 7, 15 and 31 s."""

    daemon_threads = True
    request_queue_size = _LINES

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
