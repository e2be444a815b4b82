"""The command line in a process whose drivers run no Spark: `python sparkless.py run ...`.

Not a test: started by the tests beside it. Agents, sessions, elections and verbs are the product's; a driver tells of
one batch and of the begin of the next as soon as it leads, and obeys.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from tenure import assembly
from tenure.agent.child import ChildProcess, become_child
from tenure.cli import main as cli
from tenure.cli import run
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.term import Term
from tenure.driver.__main__ import end_group
from tenure.driver.serving import Served, ServedPipeline
from tenure.events import (
    BatchCommitted,
    BatchMeasured,
    BatchStarted,
    CheckpointSaved,
    Events,
    QueryStarted,
    Swept,
)
from tenure.link.driver import Ended
from tenure.link.records import HeardRecords
from tenure.link.words import Begin, Pulse

COMMAND = (sys.executable, __file__)
_DRIVER = "be-the-driver"
_CLOCK = SystemClock()


class Work:
    """What such a driver does."""

    def __init__(self, scope: Scope, events: Events, heard: HeardRecords) -> None:
        self._scope = scope
        self._events = events

    def prepare(self) -> Mapping[str, float]:
        return {}

    def stand_by(self) -> None: ...

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        of_batch = (self._scope, term.epoch, "rows", term.epoch)
        for event in (
            QueryStarted(self._scope, term.epoch, "rows", "runs/x"),
            CheckpointSaved(*of_batch, seconds=0.0),
            BatchCommitted(*of_batch, repeated=False, seconds=0.0),
            BatchMeasured(*of_batch, 40, 80.0, 7, 900, 30.5, {"orders": {"offsets": 12}}, at_limit=True),
            BatchStarted(self._scope, term.epoch, "rows", term.epoch + 1),
            Swept(self._scope, term.epoch, removed=0, left=0, first="", seconds=0.0),
        ):
            self._events.emit(event)
        while not (stop.is_set() or finish.is_set() or term.lost):
            _CLOCK.wait(stop, timeout_s=0.01)
        return Ended.LOST if term.lost else Ended.STOPPED

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        return Ended.CLEANED

    def pulse(self) -> Pulse:
        return Pulse({}, lag={"batches": 0, "bytes": 0})

    def elected(self) -> None: ...

    def begun(self) -> Sequence[int | None]:
        return ()

    def close(self) -> None: ...


def load(begin: Begin) -> ServedPipeline:
    return ServedPipeline("rows", Work)


def main(load: Callable[[Begin], ServedPipeline] = load, command: Sequence[str] = COMMAND) -> None:
    """The command line. `command`: of the drivers, which `load` makes."""
    if sys.argv[1] == _DRIVER:
        link = become_child(*(int(argument) for argument in sys.argv[-2:]))
        os._exit(Served(link, load=load, clock=_CLOCK, orphaned=end_group).run())
    assemble = assembly.assemble

    def without_spark(*positional: Any, **named: Any) -> assembly.Assembled:
        named["start_driver"] = lambda member: ChildProcess((*command, _DRIVER), member=member)
        return assemble(*positional, **named)

    with patch.object(run, "assemble", without_spark):
        cli.main()


if __name__ == "__main__":
    main()
