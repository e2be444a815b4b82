"""A driver that is a thread of this process, at the other end of a real link.

Promise: the agent sees what it sees of a process: the words, the end of the link, and how the driver ended. Not
promised: that the thread of a driver that was killed stops at once; its writes are refused, as those of a late leader.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable

from tenure.clock import SystemClock
from tenure.driver.serving import Served, ServedPipeline
from tenure.link.words import Begin, Link


class ThreadChild:
    """A `Child` that is a thread."""

    def __init__(self, load: Callable[[Begin], ServedPipeline]) -> None:
        ours, theirs = socket.socketpair()
        self._link, self._theirs = Link(ours), Link(theirs)
        self.end, self._ends = os.pipe()
        self._lock = threading.Lock()  # guards the next two
        self._how: str | None = None  # None: it runs
        self._over = threading.Event()
        served = Served(self._theirs, load=load, clock=SystemClock(), orphaned=lambda: None)
        threading.Thread(target=self._serve, args=(served,), name="driver", daemon=True).start()

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def link(self) -> Link:
        return self._link

    def wait(self) -> str:
        self._over.wait()
        return self._how or ""

    def kill(self) -> None:
        self._end("signal SIGKILL")

    def reap(self) -> None:
        self._link.close()
        os.close(self.end)

    def clean_up(self) -> None: ...

    def _serve(self, served: Served) -> None:
        code: int | None = None
        try:
            code = served.run()
        finally:
            self._end(f"exit code {code}")

    def _end(self, how: str) -> None:
        with self._lock:
            if self._how is not None:
                return
            self._how = how
        self._theirs.close()
        os.close(self._ends)
        self._over.set()
