"""Builds a member from the settings.

Promise: everything that can be checked before the start is checked here. This file decides nothing.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from tenure.agent.child import Child, ChildProcess, Start
from tenure.agent.condition import Condition
from tenure.agent.driver_process import DriverProcess, Patience
from tenure.agent.failures import Limits
from tenure.agent.free_space import FreeSpaceWatch
from tenure.agent.member import Conduct, Member
from tenure.agent.rings import Rings
from tenure.agent.telling import Openings
from tenure.agent.warden import Warden
from tenure.clock import Clock, SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import TenureError, UsageError
from tenure.event_log import JsonLines
from tenure.events import Events, RunEnded, Subscriber
from tenure.link.driver_folder import DriverFolder, temporary_folder
from tenure.link.words import Begin
from tenure.opening import check_storage, scope_context, scope_store, storage_url
from tenure.progress import Underway
from tenure.settings import Settings
from tenure.spark.installed import find_spark
from tenure.spark.submit import Submit, read_submit
from tenure.storage.reach import reach
from tenure.wording import how_to_install, masked_url

if TYPE_CHECKING:
    from tenure.agent.metrics import Metrics
    from tenure.ui.app import Page
    from tenure.ui.late import LatePage

_AGENT_PATIENCE: Final = timedelta(seconds=2)
"""How much longer the agent waits than the driver, so that a driver that kills its own JVM can still report that."""

DRIVER: Final = (sys.executable, "-m", "tenure.driver")
"""The command of a driver; `tenure.agent.child` adds its arguments."""


WARDEN: Final = (sys.executable, "-m", "tenure.warden")
"""The command that gets the charge of a dead agent."""


@dataclass(frozen=True, slots=True)
class Run:
    """The pipeline file that a member runs, and the end of the run."""

    pipeline_file: str
    until_idle: bool = False
    """End when the sources have no more input."""
    final: bool = False
    """End the pipeline for good when the sources have no more input."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A member that is ready to run. Call `close` after its run."""

    member: Member
    kill: Callable[[], None]
    """Kill the driver at once. Call `close` after that."""
    close: Callable[[], None]
    scope: Scope
    name: str
    """The member's."""
    events: Events

    def ended(self, error: TenureError) -> None:
        """Tell the events that the run ends with this error."""
        self.events.emit(RunEnded(self.scope, self.name, exit_code=error.exit_code, error=str(error)))


def assemble(
    settings: Settings,
    run: Run,
    *,
    subscribers: tuple[Subscriber, ...] = (),
    wrap_store: Callable[[CoordinationStore], CoordinationStore] = lambda store: store,
    start_driver: Start | None = None,
    clock: Clock | None = None,
) -> Assembled:
    """Make a member for the pipeline file. Unless the settings name the scope, its driver has loaded the file.
    `wrap_store`: a wrapper of the store, for the faults of tests. `start_driver` None: a process with the Spark of this
    machine.

    Raises UsageError, PipelineFileError, StoreUnavailable, StorageError, OwnerMismatch; nothing runs on then.
    """
    clock = clock or SystemClock()
    identity = identify(settings)
    DriverFolder.make(identity.member).remove()  # raises first where the temporary folder cannot be used
    spark_log = settings.spark_log or str(temporary_folder() / f"tenure-{identity.member}.spark.log")
    settings = settings.model_copy(update={"member": identity.member, "spark_log": spark_log})
    check_log(spark_log, flag="--spark-log")
    if settings.event_log is not None:
        check_log(settings.event_log, flag="--event-log")
    settings.required("store")
    settings.required("storage")
    submit_of(settings)
    if start_driver is None:
        find_spark()  # raises first where there is none
        start_driver = start_spark_driver
    metrics = None if settings.http is None else _metrics(identity.member, clock)
    rings, underway = Rings(clock), Underway(clock)
    if metrics is not None:
        subscribers = (*subscribers, metrics, rings, underway)
    events = member_events(settings, *subscribers, clock=clock)
    unserve: Callable[[], None] | None = None
    openings = Openings(clock)
    warden = Warden(WARDEN, store=settings.store_url()).start()
    driver = DriverProcess(
        start=warden.noting(start_driver),
        begin=Begin(settings=settings.to_data(), pipeline_file=run.pipeline_file, until_idle=run.until_idle),
        member=identity.member,
        patience=Patience(stop=settings.stop_patience + _AGENT_PATIENCE, silence=settings.driver_silence),
        clock=clock,
        events=events,
        driver_events=Events(openings, *subscribers),
    )
    store: CoordinationStore | None = None

    def close() -> None:
        try:
            driver.close()
        finally:
            if unserve is not None:
                unserve()
            if store is not None:
                store.close()
            warden.close()

    try:
        scope = Scope(settings.scope or driver.load())
        check_storage(settings, scope)
        if metrics is not None:
            metrics.know(scope)
        store = wrap_store(scope_store(settings, clock=clock, told=metrics))
        context = scope_context(settings, store, scope, clock=clock, events=events)
        context.owner().check()  # raises for an unusable store before Spark takes its seconds to start
        member = Member(
            context,
            identity=identity,
            driver=driver,
            conduct=_conduct(settings, run),
            warden=warden,
            openings=openings,
        )
        if settings.http is not None and metrics is not None:
            about = _condition_of(member, underway)
            unserve = _serve(settings, scope, metrics, rings, condition=about, clock=clock)
    except BaseException:
        close()
        raise
    return Assembled(member, kill=driver.kill, close=close, scope=scope, name=identity.member, events=events)


