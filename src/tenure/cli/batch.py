"""`tenure batch`: what an operator does about a planned batch that cannot run.

Promise: without `--apply` nothing is written or moved.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated, Final

import typer

from tenure.cli.options import OutputOption, open_scope, operator, takes_settings
from tenure.cli.output import Output, note, print_document, show
from tenure.clock import SystemClock
from tenure.errors import UsageError
from tenure.opening import scope_context
from tenure.operate.quarantine import chosen, open_batch, quarantine
from tenure.settings import Settings

batch_app = typer.Typer(no_args_is_help=True, help="Do something about a planned batch that cannot run.")
_CLOCK: Final = SystemClock()


@batch_app.command("quarantine")
@takes_settings("store", "storage", "scope")
def quarantine_(
    query: Annotated[str, typer.Argument(help="The query whose batch fails.")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="The bad files; the end of a path is enough.")
    ] = None,
    *,
    to: Annotated[str | None, typer.Option(metavar="FOLDER", help="Where the files go, a path or a URL.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it. Without this flag, nothing is written or moved.")
    ] = False,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take bad input files out of the planned batch, and let the pipeline go on without them. Nobody may lead.

    Example: tenure batch quarantine raw d.json --to /data/quarantine --apply
    """
    with open_scope(settings) as (opened, name):
        context = scope_context(settings, opened, name, clock=_CLOCK)
        batch = open_batch(context, query)
        wanted = chosen(batch, files or ())
        before = () if batch.left_out is None else batch.left_out.files
        if not apply:
            rows = [
                {"file": file, "taken_out": "yes" if file in before else "would be" if file in wanted else None}
                for file in batch.files
            ]
            title = f"planned files of batch {batch.batch} of {query}"
            show(rows, output=output, title=title, columns=("file", "taken_out"))
            note("nothing is written; give the bad files, --to FOLDER and --apply")
            return
        if to is None or not (wanted or before):
            raise UsageError("no file, or no folder for it, is named", fix="give FILE... and --to FOLDER")
        records, goes_on = quarantine(context, batch, wanted, to=to, by=operator())
    if output.is_data:
        print_document({"batches": [asdict(one) for one in records], "goes_on": goes_on}, output=output)
        return
    for one in records:
        sys.stdout.write(f"batch {one.batch} of {one.query} runs without {', '.join(one.files)}\n")
    if not goes_on:
        note(f"{name} stays paused, as an operator has paused it: see tenure resume")
