"""`python -m tenure.testing.launch run ...`: the command line, with faults put around it from outside.

The environment variable TESTING_FAULTS holds a JSON object:
- `pause_when`: path of a file. When it exists at the moment at which a plan is about to be sent, it is removed
  and the process group stops itself (SIGSTOP), between deciding and sending.
- `die_at`: the name of a step (see STEPS); the process group kills itself (SIGKILL) there, in the first batch
  after `die_after_batches` batches of this process.
- `blindfold`: the member never notices that its session ended, or that time passed while it was stopped.
- `unfenced`: the store judges no guard, and overwrites whatever is there.

Promise: the product has no hook; every fault is a wrapper or a subscriber.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tenure import assembly
from tenure.cli import main as cli
from tenure.clock import SystemClock
from tenure.coordination.records import SessionId
from tenure.coordination.store import CoordinationStore, Session
from tenure.errors import SessionEnded
from tenure.events import Event, Events, QueryStarted, RunDirectorySeeded, TermWon
from tenure.spark import driver as driver_module
from tenure.spark import stream as stream_module
from tenure.spark.seeding import seed
from tenure.spark.sinks.sink import Batch, OutputMode, Rehearsable, Sink, Written
from tenure.testing.faulty import Call, FaultyStore, Proceed, writes_under
from tenure.testing.unfenced import UnfencedStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH_STEPS = (
    "after offsets, before plan",
    "after plan",
    "before staging",
    "after staging",
    "before sink commit",
    "after sink commit",
    "after commits",
)
"""Where a member can die in a batch. Staging and plan overlap, so `after plan` can be within the staging."""

SEED_PARTS = ("offsets", "commits", "sources", "state", "plan", "metadata")

TAKEOVER_STEPS = (
    "after grant",
    *(f"{when} {part}" for part in SEED_PARTS for when in ("before", "after")),
    "after seeding",
    "after start",
)
"""Where a member can die in a takeover."""


def kill_self() -> None:
    """Kill the whole process group, JVM included, as a machine that loses its power."""
    _to_the_group(signal.SIGKILL)


def stop_self() -> None:
    """Stop the whole process group until somebody wakes it."""
    _to_the_group(signal.SIGSTOP)


def _to_the_group(number: signal.Signals) -> None:
    """Send the signal to the others of the group, then to this very thread. A signal to the process would be taken by
    any thread, and this one would run on for a moment: into the transaction that it must not have begun."""
    group = os.getpgrp()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if os.getpgid(int(entry.name)) == group:
                    os.kill(int(entry.name), number)
            except ProcessLookupError:
                continue
    signal.pthread_kill(threading.get_ident(), number)


class Faults:
    """The faults of one process, as the environment describes them."""

    def __init__(self, description: dict[str, Any]) -> None:
        self._pause_when = description.get("pause_when")
        self._die_at: str | None = description.get("die_at")
        self._die_after = int(description.get("die_after_batches", 0))
        self._blindfold = bool(description.get("blindfold"))
        self._unfenced = bool(description.get("unfenced"))
        self._batches = 0
        self._turn = threading.RLock()

    def at(self, step: str) -> None:
        """Die if this is the step."""
        if step == self._die_at and self._batches >= self._die_after:
            kill_self()

    def on_event(self, event: Event) -> None:
        """A subscriber: the steps of a takeover that are events."""
        match event:
            case TermWon():
                self.at("after grant")
            case RunDirectorySeeded():
                self.at("after seeding")
            case QueryStarted():
                self.at("after start")
            case _:
                pass

    def wrap_store(self, store: CoordinationStore) -> CoordinationStore:
        """The store with the faults around it."""
        if self._unfenced:
            store = UnfencedStore(store, blind=True)
        if self._blindfold:
            store = _NeverToldStore(store)
        faulty = FaultyStore(store)
        faulty.script(self._in_turn, times=None)
        faulty.script(self._around_plan, when=writes_under("checkpoints"), times=None)
        return faulty

    def wrap_sink(self, sink: Sink) -> Sink:
        """The sink with the steps of a batch around it."""
        return _SteppedSink(sink, self)

    def clock(self) -> SystemClock:
        """The clock that the member looks at."""
        return _BlindClock() if self._blindfold else SystemClock()

    def batch_began(self) -> None:
        """Count, and notice that Spark ended the batch before: its commit file is written by now."""
        self.at("after commits")
        self._batches += 1

    def _in_turn(self, call: Call, proceed: Proceed) -> Any:
        """Calls that may hold a lock of the store run one at a time, so that the process never stops inside one of
        another thread: a SQLite writer that is stopped in its transaction would hold up the successor as well."""
        if call.operation == "wait":
            return proceed()
        with self._turn:
            return proceed()

    def _around_plan(self, call: Call, proceed: Proceed) -> Any:
        if self._pause_when is not None and os.path.exists(self._pause_when):
            Path(self._pause_when).unlink()
            stop_self()
        self.at("after offsets, before plan")
        answer = proceed()
        self.at("after plan")
        return answer


class _SteppedSink:
    """A sink that dies at a step."""

    def __init__(self, sink: Sink, faults: Faults) -> None:
        self._sink = sink
        self._faults = faults

    def check(self, *, output_mode: OutputMode) -> None:
        self._sink.check(output_mode=output_mode)

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        self._faults.batch_began()
        self._faults.at("before staging")

        def stepped() -> None:
            self._faults.at("after staging")
            planned()
            self._faults.at("before sink commit")

        written = self._sink.write(rows, batch, planned=stepped, events=events)
        self._faults.at("after sink commit")
        return written

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        if isinstance(self._sink, Rehearsable):
            self._sink.rehearse(rows, directory)
        else:
            rows.write.format("noop").mode("append").save()


class _NeverToldStore(FaultyStore):
    """A store whose sessions never say that they have ended."""

    def open_session(self, *, ttl: timedelta) -> Session:
        return _NeverTold(super().open_session(ttl=ttl))


class _NeverTold:
    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def id(self) -> SessionId:
        return self._session.id

    @property
    def ttl(self) -> timedelta:
        return self._session.ttl

    def renew(self) -> None:
        try:
            self._session.renew()
        except SessionEnded:
            return

    def close(self) -> None:
        self._session.close()


class _BlindClock(SystemClock):
    """A clock that does not see that time passed while the process was stopped."""

    _leap_s = 1.0

    def __init__(self) -> None:
        self._last_s = super().monotonic_s()
        self._hidden_s = 0.0

    def monotonic_s(self) -> float:
        now_s = super().monotonic_s()
        leap_s = now_s - self._last_s
        if leap_s > self._leap_s:
            self._hidden_s += leap_s
        self._last_s = now_s
        return now_s - self._hidden_s

    def now(self) -> datetime:
        return datetime.fromtimestamp(super().now().timestamp() - self._hidden_s, UTC)

    def wait(self, event: threading.Event, *, timeout_s: float) -> bool:
        return super().wait(event, timeout_s=min(timeout_s, self._leap_s / 2))


def main() -> None:
    """Run the command line with the faults of TESTING_FAULTS."""
    faults = Faults(json.loads(os.environ.get("TESTING_FAULTS", "{}")))
    assemble = assembly.assemble

    def assemble_with_faults(*positional: Any, **named: Any) -> assembly.Assembled:
        named["subscribers"] = (*named.get("subscribers", ()), faults.on_event)
        named["clock"] = faults.clock()
        return assemble(*positional, wrap_store=faults.wrap_store, **named)

    class SteppedStream(stream_module.FencedStream):
        """The stream of the product, its sink wrapped."""

        def __init__(self, declared: Any, **named: Any) -> None:
            stepped = type(declared)(
                declared.name, declared.rows, faults.wrap_sink(declared.sink), declared.output_mode, declared.trigger
            )
            super().__init__(stepped, **named)

    stepped_seed = functools.partial(seed, on_part=faults.at)
    with (
        patch.object(cli, "assemble", assemble_with_faults),
        patch.object(driver_module, "FencedStream", SteppedStream),
        patch.object(stream_module, "seed", stepped_seed),
    ):
        cli.main()


if __name__ == "__main__":
    main()
