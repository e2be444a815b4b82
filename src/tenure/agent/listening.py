"""Listens at an address for HTTP, and serves an application on a thread of its own.

Promise: an address that cannot be listened at is a UsageError that names the flag, before anything runs. `close` ends
the server within seconds, also while answers without an end are under way.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Final

import uvicorn

from tenure.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_GRACE_S: Final = 2
"""How long open answers may take at the end."""


def parse_address(text: str, *, flag: str = "--http") -> tuple[str, int]:
    """The host and port of `HOST:PORT`, `:PORT` (all addresses) or `[::1]:8008`. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 65536:
        example = "127.0.0.1:8008" if flag == "--http" else "127.0.0.1:8600"
        raise UsageError(f"{flag} {text!r} is no address", fix=f"write HOST:PORT, for example {example}")
    return host.strip("[]"), int(port)


def listen(address: str, *, flag: str = "--http") -> socket.socket:
    """A socket that listens at the address. Raises UsageError: the address is malformed or not free."""
    host, port = parse_address(address, flag=flag)
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen()
    except OSError as error:
        found.close()
        raise UsageError(
            f"{flag} {address!r} cannot be listened at: {error.strerror or error}", fix="give a free address"
        ) from error
    return found


class HttpServer:
    """Serves until `close`."""

    def __init__(self, application: ASGIApp, listening: socket.socket, *, name: str) -> None:
        """Serve at once. `name`: of the thread."""
        self._socket = listening
        self.port: int = listening.getsockname()[1]
        """The port of the server; chosen by the system when the address has port 0."""
        config = uvicorn.Config(
            application,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name=name, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        self._thread.join(timeout=_GRACE_S + 3)
        self._socket.close()
