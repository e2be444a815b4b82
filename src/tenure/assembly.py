"""Builds the object graph from settings: the only file that knows backends and pipelines.

Promise: it wires and checks what can be checked before anything starts; it decides nothing.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from tenure.backends.registry import open_store
from tenure.blobs.filesystem import FileBlobs
from tenure.checkpoints.store import CheckpointStore
from tenure.clock import Clock, SystemClock
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH
from tenure.errors import UsageError
from tenure.events import Events, JsonLines, Subscriber
from tenure.handles.store import HandleStore
from tenure.pipelines.loading import load_pipeline
from tenure.pipelines.member import Identity, Member
from tenure.settings import Settings
from tenure.status.snapshot import CHECKPOINTS


@dataclass(frozen=True, slots=True)
class Assembled:
    """A member that is ready to run, and what has to be closed after it."""

    member: Member
    identity: Identity
    scope: Scope
    spark_log: str
    kill: Callable[[], None]
    """End at once what runs for the member; `close` is still needed."""
    close: Callable[[], None]


def scope_store(settings: Settings, *, clock: Clock | None = None, existing: bool = False) -> CoordinationStore:
    """The store that the settings name, open. `existing`: it must be there. Raises UsageError, StoreUnavailable."""
    return open_store(settings.required("store"), clock=clock or SystemClock(), existing=existing)


def storage_url(settings: Settings, scope: Scope) -> str:
    """The part of the storage that is this scope's."""
    return f"{settings.required('storage').rstrip('/')}/{scope}"


def checkpoint_store(
    store: CoordinationStore,
    scope: Scope,
    query: str,
    *,
    settings: Settings,
    clock: Clock,
    events: Events = Events.nobody,
) -> CheckpointStore:
    """The checkpoints of one query."""
    handles = HandleStore(
        store,
        scope,
        area=CHECKPOINTS.child(query),
        blobs=FileBlobs(f"{storage_url(settings, scope)}/blobs"),
        clock=clock,
        events=events,
        inline_limit=settings.inline_limit,
    )
    return CheckpointStore(handles, query=query, keep=settings.checkpoints_kept)


def assemble(
    settings: Settings,
    *,
    pipeline_file: str,
    until_idle: bool,
    subscribers: tuple[Subscriber, ...] = (),
    wrap_store: Callable[[CoordinationStore], CoordinationStore] = lambda store: store,
    clock: Clock | None = None,
) -> Assembled:
    """A member for the pipeline file. `wrap_store` puts something around the store (faults, in tests).

    Raises UsageError, PipelineFileError, StoreUnavailable, StorageError: nothing was started.
    """
    from tenure.spark.driver import SparkDriver  # pyspark is an extra
    from tenure.spark.session import start_session

    clock = clock or SystemClock()
    for flag, log in (("--spark-log", settings.spark_log), ("--event-log", settings.event_log)):
        _check_log(log, flag=flag)
    pipeline = load_pipeline(pipeline_file)
    scope = Scope(settings.scope or pipeline.name)
    url = storage_url(settings, scope)
    FileBlobs(url).check_writable()
    store = wrap_store(scope_store(settings, clock=clock))
    store.read(scope, EPOCH)  # a store that cannot be used is told before Spark takes its seconds to start
    identity = identify(settings)
    log_lines = () if settings.event_log is None else (JsonLines(settings.event_log, clock=clock),)
    events = Events(*subscribers, *log_lines)
    spark_log = settings.spark_log or os.path.join(tempfile.gettempdir(), f"tenure-{identity.member}.spark.log")
    driver = SparkDriver(
        scope=scope,
        member=identity.member,
        pipeline_file=pipeline_file,
        params=settings.params,
        start_spark=lambda: start_session(name=scope, master=settings.master, conf=settings.conf, log=spark_log),
        checkpoints=lambda query: checkpoint_store(store, scope, query, settings=settings, clock=clock, events=events),
        storage=url,
        spark_log=spark_log,
        until_idle=until_idle,
        warm=settings.standby == "warm",
        stop_patience=settings.stop_patience,
        clock=clock,
        events=events,
    )
    member = Member(store, scope, identity=identity, driver=driver, ttl=settings.ttl, clock=clock, events=events)

    def close() -> None:
        try:
            driver.close()
        finally:
            store.close()

    return Assembled(member=member, identity=identity, scope=scope, spark_log=spark_log, kill=driver.kill, close=close)


def _check_log(path: str | None, *, flag: str) -> None:
    if path is None:
        return
    try:
        with open(path, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UsageError(
            f"{flag} {path!r} cannot be written: {error.strerror}", fix="name a file in a directory that exists"
        ) from error


def identify(settings: Settings) -> Identity:
    """Who this process is as a member."""
    host = socket.gethostname()
    return Identity(member=settings.member or f"{host}-{os.getpid()}-{new_uid()[:4]}", host=host, pid=os.getpid())
