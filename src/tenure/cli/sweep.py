"""`tenure sweep`: what nobody needs in a storage of any size: planned, looked at, removed."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tenure.assembly import scope_context
from tenure.cleanup.claims import read_claims, term_now
from tenure.cleanup.orphans import Claims
from tenure.cli.options import OutputOption, ScopeOption, StorageOption, StoreOption, open_scope
from tenure.cli.output import Output, print_json, show
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import CleanupIncomplete, UsageError
from tenure.housekeeping import scope_attempts
from tenure.settings import Settings, load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tenure.cleanup.applying import Applied
    from tenure.cleanup.engine import Rule
    from tenure.cleanup.planning import Target
    from tenure.cleanup.sweep_plan import Plan

_CLOCK = SystemClock()
_SHOWN = 5
"""How many files a report names that could not be removed."""

sweep_app = typer.Typer(no_args_is_help=True, help="Remove what nobody needs from a storage of any size.")

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="The folder of the plan, a path or a URL.")]
MasterOption = Annotated[str | None, typer.Option(help="Spark's master, for large trees.")]
TableOption = Annotated[
    str | None,
    typer.Option(help="A Delta table that the pipeline writes to: what is staged beside it, instead of the storage."),
]
ConfOption = Annotated[list[str] | None, typer.Option(help="spark.x=y for Spark; may be repeated.")]


@sweep_app.command("plan")
def plan_(
    plan: PlanArgument,
    *,
    store: StoreOption = None,
    storage: StorageOption = None,
    scope: ScopeOption = None,
    table: TableOption = None,
    sizes: Annotated[bool, typer.Option(help="Ask a disk for the sizes of what goes: a call for each file.")] = True,
    master: MasterOption = None,
    conf: ConfOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write down what would go; nothing is removed. Members may run meanwhile."""
    from tenure.cleanup.planning import PlanOptions, make_plan

    settings = load_settings(store=store, storage=storage, scope=scope)
    made = _plan(plan)
    with open_scope(settings) as (opened, name), _spark(master, conf) as start, _bar() as bar:
        task = bar.add_task("files listed", total=None)
        make_plan(
            made,
            _target(opened, name, table, settings=settings),
            now=_CLOCK.now,
            start_spark=start,
            options=PlanOptions(sizes, lambda progress: bar.update(task, completed=progress.files)),
        )
    _tell(made, output=output)


@sweep_app.command("apply")
def apply_(
    plan: PlanArgument,
    *,
    storage: StorageOption = None,
    scope: ScopeOption = None,
    table: TableOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    rate: Annotated[float | None, typer.Option(help="Files a second at most, of all tasks together.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove what is in a plan. A plan never becomes wrong; one that was applied in part goes on."""
    from tenure.cleanup.applying import ApplyOptions, apply_plan, orphan_rule

    settings = load_settings(storage=storage, scope=scope)
    if rate is not None and rate <= 0:
        raise UsageError(f"a rate of {rate:g} files a second removes nothing", fix="give a positive one, or none")
    found = _plan(plan)
    about = found.about()
    if settings.scope not in (None, about.scope):
        raise UsageError(
            f"the plan in {found.url} is of scope {about.scope!r}, not of {settings.scope!r}", fix="name its own"
        )
    meant = about.storage
    if table is not None:
        meant = _staged_rule().Location.of(table).table
    elif settings.storage is not None and not about.table:
        meant = f"{settings.storage.rstrip('/')}/{about.scope}"
    with _spark(master, conf) as start, _bar() as bar:
        task = bar.add_task("files removed", total=about.files)

        def moved(applied: Applied) -> None:
            bar.update(task, completed=applied.removed + applied.gone + applied.failed)

        rule_of = _staged_rule().rule_of if about.table else orphan_rule
        options = ApplyOptions(per_second=rate, on_progress=moved, rule_of=rule_of)
        done = apply_plan(found, storage=meant, start_spark=start, clock=_CLOCK, options=options)
    _tell(found, output=output)
    if done.failed:
        raise CleanupIncomplete(
            f"{done.failed} of {about.files} files of the plan {found.url} could not be removed",
            fix="see tenure sweep report; mend that, and apply the plan again",
        )


@sweep_app.command("report")
def report(plan: PlanArgument, output: OutputOption = Output.TABLE) -> None:
    """What a plan would remove, or has removed."""
    _tell(_plan(plan), output=output)


def _tell(plan: Plan, *, output: Output) -> None:
    from tenure.cleanup.report import summary

    found = summary(plan, shown=_SHOWN)
    if output is Output.JSON:
        print_json(found)
        return
    about: Mapping[str, Any] = found["about"]
    title = f"{about['scope']}, epoch {about['epoch']}: {about['files']} of {about['listed']} files are not needed"
    if not found["kinds"]:
        sys.stdout.write(f"{title}\n")
        return
    show(found["kinds"], output=output, title=title, columns=("kind", "files", "bytes", "removed", "gone", "failed"))
    for one in found["failures"]:
        sys.stdout.write(f"{one['path']}: {one['why']}\n")


def _plan(url: str) -> Plan:
    try:
        from tenure.cleanup.sweep_plan import Plan
    except ModuleNotFoundError as error:
        raise UsageError(
            f"tenure sweep needs the Python package {error.name!r}, which is not installed",
            fix="pip install 'tenure[spark]'",
        ) from error
    return Plan(url if "://" in url else os.path.abspath(url))


def _staged_rule() -> ModuleType:
    """What is in a storage is swept without the packages of a table."""
    try:
        from tenure.sinks.delta import staged_rule
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--table needs the Python package {error.name!r}, which is not installed",
            fix="pip install 'tenure[delta]'",
        ) from error
    return staged_rule


def _target(store: CoordinationStore, scope: Scope, table: str | None, *, settings: Settings) -> Target:
    """The scope's storage, or what is staged beside a table. Who leads is asked when all is listed."""
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
    location = delta.Location.of(table)

    def rule(claims: Claims) -> Rule:
        queries = scope_attempts(context, epoch=claims.epoch)
        found: Rule = delta.look(location, queries, scope=scope, epoch=claims.epoch)
        return found

    return Target(
        scope, location.table, claims, owner, rule, folders=(delta.staged_in(scope),), storage=context.storage
    )


@contextmanager
def _spark(master: str | None, conf: list[str] | None) -> Iterator[Callable[[], SparkSession]]:
    """What starts a session when one is needed; it is ended with the block."""
    started: list[SparkSession] = []
    pairs = dict(_pair(one) for one in conf or ())

    def start() -> SparkSession:
        from tenure.driver.session import start_session

        log = os.path.join(tempfile.gettempdir(), f"tenure-sweep-{os.getpid()}.spark.log")
        started.append(start_session(name="sweep", master=master, conf=pairs, log=log))
        return started[0]

    try:
        yield start
    finally:
        for one in started:
            from tenure.driver.session import end_session

            end_session(one, patience_s=20)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--conf {text!r} is not NAME=VALUE", fix="write --conf spark.x=y")
    return name, value


class _Rate(ProgressColumn):
    """Files a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f}/s")


def _bar() -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
