"""Kills or stops a part of a member from inside, at an exact moment: the host, the driver with its JVM, or the agent.

Promise: the thread that strikes does nothing after the strike, when it belongs to the part.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from contextlib import suppress

from tenure.agent.processes import process, processes
from tests.kit.members import drivers_of, wardens_of
from tests.kit.process import is_stopped
from tests.kit.waiting import wait_until

DRIVER_WORD = "driver"
"""The first argument of the driver's command."""


def strike(number: signal.Signals, part: str) -> None:
    """Send a signal (SIGKILL, SIGSTOP) to a part of this member (`host`, `driver`, `agent`).

    The agent goes first: it must not notice the end of its driver. This thread goes last, by its own id: any thread may
    take a signal to the process, and this thread would run on into the transaction that it must not begin.
    """
    here_is_agent = not is_driver()
    agent = os.getpid() if here_is_agent else os.getppid()
    group = next(iter(drivers_of(agent)), None) if here_is_agent else os.getpgrp()  # of the driver; None: no driver
    if part == "host":
        for warden in wardens_of(agent):
            os.kill(warden, number)
    if part in ("host", "agent") and not here_is_agent:
        os.kill(agent, number)
        wait_until(lambda: process(agent) is None or (number == signal.SIGSTOP and is_stopped(agent)))
    if part in ("host", "driver") and group is not None:
        for one in processes():
            if one.group == group and one.pid != os.getpid():
                with suppress(ProcessLookupError):
                    os.kill(one.pid, number)
    if part == "host" or here_is_agent == (part == "agent"):
        signal.pthread_kill(threading.get_ident(), number)


def is_driver() -> bool:
    """Whether this process is the driver of a member that was launched with faults."""
    return sys.argv[1:2] == [DRIVER_WORD]


class Turn:
    """One call to the store at a time, in all processes of one member. So a strike stops no other thread or process in
    a call: a SQLite writer that is stopped in its transaction would hold up the successor."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._depth = 0  # guarded by _lock
        self._file: int | None = None  # guarded by _lock

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1 and self._path is not None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._file is not None:
            os.close(self._file)
            self._file = None
        self._lock.release()
