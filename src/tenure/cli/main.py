"""`tenure`: run a member, look at a scope, or at the scopes of a store.

Promise: bad input gives one line on stderr and its own exit code, never a stack trace. Exit codes: 0 success; 2 usage;
130 interrupted; else the `exit_code` of the error's class.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer

from tenure.assembly import Run, assemble, scope_context
from tenure.cli.batch import batch_app
from tenure.cli.handles import handles_app
from tenure.cli.history import json_of, rows_of
from tenure.cli.moves import moves_app
from tenure.cli.options import OutputOption, open_existing, open_scope, takes_settings
from tenure.cli.output import (
    ERASE,
    Narrator,
    Output,
    complain,
    note,
    print_json,
    replaces,
    show,
    show_record,
    wait_no_more,
    warn,
)
from tenure.cli.results import cleanup_app, result_app
from tenure.cli.sweep import sweep_app
from tenure.cli.verbs import failover, list_members, pause, restart, resume, show_members, switchover, warn_of_skipped
from tenure.clock import SystemClock
from tenure.durations import ago
from tenure.errors import HandleNotFound, StorageError, TenureError, UsageError
from tenure.operate.history import history as terms
from tenure.operate.picture import take_picture
from tenure.operate.scopes import CHECK_THE_STORE, ScopeStatus, scope_statuses
from tenure.operate.snapshot import take_snapshot
from tenure.operate.verdict import Level, lines_of, verdict
from tenure.settings import PasswordInUrl, Settings

app = typer.Typer(
    no_args_is_help=True,
    help="Keeps PySpark pipelines running, and their output right.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
checkpoints_app = typer.Typer(no_args_is_help=True, help="Look at the checkpoints of a pipeline.")
_CHECKED = {Level.OK: 0, Level.WARN: 20, Level.BAD: 21}
"""The exit codes of `tenure status --check`."""

app.add_typer(checkpoints_app, name="checkpoints")
app.add_typer(handles_app, name="handles")
app.add_typer(batch_app, name="batch")
app.add_typer(result_app, name="result")
app.add_typer(cleanup_app, name="cleanup")
app.add_typer(sweep_app, name="sweep")
app.add_typer(moves_app)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keeps PySpark pipelines running, and their output right."""


@app.command()
@takes_settings(
    *("store", "storage", "scope", "params", "conf", "master", "connector", "packages", "jars", "py_files", "submit"),
    *("ttl", "member", "until_idle", "final", "new_stream", "drop_stream", "changed_query", "changed_source"),
    *("changed_zone", "short_batch", "batch_attempts", "away_limit", "stop_patience", "priority", "nofailover"),
    *("on_store_loss", "standby", "http", "spark_log", "event_log"),
)
def run(
    pipeline_file: Annotated[str, typer.Argument(metavar="PIPELINE.py", help="The file that declares the pipeline.")],
    *,
    settings: Settings,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End when the sources have no more input.")] = False,
    final: Annotated[
        bool, typer.Option("--final", help="End the pipeline for good when the sources have no more input.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no line for batches and waiting.")] = False,
) -> None:
    """Run one member of a pipeline. Of several members, one leads and the others stand by."""
    clock = SystemClock()
    stop = threading.Event()
    narrator = Narrator(clock=clock, quiet=quiet)
    narrator.wait("waits for the pipeline file and the store")
    with _stop_on_signals(stop) as signalled:
        assembled = assemble(
            settings,
            Run(pipeline_file, until_idle=until_idle, final=final),
            subscribers=(narrator,),
            clock=clock,
        )
        try:
            assembled.member.run(stop=stop)
        except KeyboardInterrupt:
            assembled.kill()  # does not wait for a batch that hangs
            raise
        except TenureError as error:
            assembled.ended(error)
            raise
        finally:
            assembled.close()
            wait_no_more()
    if signal.SIGINT in signalled:
        raise typer.Exit(130)


@app.command()
@takes_settings("store", "scope")
def status(
    settings: Settings,
    output: OutputOption = Output.TABLE,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Print one line, and end with 0 (ok), 20 (warn) or 21 (bad), for cron.")
    ] = False,
) -> None:
    """The verdict: any trouble, and the command against it; who leads, who stands by, and how far each query is."""
    now = SystemClock().now()
    with open_scope(settings) as (opened, name):
        picture = take_picture(opened, name, now=now)
    found, snapshot = verdict(picture), picture.snapshot
    if check:
        sys.stdout.write(f"{found.level.value}: {found.findings[0].line}\n")
        raise typer.Exit(_CHECKED[found.level])
    if output is Output.JSON:
        print_json({**asdict(snapshot), "verdict": {"level": found.level.value, **asdict(found)}})
        warn_of_skipped(snapshot)
        return
    for word, text in lines_of(found):
        note(f"{word:<6}{text}")
    note("")
    show_members(snapshot)
    sys.stdout.write("\n")
    queries = [
        {**asdict(one), "planned": None if one.planned_at is None else ago(one.planned_at, now=now)}
        for one in snapshot.queries
    ]
    columns = ("query", "batch", "epoch", "planned", "behind")
    show(queries, output=output, title="newest checkpoints", columns=columns)


