"""Ends the thread that served a query's calls into Python.

Each stream of Spark that calls `foreachBatch` has a thread in the JVM, and py4j keeps a connection and a Python thread
for it for as long as both processes live: one more of each for every query that was ever started. Promise: after
`end` they are gone. Call it when the query is stopped, for nobody can call over that connection any more.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from py4j.clientserver import ClientServerConnection


class CallerThread:
    """The thread of a query's calls, known once it has called."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None  # None: it has not called yet

    def note(self) -> None:
        """Called by the query's function: this very thread serves it."""
        if self._socket is None:
            serving = getattr(getattr(threading.current_thread(), "_target", None), "__self__", None)
            if isinstance(serving, ClientServerConnection):
                self._socket = serving.socket

    def end(self) -> None:
        """End the thread. Its connection is shut down, not closed: it is being read from."""
        if self._socket is not None:
            with suppress(OSError):  # it has ended already
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket = None
