"""Looks at the pipeline of `--for`, with a driver of its own. The driver loads the file, starts Spark, declares the
streams and compares them with the scope, as a member's driver does before the member contends. Then it rehearses.

Promise: the driver plans nothing, mirrors nothing, and has no session. Its rehearsal writes below
`rehearsals/doctor-HOST` of the scope's storage, and the driver removes that; after a kill, the next doctor of that host
does, before it rehearses. Not promised: a rehearsal of a query that has no batch yet; two doctors with one scope on one
host at a time.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Final

from tenure.agent.driver_process import DriverProcess, Patience
from tenure.checkpoints.store import newest_in
from tenure.coordination.examination import Grade, Remark
from tenure.coordination.records import Record
from tenure.doctor import rules
from tenure.doctor.case import Case, NotMade
from tenure.doctor.scratch import word_of
from tenure.doctor.targets import ExecutorsAsked, TargetAsked
from tenure.events import (
    Event,
    Events,
    FlagsNotNeeded,
    LocalFilesSlow,
    RehearsalFailed,
    StandbyWarm,
    TableShared,
    TablesNotKept,
)
from tenure.link.driver_folder import temporary_folder
from tenure.link.words import Begin

_PATIENCE: Final = Patience(stop=timedelta(seconds=5), silence=timedelta(seconds=60))
_REHEARSES_S: Final = 60.0
_LOOK_S: Final = 0.1
_WORTH_A_NOTE: Final = (FlagsNotNeeded, LocalFilesSlow, TableShared, TablesNotKept)


def look_at_pipeline(case: Case) -> Iterator[Remark]:
    """Load the file in a driver. Raises PipelineFileError, UsageError, the errors of a Spark that does not start."""
    if case.pipeline_file is None:
        raise NotMade("no --for PIPELINE.py is given")
    member = f"doctor-{word_of(socket.gethostname())}"
    log = temporary_folder() / f"tenure-{member}.spark.log"
    case.closing(lambda: log.unlink(missing_ok=True))
    own = {"member": member, "spark_log": str(log), "event_log": None, "http": None, "nofailover": True}
    settings = case.settings.model_copy(update={**own, "standby": "warm", "stop_patience": _PATIENCE.stop})
    driver = DriverProcess(
        start=case.start_driver,
        begin=Begin(settings.to_data(), case.pipeline_file, until_idle=False, asks_targets=True),
        member=member,
        patience=_PATIENCE,
        clock=case.clock,
        events=Events.nobody,
        driver_events=Events(case.events.append),
    )

    def end(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            driver.kill()
        driver.close()

    case.open.push(end)
    case.pipeline = driver.load()
    case.found_driver = driver
    yield Remark(Grade.OK, f"{case.pipeline_file} declares pipeline {case.pipeline!r}, file {driver.file}")


def look_at_declaration(case: Case) -> Iterator[Remark]:
    """Start Spark, declare the streams, and compare them with what the scope has run. Raises DeclaredOtherwise, and the
    other errors of a driver's preparation."""
    _ = case.driver, case.storage_url

    def records() -> Sequence[Record]:
        return case.store.list(case.scope).records

    case.driver.prepare(scope=case.scope, stop=threading.Event(), records=records)
    yield from (Remark(Grade.NOTE, event.line()) for event in case.events if isinstance(event, _WORTH_A_NOTE))
    fresh = not newest_in(records())
    yield Remark(
        Grade.OK,
        "the streams can be declared"
        + ("; the scope has run no batch yet" if fresh else ", as the scope has run them"),
    )


def look_at_targets(case: Case) -> Iterator[Remark]:
    """What the targets of the queries answered."""
    _ = case.driver
    asked = {event.query: event.why for event in case.events if isinstance(event, TargetAsked)}
    if not asked:
        raise NotMade("no target could be asked: functions of yours are not called, or the streams were not declared")
    yield from rules.about_targets(asked)


def look_at_executors(case: Case) -> Iterator[Remark]:
    """What the executors of a cluster told."""
    _ = case.driver
    asked = [event for event in case.events if isinstance(event, ExecutorsAsked)]
    if not asked:
        raise NotMade("the tasks run in the driver, or no driver came so far")
    yield rules.about_executors(asked[-1].seen, asked[-1].why)


def look_at_rehearsal(case: Case) -> Iterator[Remark]:
    """Run the newest batch of each query again, up to its commit: the sources are read, the targets reached."""
    planned = newest_in(case.store.list(case.scope).records)
    if not planned:
        raise NotMade("the scope has run no batch yet, so there is nothing to rehearse")
    until_s = case.clock.monotonic_s() + _REHEARSES_S
    never = threading.Event()
    while True:
        found = _newest(case.events)
        if isinstance(found, StandbyWarm):
            yield Remark(Grade.OK, f"the newest batches run here: a standby is warm after {found.seconds:.0f} s")
            return
        if isinstance(found, RehearsalFailed):
            yield Remark(
                Grade.WARN,
                f"the newest batch of query {found.query!r} does not run here: {found.why}",
                "a member that leads here fails the same way, unless the cause passes",
                "mend the cause that the line names",
            )
            return
        gone = case.driver.gone
        if gone is not None:
            yield Remark(Grade.BAD, gone, "a member's driver would end, too", "see the error of the JVM")
            return
        if case.clock.monotonic_s() > until_s:
            yield Remark(Grade.NOTE, f"the rehearsal did not end within {_REHEARSES_S:g} s", "its batches take long")
            return
        case.clock.wait(never, timeout_s=_LOOK_S)


def _newest(events: Sequence[Event]) -> Event | None:
    """The newest event about a rehearsal; None: there is none yet."""
    return next((one for one in reversed(list(events)) if isinstance(one, StandbyWarm | RehearsalFailed)), None)