@app.command()
@takes_settings("store", "scope")
def history(settings: Settings, output: OutputOption = Output.TABLE) -> None:
    """The terms of a pipeline: who led when, when nobody led, and why each term ended."""
    with open_scope(settings) as (opened, name):
        known = terms(opened, name)
    if output is Output.JSON:
        print_json([json_of(term) for term in known.terms])
        return
    rows = rows_of(known, now=SystemClock().now())
    show(rows, output=output, title=f"terms of {name}", columns=("epoch", "holder", "from", "to", "why"))


@takes_settings("store")
def scopes(settings: Settings, output: OutputOption = Output.TABLE) -> None:
    """The scopes of the store: who leads each, and when its newest batch was planned."""
    with open_existing(settings) as opened:
        name, found = opened.guarantees.name, scope_statuses(opened)
    if output is Output.TABLE and not found:
        sys.stdout.write(f"no scope is in this store ({name}): no member has led here; {CHECK_THE_STORE}\n")
        return
    rows = [
        {
            **asdict(one),
            "live": len(one.members),
            "newest_batch": None if one.planned_at is None else ago(one.planned_at, now=SystemClock().now()),
            "state": _state(one),
        }
        for one in found
    ]
    if output is Output.JSON:
        rows = [asdict(one) for one in found]
    columns = ("scope", "leader", "epoch", "live", "newest_batch", "state")
    show(rows, output=output, title=f"scopes of this store ({name})", columns=columns)
    for one in found:
        if one.trouble is not None:
            warn(f"scope {one.scope!r}: {one.trouble}")


def _state(one: ScopeStatus) -> str:
    if one.trouble is not None:
        return "unreadable"
    if one.ended is not None:
        return one.ended
    return "paused" if one.paused else "led" if one.leader is not None else "not led"


for verb in (list_members, scopes, switchover, failover, pause, resume, restart):
    app.command(verb.__name__.removesuffix("_members"))(verb)


@checkpoints_app.command("list")
@takes_settings("store", "storage", "scope")
def checkpoints_list(
    query: Annotated[str | None, typer.Argument(help="A query; by default all.")] = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """The kept checkpoints, oldest first."""
    rows = []
    with open_scope(settings) as (opened, name):
        queries = [newest.query for newest in take_snapshot(opened, name).queries]
        if query is not None and query not in queries:
            raise UsageError(f"query {query!r} has no checkpoint in scope {name!r}", fix=f"known: {queries}")
        for shown in [query] if query is not None else queries:
            checkpoints = scope_context(settings, opened, name, clock=SystemClock()).checkpoints(shown)
            rows += [asdict(checkpoint) for checkpoint in checkpoints.list()]
    columns = ("query", "batch", "epoch", "planned_at", "run_directory")
    show(rows, output=output, title=f"checkpoints of {name}", columns=columns)


@checkpoints_app.command("show")
@takes_settings("store", "storage", "scope")
def checkpoints_show(
    query: Annotated[str, typer.Argument(help="The query.")],
    batch: Annotated[int | None, typer.Argument(help="The batch; by default the newest.")] = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """One checkpoint, with its offsets."""
    with open_scope(settings) as (opened, name):
        checkpoints = scope_context(settings, opened, name, clock=SystemClock()).checkpoints(query)
        try:
            checkpoint = checkpoints.newest() if batch is None else checkpoints.get(batch)
        except HandleNotFound as missing:
            known = f"see tenure checkpoints list {query}"
            raise UsageError(f"query {query!r} has no checkpoint {batch} in scope {name!r}", fix=known) from missing
    if checkpoint is None:
        raise UsageError(f"query {query!r} has no checkpoint in scope {name!r}", fix="see tenure checkpoints list")
    show_record(asdict(checkpoint), output=output, title=f"checkpoint {checkpoint.batch} of {query}")


@app.command()
def version() -> None:
    """Print the version."""
    sys.stdout.write(f"tenure {installed_version('tenure')}\n")


@contextmanager
def _stop_on_signals(stop: threading.Event) -> Iterator[set[int]]:
    """Let SIGINT, SIGTERM and SIGHUP stop the member, and a second SIGINT interrupt. Yields the received signals."""
    came: set[int] = set()
    line = f"{ERASE if replaces() else ''}tenure: stopping; interrupt again to end at once\n".encode()

    def asked(number: int, frame: object) -> None:
        if number == signal.SIGINT:
            if number in came:
                raise KeyboardInterrupt
            os.write(2, line)  # no buffer: this is a signal handler
        came.add(number)
        stop.set()

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _shows(others: Callable[..., object]) -> Callable[..., None]:
    """What shows a warning: ours as a line, by `others` those of libraries."""

    def show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, PasswordInUrl):
            warn(str(message))
        else:
            others(message, category, *place)

    return show_warning


def _drop_output() -> None:
    """Discard the buffered output, which the interpreter would try to write again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main() -> None:
    """The entry point of `tenure`."""
    warnings.showwarning = _shows(warnings.showwarning)
    try:
        result = app(prog_name="tenure", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        sys.stdout.flush()
    except TenureError as error:
        complain(str(error))
        code = error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # the reader has closed the pipe
        _drop_output()
        code = 1
    except OSError as error:  # the output or a log cannot be written
        complain(str(error))
        _drop_output()
        code = StorageError.exit_code
    except typer.TyperException as error:
        words = error.format_message().replace("Value error, ", "")  # a word of the parser's own
        complain(words or "no command is given; choose one of those above")
        code = 2
    sys.exit(code)
