"""The agent's warden: when the agent has died, it ends the session of the agent, after the driver's processes.

Promise: the warden is a shell that waits at a pipe. Only the agent holds the other end, so the pipe ends with the
agent, and not while the agent is stopped. The agent writes a charge into the pipe: its session, and its drivers. At the
end of the pipe, the shell starts `tenure.warden` with the last charge on its standard input. The charge is secret: it
goes through the two pipes, and stands in no argument, environment or file. Not promised: that the warden outlives its
machine, container or unit. Without a warden the session ends at its ttl.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Final, Self

from tenure.agent.child import Child, Start, environment_without_passwords
from tenure.agent.processes import process
from tenure.coordination.session import SessionKeeper
from tenure.link.words import Link

NAME: Final = "tenure-warden"
"""Stands in the command line of the shell, for people and tests that look at the processes."""

_WAIT: Final = """\
trap '' HUP INT QUIT TERM
unset charge line
while IFS= read -r line; do charge=$line; done
if [ -n "$charge" ]; then printf '%s\\n' "$charge" | "$@"; fi
"""
"""The signals reach every process of a terminal or a unit that ends. `unset`: a variable of the environment would go on
to the next program. A line that was cut off does not count. `printf` is a part of the shell, so its arguments are not
those of a process."""


@dataclass(frozen=True, slots=True)
class DriverMark:
    """A driver's process, which leads a session of processes. `began`: see `ProcessInfo`."""

    pid: int
    began: int


@dataclass(frozen=True, slots=True)
class Charge:
    """What a warden does once its agent is dead."""

    store: str = field(repr=False)
    """The URL of the store, with the password of its user."""
    session: str
    testament: str = field(repr=False)
    ttl_s: float
    drivers: tuple[DriverMark, ...]
    """The drivers whose processes may run. The session ends after all of them."""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Raises ValueError, TypeError."""
        fields = json.loads(line)
        return cls(**{**fields, "drivers": tuple(DriverMark(**mark) for mark in fields["drivers"])})


class Warden:
    """The agent's end of the pipe. Any thread may call it."""

    def __init__(self, command: Sequence[str], *, store: str) -> None:
        """`command`: gets the charge of a dead agent. `store`: the URL, with the password of its user."""
        self._command = command
        self._store = store
        self._lock = threading.Lock()  # guards the rest
        self._keeper: SessionKeeper | None = None  # None: no session is to be ended
        self._drivers: dict[int, DriverMark] = {}
        self._process: subprocess.Popen[bytes] | None = None  # None: not started, or closed
        self._pipe = -1

    def start(self) -> Self:
        """Start the shell."""
        listen, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT, NAME, *self._command],
                stdin=listen,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=environment_without_passwords(),
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(listen)
        return self

    @contextmanager
    def ending(self, keeper: SessionKeeper) -> Iterator[None]:
        """End this session, should the agent die within the block."""
        self._change(keeper)
        try:
            yield
        finally:
            self._change(None)

    def noting(self, start: Start) -> Start:
        """The start of a driver whose processes have to end before the session."""

        def started(member: str) -> Child:
            child = start(member)
            self.driver_started(child.pid)
            return _Noted(child, self)

        return started

    def driver_started(self, pid: int) -> None:
        """End the session only after this driver's processes. Called before the driver gets a term."""
        found = process(pid)
        with self._lock:
            if found is not None:
                self._drivers[pid] = DriverMark(pid, found.began)
            self._tell()

    def driver_ended(self, pid: int) -> None:
        """The driver's processes have ended, or were killed. Called before the kernel gives its id away."""
        with self._lock:
            if self._drivers.pop(pid, None) is not None:
                self._tell()

    def close(self) -> None:
        """End the shell. It does nothing any more."""
        with self._lock:
            ended, self._process = self._process, None
            if ended is not None:
                ended.kill()  # before its pipe ends
                ended.wait()
                os.close(self._pipe)

    def _change(self, keeper: SessionKeeper | None) -> None:
        with self._lock:
            self._keeper = keeper
            self._tell()

    def _tell(self) -> None:
        """Write the charge of now. A warden that does not read is killed: its charge may be old."""
        if self._process is None:
            return
        line = "\n"
        if self._keeper is not None:
            charge = Charge(
                self._store,
                str(self._keeper.session_id),
                self._keeper.testament,
                self._keeper.ttl.total_seconds(),
                tuple(self._drivers.values()),
            )
            line = charge.to_json() + "\n"
        try:
            written = os.write(self._pipe, line.encode())
        except OSError:
            written = 0
        if written < len(line):
            self._process.kill()


class _Noted:
    """A `Child` that the warden knows until it was killed."""

    def __init__(self, child: Child, warden: Warden) -> None:
        self._child = child
        self._warden = warden

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def link(self) -> Link:
        return self._child.link

    @property
    def end(self) -> int:
        return self._child.end

    def wait(self) -> str:
        return self._child.wait()

    def kill(self) -> None:
        self._child.kill()

    def reap(self) -> None:
        self._child.kill()
        self._warden.driver_ended(self.pid)  # before the kernel gives its id away
        self._child.reap()

    def clean_up(self) -> None:
        self._child.clean_up()
