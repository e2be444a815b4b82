"""`tenure sweep`: plans, reports and removes the orphans in a storage of any size."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tenure.cleanup.claims import read_claims, term_now
from tenure.cleanup.orphans import Claims
from tenure.cli.options import OutputOption, open_scope, pairs, takes_settings
from tenure.cli.output import Output, note, print_document, show
from tenure.cli.progress import progress
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import CleanupIncomplete, UsageError
from tenure.housekeeping import scope_attempts
from tenure.opening import scope_context
from tenure.progress import Step
from tenure.settings import Settings
from tenure.spark.installed import use_spark
from tenure.wording import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tenure.cleanup.applying import Applied
    from tenure.cleanup.engine import Rule
    from tenure.cleanup.planning import Target
    from tenure.cleanup.sweep_plan import SweepPlan

_CLOCK = SystemClock()
_SHOWN = 5
"""The number of failed files that a report names."""

sweep_app = typer.Typer(no_args_is_help=True, help="Remove the orphans from a storage of any size.")

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="The folder of the plan, a path or a URL.")]
MasterOption = Annotated[str | None, typer.Option(help="Spark's master, for large trees.")]
TableOption = Annotated[
    str | None,
    typer.Option(help="A Delta table that the pipeline writes to: sweep the files staged beside it, not the storage."),
]
ConfOption = Annotated[list[str] | None, typer.Option(help="spark.x=y for Spark; may be repeated.")]


@sweep_app.command("plan")
@takes_settings("store", "storage", "scope")
def plan_(
    plan: PlanArgument,
    *,
    settings: Settings,
    table: TableOption = None,
    sizes: Annotated[bool, typer.Option(help="Ask a disk for the size of each file that goes.")] = True,
    master: MasterOption = None,
    conf: ConfOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the orphans in a plan; nothing is removed. Members may run meanwhile.

    Example: tenure sweep plan /tmp/plan
    """
    from tenure.cleanup.planning import PlanOptions, make_plan

    new = _plan(plan)
    with open_scope(settings) as (opened, name), _spark(master, conf) as start, progress(_CLOCK) as tell:
        make_plan(
            new,
            _target(opened, name, table, settings=settings),
            now=_CLOCK.now,
            start_spark=start,
            options=PlanOptions(sizes, lambda files: tell(Step("lists", files, None, "files"))),
        )
    _show(new, output=output)


@sweep_app.command("apply")
@takes_settings("storage", "scope")
def apply_(
    plan: PlanArgument,
    *,
    settings: Settings,
    table: TableOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    rate: Annotated[float | None, typer.Option(help="Files a second at most, of all tasks together.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove the files of a plan, of any age. A run goes on where an interrupted run stopped.

    Example: tenure sweep apply /tmp/plan --rate 500
    """
    from tenure.cleanup.applying import ApplyOptions, apply_plan, orphan_rule
    from tenure.sinks.staging.rule import rule_of as staged_rule

    if rate is not None and rate <= 0:
        raise UsageError(f"a rate of {rate:g} files a second removes nothing", fix="give a positive rate, or none")
    made = _plan(plan)
    about = made.about()
    if settings.scope not in (None, about.scope):
        raise UsageError(
            f"the plan in {made.url} is of scope {about.scope!r}, not of {settings.scope!r}",
            fix=f"give --scope {about.scope}, or no --scope",
        )
    meant = about.storage
    if table is not None:
        meant = _staged_rule().Location.of(table).table
    elif settings.storage is not None and not about.table:
        meant = f"{settings.storage.rstrip('/')}/{about.scope}"
    with _spark(master, conf) as start, progress(_CLOCK) as tell:

        def moved(applied: Applied) -> None:
            done = applied.removed + applied.gone + applied.failed
            tell(Step("removes", done, about.files, "files"))

        options = ApplyOptions(per_second=rate, on_progress=moved, rule_of=staged_rule if about.table else orphan_rule)
        done = apply_plan(made, storage=meant, start_spark=start, clock=_CLOCK, options=options)
    _show(made, output=output)
    if done.failed:
        raise CleanupIncomplete(
            f"{done.failed} of {about.files} files of the plan {made.url} could not be removed",
            fix=f"remove the causes that tenure sweep report {made.url} shows, and apply the plan again",
        )


@sweep_app.command("report")
def report(plan: PlanArgument, output: OutputOption = Output.TABLE) -> None:
    """The files and outcomes of a plan.

    Example: tenure sweep report /tmp/plan
    """
    _show(_plan(plan), output=output)


def _show(plan: SweepPlan, *, output: Output) -> None:
    from tenure.cleanup.sweep_plan import summary

    shown = summary(plan, shown=_SHOWN)
    if output.is_data:
        print_document(shown, output=output)
        return
    about: Mapping[str, Any] = shown["about"]
    title = f"{about['scope']}, epoch {about['epoch']}: {about['files']} of {about['listed']} files are not needed"
    if not shown["kinds"]:
        sys.stdout.write(f"{title}\n")
        return
    show(shown["kinds"], output=output, title=title, columns=("kind", "files", "bytes", "removed", "gone", "failed"))
    for failure in shown["failures"]:
        note(f"{failure['path']}: {failure['why']}")


@contextmanager
def _needing(extra: str, *, by: str) -> Iterator[None]:
    """Raise UsageError when the block imports a package that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{by} needs the Python package {error.name!r}, which is not installed",
            fix=how_to_install(extra),
        ) from error


def _plan(url: str) -> SweepPlan:
    with _needing("beside-spark", by="tenure sweep"):
        from tenure.cleanup.sweep_plan import SweepPlan
    return SweepPlan(url if "://" in url else os.path.abspath(url))


def _staged_rule() -> ModuleType:
    """A sweep of the storage does not need the packages of a table."""
    with _needing("delta", by="--table"):
        from tenure.sinks.delta import staged_rule
    return staged_rule


def _target(store: CoordinationStore, scope: Scope, table: str | None, *, settings: Settings) -> Target:
    """The scope's storage, or the staged files beside a table. The leader is asked for after the listing."""
    from tenure.cleanup.planning import Target

    context = scope_context(settings, store, scope, clock=_CLOCK)

    def owner() -> str:
        mark = context.owner().check()
        return "" if mark is None else str(mark)

    def claims() -> Claims:
        return read_claims(context, term_now(context))

    if table is None:
        return Target(scope, context.storage, claims, owner)
    delta = _staged_rule()
    from tenure.sinks.staging.rule import staged_in

    location = delta.Location.of(table)

    def rule(claims: Claims) -> Rule:
        queries = scope_attempts(context, epoch=claims.epoch)
        staged: Rule = delta.look(location, queries, scope=scope, epoch=claims.epoch)
        return staged

    return Target(scope, location.table, claims, owner, rule, folders=(staged_in(scope),), storage=context.storage)


@contextmanager
def _spark(master: str | None, conf: list[str] | None) -> Iterator[Callable[[], SparkSession]]:
    """A function that starts a session, which ends with the block."""
    started: list[SparkSession] = []
    settings = pairs(conf, flag="--conf") or {}

    def start() -> SparkSession:
        use_spark()
        from tenure.spark.session import start_session

        log = os.path.join(tempfile.gettempdir(), f"tenure-sweep-{os.getpid()}.spark.log")
        started.append(start_session(name="sweep", master=master, conf=settings, log=log))
        return started[0]

    try:
        yield start
    finally:
        for session in started:
            from tenure.spark.session import end_session

            end_session(session, patience_s=20)
