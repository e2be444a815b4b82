"""The proxy of the tests closed a line's sockets under the threads that passed it on. A thread that was about to wait
for such a socket waited for the next socket of the same number, for good, and the line counted as there."""

from __future__ import annotations

import socket
from contextlib import closing

from tests.kit.waiting import NEVER_S, wait_until
from tests.support.proxy import TcpProxy


def test_a_broken_line_keeps_its_sockets_while_a_thread_uses_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, TcpProxy(server.getsockname()) as proxy:
        with closing(socket.create_connection(("127.0.0.1", proxy.port), timeout=NEVER_S)) as client:
            far, _ = server.accept()
            with closing(far):
                far.settimeout(NEVER_S)
                client.sendall(b"through")
                assert far.recv(7) == b"through"
                (line,) = proxy._lines
                proxy.hold()
                client.sendall(b"held")  # the thread has seen it, and waits
                proxy.break_lines()
                assert -1 not in (line.client.fileno(), line.server.fileno())
                assert far.recv(1) == b"", "it is broken at once all the same"
                proxy.heal()
                wait_until(lambda: (line.client.fileno(), line.server.fileno()) == (-1, -1), what="the last thread")
        assert proxy.lines == 0
