"""A driver that is a process, the terms that it gets, and what it starts."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from tenure.agent.child import ChildProcess
from tenure.agent.driver_process import DriverProcess, Patience
from tenure.clock import SystemClock
from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.events import BatchCommitted, Event, Events
from tenure.link.words import Begin
from tests.agents import scripted
from tests.kit.waiting import NEVER_S, wait_until

CLOCK = SystemClock()
SCRIPTED = (sys.executable, scripted.__file__)
FOREVER = float("inf")


class Scene:
    """A driver, the terms that it gets, and the processes that it started."""

    def __init__(self, folder: Path) -> None:
        self.pids_file = folder / "pids"
        self.told: list[Event] = []
        self.stop, self.finish = threading.Event(), threading.Event()
        self.drivers: list[DriverProcess] = []
        self._epoch = 0

    def driver(self, *, patience: float = NEVER_S, silence: float = NEVER_S, **words: Any) -> DriverProcess:
        """A driver that is not started yet; its `words` are those of `scripted.py`."""
        made = DriverProcess(
            start=lambda member: ChildProcess(SCRIPTED, member=member),
            begin=Begin({"lead": "obey", "pids": str(self.pids_file), **words}, "rows.py", until_idle=False),
            member="anna",
            patience=Patience(stop=timedelta(seconds=patience), silence=timedelta(seconds=silence)),
            clock=CLOCK,
            events=Events(self.told.append),
            driver_events=Events(self.told.append),
        )
        self.drivers.append(made)
        return made

    def ready(self, **words: Any) -> DriverProcess:
        """A driver that can lead."""
        made = self.driver(**words)
        assert made.prepare(scope="rows", stop=self.stop)
        return made

    def term(self, *, seconds: float = FOREVER) -> Term:
        """A term that may be believed in for so long."""
        self._epoch += 1
        liveness = Liveness(clock=CLOCK, until_s=CLOCK.monotonic_s() + seconds)
        return Term(Scope("rows"), self._epoch, "anna", Version("1"), Version("1"), liveness)

    def processes(self) -> list[psutil.Process]:
        """The driver's process, what stands for its JVM, and what stands for Spark's workers (another group)."""
        wait_until(lambda: self.pids_file.exists() and self.pids_file.read_text().count(" ") == 2)
        return [psutil.Process(int(pid)) for pid in self.pids_file.read_text().split()]

    def at_the_first_batch(self, act: Callable[[], None]) -> None:
        """Do something as soon as a batch was told of."""

        def wait_and_act() -> None:
            wait_until(self.batches)
            act()

        in_background(wait_and_act)

    def batches(self) -> list[int]:
        """The batches that were told of."""
        return [event.batch for event in self.told if isinstance(event, BatchCommitted)]


def all_gone(processes: list[psutil.Process]) -> bool:
    """Whether all have ended, reaped or not. A process that was killed runs on for a moment."""
    return all(_gone(one) for one in processes)


def _gone(one: psutil.Process) -> bool:
    try:
        return not one.is_running() or one.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread
