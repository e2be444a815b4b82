"""A driver's process: the leader of a session and process group of its own, and the warden in it.

Promise: the group (driver, JVM, what they started) is killed by `kill`, and also when the agent ends, whatever ends
it: a warden in the group waits at a pipe whose other end the agent holds, and kills the group when it closes. The
warden is a shell that reads one line: it needs no interpreter that is held, and no JVM that answers. Its temporary
folder is removed when all of the group have ended (`driver_folder.py`). Not promised: a process of the group that is
stopped runs on when it is woken, until the signal reaches it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from tenure.agent.processes import processes
from tenure.link.driver_folder import DriverFolder
from tenure.link.words import Link

_WARDEN = "read -r line; kill -KILL 0"
_ENDS_WITHIN_MS = 10_000
"""A process that was killed gives back its memory first."""


class Child(Protocol):
    """A driver that was started."""

    @property
    def pid(self) -> int:
        """The id of its process, which is that of its group."""
        ...

    @property
    def link(self) -> Link:
        """The agent's end of the link."""
        ...

    def wait(self) -> str:
        """Wait until it has ended; say how. Called once, by the thread that then calls `bury`."""
        ...

    def kill(self) -> None:
        """Kill its whole group, without waiting for the end. Killing one that is gone is fine."""
        ...

    def bury(self) -> None:
        """After `wait`: kill what it left behind, and release what was held for it."""
        ...

    def clear(self) -> None:
        """After `bury`, by the same thread: wait for the end of what was killed, and remove its temporary folder."""
        ...


Start = Callable[[str], Child]
"""Starts a driver of a member. Raises UsageError: the machine's temporary folder cannot be used."""


class ChildProcess:
    """A `Child` that is a process. Made by the agent."""

    def __init__(self, command: Sequence[str], *, member: str) -> None:
        """`command` gets two more arguments: the descriptors of the link and of the warden's pipe. Raises UsageError:
        the machine's temporary folder cannot be used."""
        self._folder = DriverFolder.make(member)
        ours, theirs = socket.socketpair()
        listen, self._hold = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(listen)],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(), listen, self._folder.lock),
                env={**os.environ, **self._folder.environment},
            )
        except BaseException:
            ours.close()
            os.close(self._hold)
            self._folder.remove()
            raise
        finally:
            theirs.close()
            os.close(listen)
        self._link = Link(ours)
        self._lock = threading.Lock()  # guards _killed
        self._killed = False
        self._left: list[int] = []
        """Descriptors of processes that were killed, and may not have ended."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def link(self) -> Link:
        return self._link

    def wait(self) -> str:
        # It is reaped in `bury`: as long as it is a zombie, its id and that of its group belong to nobody else.
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        assert found is not None
        if found.si_code == os.CLD_EXITED:
            return f"exit code {found.si_status}"
        return f"signal {signal.Signals(found.si_status).name}"

    def kill(self) -> None:
        with self._lock:
            if not self._killed:
                self._killed = True
                try:
                    _kill_session(self._process.pid)
                finally:
                    os.close(self._hold)

    def bury(self) -> None:
        self.kill()
        self._left = _opened_session(self._process.pid)
        self._process.wait()
        self._link.close()

    def clear(self) -> None:
        for one in self._left:
            ended = select.poll()
            ended.register(one, select.POLLIN)
            ended.poll(_ENDS_WITHIN_MS)  # one that the kernel cannot end now is not waited for: nobody removes for it
            os.close(one)
        self._folder.remove()


def become_child(link: int, warden: int) -> Link:
    """In the driver's process, before anything else: keep the descriptors from its children, start the warden."""
    os.set_inheritable(link, False)
    os.set_inheritable(warden, False)
    if os.getpgrp() == os.getpid():  # else the group is somebody else's
        subprocess.Popen(["/bin/sh", "-c", _WARDEN], stdin=warden, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(warden)
    return Link(socket.socket(fileno=link))


def _opened_session(leader: int) -> list[int]:
    """Descriptors of the processes of a session, which its leader, not reaped yet, keeps for itself."""
    opened: list[int] = []
    for one in processes():
        if one.session == leader and one.pid != leader:
            with suppress(ProcessLookupError):
                opened.append(os.pidfd_open(one.pid))
    return opened


def _kill_session(leader: int) -> None:
    """Kill the group, then what is left of the session: Spark's Python workers make a group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for one in processes():
        if one.session == leader:
            with suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGKILL)