def _late_page(settings: Settings, scope: Scope, *, clock: Clock) -> LatePage:
    """The page of one scope beside the probes: read-only, with a client of the store of its own."""
    from tenure.ui.late import LatePage

    def build() -> Page:
        from tenure.ui.access_rules import Access
        from tenure.ui.app import Page, Site
        from tenure.ui.store_client import StoreClient

        client = StoreClient(partial(scope_store, settings, clock=clock, existing=True))
        access = Access(hosts=frozenset({socket.gethostname().lower()}))
        return Page(Site(client, clock, access, masked_url(settings.required("store")), only=scope))

    return LatePage(build)


def _serve(
    settings: Settings,
    scope: Scope,
    metrics: Metrics,
    rings: Rings,
    *,
    condition: Callable[[], Condition],
    clock: Clock,
) -> Callable[[], None]:
    """Serve `--http`, and watch the disk of a storage that is a folder of this machine. Return what ends both."""
    from tenure.agent.probes import ProbeServer

    page = _late_page(settings, scope, clock=clock)
    probes = ProbeServer(settings.required("http"), page, condition=condition, metrics=metrics, rings=rings)
    folder = reach(storage_url(settings, scope)).local_folder
    if folder is None:
        return probes.close
    space = FreeSpaceWatch(folder, told=metrics.has_free, clock=clock)
    space.start()

    def close() -> None:
        space.close()
        probes.close()

    return close


def _conduct(settings: Settings, run: Run) -> Conduct:
    return Conduct(
        ttl=settings.ttl,
        hold=settings.on_store_loss == "hold",
        cold=settings.standby == "cold",
        final=run.final,
        ends=run.until_idle or run.final,
        limits=Limits(batch_attempts=settings.batch_attempts, away=settings.away_limit),
        log=settings.spark_log or "",
    )


def start_spark_driver(member: str) -> Child:
    """Start a driver, with the Spark that is there at this moment. Raises UsageError."""
    return ChildProcess(DRIVER, member=member, variables=find_spark().environment(os.environ))


def _condition_of(member: Member, underway: Underway) -> Callable[[], Condition]:
    return lambda: replace(member.condition, progress=underway.now())


def _metrics(member: str, clock: Clock) -> Metrics:
    """The metrics of a member. Raises UsageError: the libraries for metrics are not installed."""
    try:
        from tenure.agent.metrics import Metrics
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--http needs the Python package {error.name!r}, which is not installed",
            fix=how_to_install("metrics"),
        ) from error
    return Metrics(member=member, clock=clock)


def member_events(settings: Settings, *subscribers: Subscriber, clock: Clock) -> Events:
    """The events of a member's process, which go to the subscribers and to the event log."""
    if settings.event_log is None:
        return Events(*subscribers)
    return Events(JsonLines(settings.event_log, clock=clock, most_bytes=settings.event_log_bytes), *subscribers)


def check_log(path: str, *, flag: str) -> None:
    """Check that a log can be written to. No file is made: the first event makes the log of events,
    and the start of Spark makes the log of Spark. Raises UsageError."""
    try:
        if not path or os.path.lexists(path):
            with open(path, "ab"):
                return
        tempfile.TemporaryFile(dir=os.path.dirname(path) or os.curdir).close()
    except OSError as error:
        raise UsageError(
            f"{flag} {path!r} cannot be written: {error.strerror}",
            fix="name a file in a directory that exists",
        ) from error


def submit_of(settings: Settings) -> Submit:
    """The flags for spark-submit. Raises UsageError."""
    return read_submit(
        settings.submit,
        connectors=settings.connector,
        packages=settings.packages,
        jars=settings.jars,
        py_files=settings.py_files,
        conf=settings.conf,
    )


def identify(settings: Settings) -> Identity:
    """The identity of this process as a member. Raises UsageError."""
    host = socket.gethostname()
    member = settings.member or f"{host}-{os.getpid()}-{new_uid()[:4]}"
    if Scope.found(member) is None:  # a name of one segment, too
        raise UsageError(f"member {member!r} is not a name", fix="use letters, digits, '.', '_', '-'")
    return Identity(
        member=member,
        host=host,
        pid=os.getpid(),
        priority=settings.priority,
        nofailover=settings.nofailover,
        http=_announced(settings.http, host=host),
    )


def _announced(http: str | None, *, host: str) -> str:
    """The address under which other hosts reach the probes; empty: there are none. A server on all addresses is reached
    by the name of its host."""
    bound, _, port = (http or "").rpartition(":")
    everywhere = bound.strip("[]") in ("", "0.0.0.0", "::")
    return f"{host if everywhere else bound}:{port}" if port else ""
