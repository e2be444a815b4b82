"""How far long work has come: one report for a bar, for a line in a log, and for a member's `/status`.

Promise: a report has the whole state of its work, so each may be left out. Work that is done within the pace of its
reader reports nothing. Any thread may report. Not promised: that `of` stays, as a copy finds its files while it copies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich import filesize

from tenure.clock import Clock
from tenure.events import (
    CleanupEnded,
    DriverEnded,
    DriverStarted,
    Event,
    Events,
    MemberReady,
    RunDirectorySeeded,
    RunEnded,
    TermEnded,
)

EVENT_S: Final = 2.0
"""How often long work emits its event."""

START_S: Final = 10.0
"""How often the wait for a driver does."""


@dataclass(frozen=True, slots=True)
class Step:
    """The state of long work. `done` and `of` are in `unit`; of None: nobody knows the end."""

    what: str
    done: float
    of: float | None
    unit: str
    bytes: int = 0
    of_bytes: int = 0
    """0: the work is not counted in bytes."""

    @property
    def line(self) -> str:
        """For people: `copies the state of rows: 120 of 1,240 files, 1.2 MB of 3.4 MB`."""
        of = "" if self.of is None else f" of {self.of:,.0f}"
        size = f", {filesize.decimal(self.bytes)} of {filesize.decimal(self.of_bytes)}" if self.of_bytes else ""
        return f"{self.what}: {self.done:,.0f}{of} {self.unit}{size}"


Progress = Callable[[Step], None]


def unseen(step: Step) -> None:
    """Nobody looks."""


class Paced:
    """Passes on a report each `every_s` at most, the first after that time. Thread-safe."""

    def __init__(self, tell: Progress, *, every_s: float, clock: Clock) -> None:
        self._tell = tell
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()  # guards _next_s
        self._next_s = clock.monotonic_s() + every_s

    def __call__(self, step: Step) -> None:
        with self._lock:
            now_s = self._clock.monotonic_s()
            if now_s < self._next_s:
                return
            self._next_s = now_s + self._every_s
        self._tell(step)


class Counter:
    """Counts the files and bytes of a copy, which finds them while it copies. Thread-safe."""

    def __init__(self, what: str = "", tell: Progress = unseen) -> None:
        self._what = what
        self._tell = tell
        self._lock = threading.Lock()  # guards the counts
        self._done = self._of = self._bytes = self._of_bytes = 0

    def found(self, files: int, size: int = 0) -> None:
        """So many files more are to be copied. `size`: in bytes."""
        with self._lock:
            self._of, self._of_bytes = self._of + files, self._of_bytes + size

    def did(self, files: int, size: int = 0) -> None:
        """So many files more are copied."""
        with self._lock:
            self._done, self._bytes = self._done + files, self._bytes + size
            step = Step(self._what, self._done, self._of, "files", self._bytes, self._of_bytes)
        self._tell(step)


# --- the events ---------------------------------------------------------------------------------------------


class LongWork(Event):
    """Long work goes on. `over`: it has ended, well or not."""

    waits = True
    over: bool = False

    @property
    def key(self) -> str:
        """Which work it is: a report replaces the last report of the same work."""
        raise NotImplementedError

    @property
    def step(self) -> Step:
        """The state of the work."""
        raise NotImplementedError

    def line(self) -> str:
        return "" if self.over else self.step.line


class SeedProgress(LongWork):
    """A takeover fills the run directory of a query, or, with `ahead`, a standby its first mirror. Emitted each two
    seconds, and at the end of a work that took longer. `of`: as far as the files are known."""

    query: str = ""
    files: int = 0
    of: int = 0
    bytes: int = 0
    of_bytes: int = 0
    ahead: bool = False

    @property
    def key(self) -> str:
        return f"{'mirror' if self.ahead else 'seed'} {self.query}"

    @property
    def step(self) -> Step:
        what = f"copies the state of query {self.query}{' ahead' if self.ahead else ''}"
        return Step(what, self.files, self.of, "files", self.bytes, self.of_bytes)


class CleanupProgress(LongWork):
    """A cleanup removes the things of one row of its plan."""

    row: str = ""
    removed: int = 0
    of: int = 0

    @property
    def key(self) -> str:
        return "cleanup"

    @property
    def step(self) -> Step:
        return Step(f"cleans up {self.row}", self.removed, self.of, "things")


class SparkStarting(LongWork):
    """A member has waited for its driver for so many seconds. Emitted each ten seconds."""

    member: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> str:
        return "start"

    @property
    def step(self) -> Step:
        return Step(f"member {self.member} waits for Spark to start", self.seconds, None, "s")


@contextmanager
def seeding(scope: str, query: str, *, ahead: bool, clock: Clock, events: Events) -> Iterator[Counter]:
    """The counter of a copy, whose events come each `EVENT_S` and, where one came, at the end."""
    last: list[SeedProgress] = []

    def tell(step: Step) -> None:
        files, of = int(step.done), int(step.of or 0)
        last[:] = [
            SeedProgress(scope, query=query, files=files, of=of, bytes=step.bytes, of_bytes=step.of_bytes, ahead=ahead)
        ]
        events.emit(last[0])

    try:
        yield Counter(query, Paced(tell, every_s=EVENT_S, clock=clock))
    finally:
        if last:
            events.emit(_ended(last[0]))


def _ended(event: SeedProgress) -> SeedProgress:
    return SeedProgress(**{**vars(event), "over": True})


def spark_starting(scope: str, member: str, *, clock: Clock, events: Events) -> Callable[[], None]:
    """What a member that waits for its driver calls again and again. `scope` empty: it emits nothing."""
    began_s = clock.monotonic_s()

    def tell(step: Step) -> None:
        events.emit(SparkStarting(scope, member=member, seconds=round(step.done, 1)))

    paced = Paced(tell if scope else unseen, every_s=START_S, clock=clock)
    return lambda: paced(Step("", clock.monotonic_s() - began_s, None, "s"))


class Underway:
    """A subscriber: the long work of a member now. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the two below
        self._steps: dict[str, Step] = {}
        self._began_s: float | None = None  # when a driver began to start; None: none starts

    def __call__(self, event: Event) -> None:
        """Note one event."""
        with self._lock:
            match event:
                case SparkStarting():
                    return
                case LongWork():
                    self._steps.pop(event.key, None)
                    if not event.over:
                        self._steps[event.key] = event.step
                case DriverStarted():
                    self._began_s, self._steps = self._clock.monotonic_s(), {}
                case MemberReady():
                    self._began_s = None
                case DriverEnded() | RunEnded() | TermEnded():
                    self._began_s, self._steps = None, {}
                case CleanupEnded():
                    self._steps.pop("cleanup", None)
                case RunDirectorySeeded():
                    self._steps.pop(f"seed {event.query}", None)

    def now(self) -> tuple[Step, ...]:
        """The work that goes on."""
        with self._lock:
            found = tuple(self._steps.values())
            if self._began_s is not None:
                found = (Step("waits for Spark to start", self._clock.monotonic_s() - self._began_s, None, "s"), *found)
            return found
