"""The places of a run's members: each holds one member process, and after its end the next one of the same name."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tenure.agent.processes import processes
from tests.kit.members import MemberProcess, pause_process
from tests.soak.journal import Journal

_NEVER_READY = 9
"""The exit code of a member whose driver died before it was ready for the first time."""

_RESIGNED = ("TermEnded", "DriverEnded")


@dataclass(slots=True)
class Slot:
    """One place."""

    name: str
    member: MemberProcess
    since: int
    """The position in the journal at which the process was started."""
    struck: int = 0
    """The position at which something was done to it last: what it was before counts no more."""
    paused: bool = False
    expect: set[int] = field(default_factory=set)
    """The exit codes with which it may end: those of what was done to it."""
    again_s: float = 0.0
    """How long after its end the next process is started."""
    until_idle: bool = False
    """Whether this process ends by idleness."""
    next_until_idle: bool = False
    """Whether the next one shall."""
    down_since_s: float | None = None
    """When its end was seen; None: it runs."""
    stay_down: bool = False

    @property
    def running(self) -> bool:
        return self.member.running

    def leads(self, journal: Journal) -> int | None:
        """The epoch of the term that it won and has not lost, as far as it said; None: it leads not."""
        found = journal.last("TermWon", *_RESIGNED, since=max(self.since, self.struck), member=self.name)
        if not self.running or found is None or found[1].kind != "TermWon":
            return None
        return int(found[1].fields["epoch"])

    def able(self, journal: Journal) -> bool:
        """Whether it has a driver that is up, and is not paused."""
        found = journal.last("MemberReady", "DriverStarted", "DriverEnded", since=self.since, member=self.name)
        ready = found is not None and found[1].kind == "MemberReady"
        return self.running and not self.paused and ready and self.driver() is not None

    def was_ready(self, journal: Journal) -> bool:
        """Whether it was ever ready."""
        return journal.last("MemberReady", since=self.since, member=self.name) is not None

    def driver(self) -> int | None:
        """The process id of its driver; None: there is none."""
        return self.member.driver() if self.running else None

    def kill(self, part: str, journal: Journal) -> str:
        """Kill a part of it; return what was killed: all of it, where that part does not run."""
        self.struck = len(journal.events)
        driver = self.driver()
        if part == "agent" and self.running:
            self.expect.add(-signal.SIGKILL)
            os.kill(self.member.pid, signal.SIGKILL)
            return part
        if part in ("driver", "jvm") and driver is not None:
            if not self.was_ready(journal):
                self.expect.add(_NEVER_READY)
            jvms = _jvms_of(driver)
            with suppress(ProcessLookupError):
                if part == "jvm" and jvms:
                    os.kill(jvms[0], signal.SIGKILL)
                else:
                    os.killpg(driver, signal.SIGKILL)
            return part
        self.expect.add(-signal.SIGKILL)
        self.member.kill()
        return "host"

    def pause(self, part: str, journal: Journal) -> None:
        """Stop a part of it."""
        self.struck = len(journal.events)
        self.paused = True
        driver = self.driver()
        with suppress(ProcessLookupError):  # it has ended meanwhile
            if part == "agent":
                pause_process(self.member.pid)
            elif part == "driver" and driver is not None:
                os.killpg(driver, signal.SIGSTOP)
            else:
                self.member.pause()

    def wake(self) -> None:
        """Let it go on."""
        self.paused = False
        if self.running:
            with suppress(ProcessLookupError):
                self.member.wake()

    def terminate(self, journal: Journal) -> None:
        """Ask it to end."""
        self.struck = len(journal.events)
        self.expect.add(0)
        if not self.was_ready(journal):
            self.expect.add(-signal.SIGTERM)  # it may not have come to its handlers yet
        if self.running:
            self.member.terminate()

    def last_words(self) -> str:
        """The line that says why it ended, or the last one that it printed."""
        lines = [line for line in self.member.output().splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("tenure: error: ")]
        return (errors or lines or [""])[-1]


def _jvms_of(driver: int) -> list[int]:
    """The JVMs in the driver's process group."""
    found = []
    for one in processes():
        if one.group == driver:
            with suppress(OSError):
                if Path(f"/proc/{one.pid}/comm").read_text().strip() == "java":
                    found.append(one.pid)
    return found
