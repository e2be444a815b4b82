"""The command line in a process whose drivers run no Spark, and obey a file: `python commanded.py run ...`.

Not a test: started by the tests beside it. Agents, sessions, elections, probes and verbs are the product's. A driver
plans a checkpoint in the store each `BATCH_S`, and raises the product's own errors. Its orders are the JSON in the file
MEMBER in the folder of the parameter `orders`: `fails` (a word of `ERRORS`), `silent` (no sign of life), `idle` (no
batch), `stays` (a batch is not ended), `lag`, `trouble` (of its rehearsals), `cold` (it does not rehearse), `refuses`
(it cannot be prepared).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tenure import assembly
from tenure.agent.child import ChildProcess, become_child
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.cli import main as cli
from tenure.cli import run
from tenure.clock import SystemClock, timestamp
from tenure.coordination.records import Scope
from tenure.coordination.term import Term
from tenure.driver.serving import Served, ServedPipeline
from tenure.errors import (
    BatchFailed,
    QueryFailed,
    SinkUnavailable,
    SourceUnavailable,
    StorageUnavailable,
    StoreUnavailable,
    TenureError,
)
from tenure.events import BatchCommitted, BatchStarted, CheckpointSaved, Events, QueryStarted, StandbyWarm
from tenure.link.driver import Ended
from tenure.link.records import HeardRecords
from tenure.link.words import Begin, Pulse
from tenure.opening import scope_context, scope_store
from tenure.settings import Settings

COMMAND: Final = (sys.executable, __file__)
QUERY: Final = "rows"
BATCH_S: Final = 0.1
_DRIVER: Final = "be-the-driver"
_CLOCK: Final = SystemClock()

ERRORS: Final[Mapping[str, Callable[[], TenureError]]] = {
    "sink": lambda: SinkUnavailable("sink of 'rows': connection to db:5432 refused"),
    "source": lambda: SourceUnavailable("query 'rows': a source does not answer: broker:9092 timed out"),
    "storage": lambda: StorageUnavailable("query 'rows': cannot write offsets/7: Stale file handle"),
    "full": lambda: StorageUnavailable("query 'rows': No space left on device", fix="free space on that disk"),
    "poison": lambda: BatchFailed("query 'rows' failed: ValueError: bad record 'x'", fix="see the log"),
    "first": lambda: QueryFailed("query 'rows' failed: no column 'x'", fix="see the log"),
}


class Work:
    """Does what the file of its member says."""

    def __init__(self, scope: Scope, events: Events, settings: Settings) -> None:
        self._scope = scope
        self._events = events
        self._settings = settings
        self._file = Path(settings.params["orders"], settings.member or "")

    @property
    def _orders(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):  # there is none yet, or it is being written
            found: dict[str, Any] = json.loads(self._file.read_text())
            return found
        return {}

    def prepare(self) -> Mapping[str, float]:
        if self._orders.get("refuses"):
            raise ERRORS["first"]()
        if not self._orders.get("cold") and not self._orders.get("trouble"):
            self._events.emit(StandbyWarm(self._scope, self._settings.member or "", 0.0))
        return {}

    def stand_by(self) -> None: ...

    def elected(self) -> None: ...

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        self._events.emit(QueryStarted(self._scope, term.epoch, QUERY, "rows/run"))
        with closing(scope_store(self._settings)) as store:
            context = scope_context(self._settings, store, self._scope, clock=_CLOCK)
            context.owner().own(term)
            checkpoints = context.checkpoints(QUERY)
            newest = checkpoints.newest(term)
            batch = -1 if newest is None else newest.batch
            while not (stop.is_set() or finish.is_set() or term.lost):
                orders = self._orders
                if (fails := orders.get("fails")) is not None:
                    raise ERRORS[fails]().of_query(QUERY, batch)
                if not orders.get("idle"):
                    batch += 1
                    self._batch(term, batch, lambda one: checkpoints.plan(term, one), stop)
                _CLOCK.wait(stop, timeout_s=BATCH_S)
        return Ended.LOST if term.lost else Ended.STOPPED

    def _batch(self, term: Term, batch: int, plan: Callable[[Checkpoint], None], stop: threading.Event) -> None:
        of_batch = (self._scope, term.epoch, QUERY, batch)
        self._events.emit(BatchStarted(*of_batch))
        while not term.lost:
            with suppress(StoreUnavailable):
                plan(Checkpoint(QUERY, "id", batch, "v1\n{}\n0", "rows/run", term.epoch, timestamp(_CLOCK)))
                break
            _CLOCK.wait(stop, timeout_s=BATCH_S)
        self._events.emit(CheckpointSaved(*of_batch, 0.0))
        while self._orders.get("stays") and not (stop.is_set() or term.lost):
            _CLOCK.wait(stop, timeout_s=BATCH_S)
        self._events.emit(BatchCommitted(*of_batch, repeated=False, seconds=0.0))

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        return Ended.CLEANED

    def pulse(self) -> Pulse:
        while self._orders.get("silent"):
            _CLOCK.sleep(BATCH_S)
        return Pulse({}, self._orders.get("lag"), self._orders.get("trouble"))

    def begun(self) -> Sequence[int | None]:
        return ()

    def close(self) -> None: ...


def _end_group() -> None:
    """As a driver does without its agent. The product's own imports PySpark, which takes seconds."""
    os.killpg(0, signal.SIGKILL)


def load(begin: Begin) -> ServedPipeline:
    settings = Settings.from_data(begin.settings)

    def work(scope: Scope, events: Events, heard: HeardRecords) -> Work:
        return Work(scope, assembly.member_events(settings, events.emit, clock=_CLOCK), settings)

    return ServedPipeline("rows", work, file="0123456789ab")


def main() -> None:
    if sys.argv[1] == _DRIVER:
        link = become_child(*(int(argument) for argument in sys.argv[-2:]))
        os._exit(Served(link, load=load, clock=_CLOCK, orphaned=_end_group).run())
    assemble = assembly.assemble

    def without_spark(*positional: Any, **named: Any) -> assembly.Assembled:
        named["start_driver"] = lambda member: ChildProcess((*COMMAND, _DRIVER), member=member)
        return assemble(*positional, **named)

    with patch.object(run, "assemble", without_spark):
        cli.main()


if __name__ == "__main__":
    main()
