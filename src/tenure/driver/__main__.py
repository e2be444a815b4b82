"""`python -m tenure.driver`: the process that runs a pipeline's Spark queries. Only the agent starts it.

Promise: the process ends when its agent does. A standby's driver knows the scope from its agent alone. A leader's opens
the store without a session: the store judges its writes by the guards of the term that the agent won.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tenure.agent.child import become_child
from tenure.assembly import member_events, submit_of
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.declarations.declaration import ZONE
from tenure.declarations.rules import Allowed
from tenure.driver.owned_work import OwnedWork
from tenure.driver.serving import Served, ServedPipeline
from tenure.driver.stores import HeardStore, LeadersStore
from tenure.errors import UsageError
from tenure.events import Events, Subscriber
from tenure.link.driver import Work
from tenure.link.records import HeardRecords
from tenure.link.words import Begin, Link
from tenure.opening import scope_context, scope_store
from tenure.pipelines.loading import LoadedPipeline, load_pipeline
from tenure.settings import Settings
from tenure.spark.installed import find_spark
from tenure.spark.submit import Submit, importable
from tenure.wording import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load(
    begin: Begin,
    *,
    subscribers: tuple[Subscriber, ...] = (),
    wrap_store: Callable[[CoordinationStore], CoordinationStore] = lambda store: store,
    clock: Clock,
) -> ServedPipeline:
    """Load the pipeline that `begin` names. Spark starts now where the file uses it at its top level, else with the
    work. Raises PipelineFileError, UsageError; the errors of a Spark that does not start."""
    settings = Settings.from_data(begin.settings)
    submit = submit_of(settings)
    sys.path[:0] = importable(submit.python_files)
    loaded, made = _loaded(begin.pipeline_file, settings, submit)
    pipeline, file = loaded.pipeline, loaded.fingerprint
    at_top_level = None if made is None else made.conf.get(ZONE)

    def work(scope: Scope, agent: Events, heard: HeardRecords) -> Work:
        with _needing_spark():
            from tenure.driver.declarations import Declarations
            from tenure.driver.spark_driver import DriverWork, SparkDriver
            from tenure.spark.time_zone import GivenZone

        own = LeadersStore(lambda: wrap_store(scope_store(settings, clock=clock)), scope)
        events = member_events(settings, agent.emit, *subscribers, clock=clock)
        context = scope_context(settings, own, scope, clock=clock, events=events)
        standby = replace(context, store=HeardStore(heard))
        spark_log, member = settings.required("spark_log"), settings.required("member")
        allowed = Allowed(
            new=frozenset(settings.new_stream),
            dropped=frozenset(settings.drop_stream),
            changed=frozenset(settings.changed_query),
            sources=frozenset(settings.changed_source),
        )

        zone = GivenZone({**dict(submit.settings), **settings.conf}.get(ZONE), settings.changed_zone, at_top_level)

        def driver(look_first: Callable[[], None]) -> SparkDriver:
            return SparkDriver(
                context,
                DriverWork(
                    member=member,
                    pipeline=pipeline,
                    pipeline_file=begin.pipeline_file,
                    params=settings.params,
                    spark_log=spark_log,
                    until_idle=begin.until_idle,
                    warm=settings.standby == "warm",
                    mirrors=not settings.nofailover,
                    stop_patience=settings.stop_patience,
                    zone=zone,
                    asks_targets=begin.asks_targets,
                    short_batch=settings.short_batch,
                ),
                start_spark=lambda: made or _session(scope, settings, submit),
                declarations=Declarations(context, file=file, allowed=allowed, zone=zone, heard=standby),
                look_first=look_first,
                heard=standby,
                own=own,
            )

        return OwnedWork(context.owner(), around=driver, every=settings.ttl, clock=clock)

    return ServedPipeline(name=pipeline.name, file=file, spark=find_spark().version, work=work)


def _loaded(file: str, settings: Settings, submit: Submit) -> tuple[LoadedPipeline, SparkSession | None]:
    """The pipeline of the file, and the session that it needed for that; None: none."""
    if find_spec("pyspark") is None:
        return load_pipeline(file), None  # its own error comes first
    from tenure.spark.session import end_session
    from tenure.spark.session_first import load_with_session

    named = settings.scope or os.path.splitext(os.path.basename(file))[0]
    return load_with_session(
        lambda: load_pipeline(file),
        start=lambda: _session(named, settings, submit),
        end=lambda session: end_session(session, patience_s=settings.stop_patience.total_seconds()),
    )


def _session(name: str, settings: Settings, submit: Submit) -> SparkSession:
    with _needing_spark():
        from tenure.spark.session import start_session
    return start_session(
        name=f"{name}-{settings.required('member')}",
        master=settings.master,
        conf=settings.conf,
        submit=submit,
        log=settings.required("spark_log"),
    )


@contextmanager
def _needing_spark() -> Iterator[None]:
    """Raise UsageError when the block imports a package that is not installed: pyspark is an extra, and slow to
    import."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"the Python package {error.name!r} is not installed", fix=how_to_install("spark")) from error


def serve(link: Link, *, load: Callable[[Begin], ServedPipeline], clock: Clock) -> int:
    """Serve the agent at the other end of the link. Return the exit code of the process."""
    return Served(link, load=load, clock=clock, orphaned=end_group).run()


def end_group() -> None:
    """Kill this process and its JVM, as the warden does: the agent is gone."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


def main() -> None:
    """The entry point. The two arguments are the descriptors of the link and of the warden's pipe."""
    link = become_child(*(int(argument) for argument in sys.argv[-2:]))
    clock = SystemClock()
    code = serve(link, load=lambda begin: load(begin, clock=clock), clock=clock)
    sys.stdout.flush()
    os._exit(code)  # does not wait for threads of a hung query; Spark has ended, or is killed with the group


if __name__ == "__main__":
    main()
