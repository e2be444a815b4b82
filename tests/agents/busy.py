"""A command line whose drivers run no Spark and are busy: `COMMAND`.

Not a test: started by the tests of the page. A driver emits the events of seeds, starts and batches of two queries,
four batches a second. It plans nothing in the store.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Final

from tenure.clock import SystemClock
from tenure.coordination.term import Term
from tenure.driver.serving import ServedPipeline
from tenure.events import BatchCommitted, CheckpointSaved, QueryStarted, RunDirectorySeeded
from tenure.link.driver import Ended
from tenure.link.words import Begin
from tests.regressions import sparkless

_PATH: Final = str(Path(__file__).parents[2])
COMMAND: Final = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {_PATH!r}); from tests.agents.busy import main; main()",
)
"""Runs in any folder, and with any path of Python."""
QUERIES: Final = ("orders", "totals")
_CLOCK = SystemClock()
_APART_S = 0.25


class BusyWork(sparkless.Work):
    """What such a driver does."""

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        first = term.epoch * 1000
        for number, query in enumerate(QUERIES):
            if term.epoch > 1:
                seconds = 0.1 + number / 10
                _CLOCK.wait(stop, timeout_s=seconds)
                seeded = RunDirectorySeeded(self._scope, term.epoch, query, first, 12, seconds, mirrored=True)
                self._events.emit(seeded)
            self._events.emit(QueryStarted(self._scope, term.epoch, query, f"runs/{term.epoch}-{query}"))
        batch = first
        while not (stop.is_set() or finish.is_set() or term.lost):
            for number, query in enumerate(QUERIES):
                self._run(term, query, batch, seconds=0.1 + (batch * (number + 3)) % 7 / 20)
            batch += 1
            _CLOCK.wait(stop, timeout_s=_APART_S)
        return Ended.LOST if term.lost else Ended.STOPPED

    def _run(self, term: Term, query: str, batch: int, *, seconds: float) -> None:
        self._events.emit(CheckpointSaved(self._scope, term.epoch, query, batch, 0.01))
        self._events.emit(BatchCommitted(self._scope, term.epoch, query, batch, False, seconds))


def load(begin: Begin) -> ServedPipeline:
    """A pipeline without a file."""
    return ServedPipeline("rows", BusyWork)


def main() -> None:
    """The command line."""
    sparkless.main(load, COMMAND)
