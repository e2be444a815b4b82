"""Ends the thread that served a query's calls into Python.

Each stream that calls `foreachBatch` has a thread in the JVM. py4j keeps a connection and a Python thread for it until
one of the processes ends, so both add up with every started query. Promise: after `end` they are gone. Call `end` when
the query is stopped: no call can use the connection any more.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from py4j.clientserver import ClientServerConnection


class CallerThread:
    """The thread of a query's calls, known after the first call."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None  # None: no call yet

    def note(self) -> None:
        """Note the current thread. The query's function calls this."""
        if self._socket is None:
            serving = getattr(getattr(threading.current_thread(), "_target", None), "__self__", None)
            if isinstance(serving, ClientServerConnection):
                self._socket = serving.socket

    def end(self) -> None:
        """End the thread. Its connection is shut down, not closed, as the thread reads from it."""
        if self._socket is not None:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket = None
