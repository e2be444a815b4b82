"""A TCP proxy that breaks lines in the ways that networks do, at will.

Promise: what it lets through is passed on unchanged and in order. Each way to break is in force from the call on, for
the lines that are there and for those that come. `drop_reply` makes the unknown outcome: the next request is passed
on, what the server says after it is not, and the line is broken once that was the reply.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

_CHUNK: Final = 65536
_RESET: Final = struct.pack("ii", 1, 0)
"""Close a line with a reset, as a host that has forgotten it."""


class TcpProxy:
    """Listens on a port of loopback and passes on to `target` (host, port)."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: Final = int(self._server.getsockname()[1])
        self._lock = threading.Lock()  # guards the six below
        self._lines: set[_Line] = set()
        self._refusing = False
        self._matches: Callable[[bytes], bool] | None = None  # None: no reply is to be dropped
        self._is_reply: Callable[[bytes], bool] = bool
        self._closed = False
        self.accepted = 0
        """How many lines were let in so far."""
        self._flowing = threading.Event()
        self._flowing.set()
        self._delivering = threading.Event()
        self._delivering.set()
        self.dropped: Final = threading.Event()
        """A reply was dropped."""
        threading.Thread(target=self._accept, name="tenure-proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def lines(self) -> int:
        """How many there are."""
        with self._lock:
            return len(self._lines)

    def cut(self) -> None:
        """Break every line, and refuse new ones."""
        with self._lock:
            self._refusing = True
            lines = set(self._lines)
        for line in lines:
            line.reset()

    def break_lines(self) -> None:
        """Break every line; new ones are let in."""
        with self._lock:
            lines = set(self._lines)
        for line in lines:
            line.reset()

    def heal(self) -> None:
        """Pass everything on again."""
        with self._lock:
            self._refusing = False
            self._matches = None
        self.dropped.clear()
        self._flowing.set()
        self._delivering.set()

    def hold(self) -> None:
        """Pass nothing on, in either direction, until `heal`; the lines stay."""
        self._flowing.clear()

    def hold_requests(self) -> None:
        """Take requests, and keep them until `heal`; replies are passed on."""
        self._delivering.clear()

    def drop_reply(
        self, matches: Callable[[bytes], bool], *, is_reply: Callable[[bytes], bool] = lambda data: True
    ) -> None:
        """Pass the next request that matches on, and none of what the server says after it; break the line once that
        was a reply: where the server says other things too, it may not have done yet what it was asked for."""
        self.dropped.clear()
        with self._lock:
            self._matches, self._is_reply = matches, is_reply

    def close(self) -> None:
        """End every line and stop to listen."""
        with self._lock:
            self._closed = True
        self.cut()
        self.heal()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with self._lock:
                refusing = self._refusing or self._closed
            if refusing:
                _reset(client)
                continue
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                _reset(client)
                continue
            server.settimeout(None)
            line = _Line(client, server)
            with self._lock:
                self._lines.add(line)
                self.accepted += 1
            for source, sink, is_request in ((client, server, True), (server, client, False)):
                threading.Thread(
                    target=self._pump, args=(line, source, sink, is_request), name="tenure-proxy-line", daemon=True
                ).start()

    def _pump(self, line: _Line, source: socket.socket, sink: socket.socket, is_request: bool) -> None:
        try:
            while True:
                select.select([source], [], [])
                self._flowing.wait()
                data = source.recv(_CHUNK)
                if not data:
                    break
                if is_request:
                    self._delivering.wait()
                    self._arm(line, data)
                elif line.mute:
                    if self._is_reply(data):
                        self.dropped.set()
                        break
                    continue
                sink.sendall(data)
        except (OSError, ValueError):
            pass  # it was broken, here or there
        line.reset()
        with self._lock:
            self._lines.discard(line)
        line.leave()

    def _arm(self, line: _Line, request: bytes) -> None:
        with self._lock:
            if self._matches is not None and self._matches(request):
                self._matches = None
                line.mute = True


class _Line:
    """A client's line and ours to the server. Two threads use both; the last closes them: the number of a socket that
    is closed belongs to the next, and a thread that was about to wait for the old line would wait for another."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.mute = False
        """What the server says is dropped from now on."""
        self._users = 2
        self._lock = threading.Lock()  # guards the count

    def reset(self) -> None:
        """Break it at both ends."""
        _break(self.client)
        _break(self.server)

    def leave(self) -> None:
        """A thread is done with it."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        self.client.close()
        self.server.close()


def _reset(line: socket.socket) -> None:
    _break(line)
    line.close()


def _break(line: socket.socket) -> None:
    with suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        line.shutdown(socket.SHUT_RDWR)
