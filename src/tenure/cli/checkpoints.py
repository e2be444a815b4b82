"""`tenure checkpoints`: the kept checkpoints of a pipeline."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tenure.cli.options import OutputOption, open_scope, takes_settings
from tenure.cli.output import Output, show, show_record
from tenure.clock import SystemClock
from tenure.errors import HandleNotFound, UsageError
from tenure.opening import scope_context
from tenure.operate.snapshot import take_snapshot
from tenure.settings import Settings

checkpoints_app = typer.Typer(no_args_is_help=True, help="Look at the checkpoints of a pipeline.")


@checkpoints_app.command("list")
@takes_settings("store", "storage", "scope")
def checkpoints_list(
    query: Annotated[str | None, typer.Argument(help="A query; by default all.")] = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """The kept checkpoints, oldest first.

    Example: tenure checkpoints list hourly
    """
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
    """One checkpoint, with its offsets.

    Example: tenure checkpoints show hourly 417 --output json
    """
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
