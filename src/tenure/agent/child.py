"""A driver's process: the leader of its own session and process group, with a warden in the group.

Promise: `kill` kills the group (the driver, its JVM and their children). The warden kills the group when the agent
ends, for any reason: the warden reads a pipe whose other end the agent holds, and the pipe closes with the agent. The
warden is a shell, so neither a blocked Python interpreter nor a hung JVM stops it. The driver's temporary folder is
removed when the whole group has ended (`driver_folder.py`). Not promised: a stopped process of the group that is
woken runs on until the signal reaches it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, Protocol

from tenure.agent.processes import processes
from tenure.link.driver_folder import DriverFolder
from tenure.link.words import Link
from tenure.settings import OF_STORE, OF_STORE_PASSWORD
from tenure.wording import has_password

_WARDEN = "read -r line; kill -KILL 0"
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_ENDS_WITHIN_MS = 10_000
"""A killed process gives back its memory before it ends."""


class Child(Protocol):
    """A started driver."""

    @property
    def pid(self) -> int:
        """The process id of the driver, and of its group."""

    @property
    def link(self) -> Link:
        """The agent's end of the link."""

    @property
    def end(self) -> int:
        """A descriptor that can be read once the driver has ended, until it is reaped."""

    def wait(self) -> str:
        """Wait until the driver has ended, and return how. Called once, by the thread that then calls `reap`."""

    def kill(self) -> None:
        """Kill the whole group without waiting for its end. The group may have ended already."""

    def reap(self) -> None:
        """After `wait`: kill the rest of the group, and release the process and the link."""

    def clean_up(self) -> None:
        """After `reap`, by the same thread: wait for the killed processes to end; remove the temporary folder."""


Start = Callable[[str], Child]
"""Starts a driver for the named member. Raises UsageError: the machine's temporary folder cannot be used."""


class ChildProcess:
    """A `Child` that is a process of this machine."""

    def __init__(self, command: Sequence[str], *, member: str, variables: Mapping[str, str] = _NONE) -> None:
        """Start `command` with two more arguments: the descriptors of the link and of the warden's pipe. `variables`:
        of its environment, beside ours. Raises UsageError like `Start`."""
        self._folder = DriverFolder.make(member)
        ours, theirs = socket.socketpair()
        listen, self._hold = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(listen)],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(), listen, self._folder.lock),
                env={**environment_without_passwords(), **variables, **self._folder.environment},
            )
        except BaseException:
            ours.close()
            os.close(self._hold)
            self._folder.remove()
            raise
        finally:
            theirs.close()
            os.close(listen)
        self.link: Final = Link(ours)
        self.end: Final = os.pidfd_open(self._process.pid)
        self._lock = threading.Lock()  # guards _killed
        self._killed = False
        self._ending: list[int] = []
        """Descriptors of killed processes that may not have ended yet."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> str:
        # `reap` reaps the process: the kernel gives the id of a zombie, and of its group, to no other process.
        status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        assert status is not None
        if status.si_code == os.CLD_EXITED:
            return f"exit code {status.si_status}"
        return f"signal {signal.Signals(status.si_status).name}"

    def kill(self) -> None:
        with self._lock:
            if not self._killed:
                self._killed = True
                try:
                    _kill_session(self._process.pid)
                finally:
                    os.close(self._hold)

    def reap(self) -> None:
        self.kill()
        self._ending = _opened_session(self._process.pid)
        self._process.wait()
        self.link.close()
        os.close(self.end)

    def clean_up(self) -> None:
        for descriptor in self._ending:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            ended.poll(_ENDS_WITHIN_MS)  # a process that the kernel cannot end now must not hold up the removal
            os.close(descriptor)
        self._folder.remove()


def become_child(link: int, warden: int) -> Link:
    """Called first in the driver's process: keep the descriptors from its children, and start the warden."""
    os.set_inheritable(link, False)
    os.set_inheritable(warden, False)
    if os.getpgrp() == os.getpid():  # else the group belongs to another process
        subprocess.Popen(["/bin/sh", "-c", _WARDEN], stdin=warden, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(warden)
    return Link(socket.socket(fileno=link))


def environment_without_passwords() -> dict[str, str]:
    """Our environment without the password of the store, which the agent sends by other ways: a driver starts the JVM
    and the workers of Spark, and runs the code of the pipeline."""
    kept = {name: value for name, value in os.environ.items() if name != OF_STORE_PASSWORD}
    if has_password(kept.get(OF_STORE, "")):
        del kept[OF_STORE]
    return kept


def _opened_session(leader: int) -> list[int]:
    """Descriptors of the processes of a session but its leader. The leader is not reaped yet, so no other session has
    its id."""
    opened: list[int] = []
    for process in processes():
        if process.session == leader and process.pid != leader:
            with suppress(ProcessLookupError):
                opened.append(os.pidfd_open(process.pid))
    return opened


def _kill_session(leader: int) -> None:
    """Kill the group, then the rest of the session: Spark's Python workers make a group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    for process in processes():
        if process.session == leader:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
