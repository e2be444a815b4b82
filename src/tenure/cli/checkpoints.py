"""`tenure checkpoints`: the kept checkpoints of a pipeline.

Promise: only `pin` and `unpin` write: a pin, and the copy that it keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tenure.checkpoints.checkpoint import checkpoint_name
from tenure.checkpoints.store import CHECKPOINTS
from tenure.cli.options import OutputOption, open_scope, operator, takes_settings
from tenure.cli.output import Output, note, print_document, show, show_done, show_record, warn
from tenure.clock import SystemClock
from tenure.coordination.candidates import AskedBy
from tenure.errors import CorruptCheckpoint, CorruptRunDirectory, HandleNotFound, UsageError
from tenure.handles.pins import Pin, pins_in
from tenure.opening import scope_context
from tenure.operate.snapshot import take_snapshot
from tenure.settings import Settings
from tenure.spark.installed import use_spark

if TYPE_CHECKING:
    from tenure.operate.verifying import Verified
    from tenure.scope_context import ScopeContext

_CLOCK: Final = SystemClock()

checkpoints_app = typer.Typer(no_args_is_help=True, help="Look at the checkpoints of a pipeline, verify and pin them.")

OneQueryArgument = Annotated[str | None, typer.Argument(help="A query; by default all.")]
BatchArgument = Annotated[int | None, typer.Argument(help="The batch; by default the newest.")]


@checkpoints_app.command("list")
@takes_settings("store", "storage", "scope")
def checkpoints_list(
    query: OneQueryArgument = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """The kept checkpoints, oldest first.

    Example: tenure checkpoints list hourly
    """
    rows = []
    with _context(settings) as context:
        for shown in _queries(context, query):
            rows += [asdict(checkpoint) for checkpoint in context.checkpoints(shown).list()]
        pins = {pin.handle: pin for pin in pins_in(context.store.list(context.scope, CHECKPOINTS).records)}
    for row in rows:
        pin = pins.get(CHECKPOINTS.child(row["query"]).child(checkpoint_name(row["batch"])))
        row["pinned"] = None if pin is None else _pin_in_words(pin)
    columns = ("query", "batch", "epoch", "planned_at", "run_directory", "pinned")
    show(rows, output=output, title=f"checkpoints of {context.scope}", columns=columns)


@checkpoints_app.command("show")
@takes_settings("store", "storage", "scope")
def checkpoints_show(
    query: Annotated[str, typer.Argument(help="The query.")],
    batch: BatchArgument = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """One checkpoint, with its offsets.

    Example: tenure checkpoints show hourly 417 --output json
    """
    with _context(settings) as context:
        checkpoints = context.checkpoints(query)
        try:
            checkpoint = checkpoints.newest() if batch is None else checkpoints.get(batch)
        except HandleNotFound as missing:
            known = f"see tenure checkpoints list {query}"
            raise UsageError(
                f"query {query!r} has no checkpoint {batch} in scope {context.scope!r}", fix=known
            ) from missing
    if checkpoint is None:
        raise UsageError(
            f"query {query!r} has no checkpoint in scope {context.scope!r}", fix="see tenure checkpoints list"
        )
    show_record(asdict(checkpoint), output=output, title=f"checkpoint {checkpoint.batch} of {query}")


@checkpoints_app.command("diff")
@takes_settings("store", "storage", "scope")
def checkpoints_diff(
    query: Annotated[str, typer.Argument(help="The query.")],
    first: Annotated[int, typer.Argument(help="A batch.")],
    second: Annotated[int | None, typer.Argument(help="A later batch; by default the newest.")] = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """The differences between two kept checkpoints, and the input between them.

    Example: tenure checkpoints diff hourly 410 417
    """
    from tenure.inputs.planned_inputs import count_files
    from tenure.operate.checkpoint_diff import differences
    from tenure.rundirs.run_directory import RunDirectory

    with _context(settings) as context:
        _queries(context, query)
        kept = {one.batch: one for one in context.checkpoints(query).list()}
        batches = sorted((first, max(kept, default=first) if second is None else second))
        missing = [batch for batch in batches if batch not in kept]
        if missing:
            raise UsageError(f"query {query!r} has no checkpoint {missing[0]}", fix=f"kept batches: {sorted(kept)}")
        older, newer = (kept[batch] for batch in batches)

        def files(folder: str, after: int, last: int) -> str:
            directory = RunDirectory(f"{context.storage}/{newer.run_directory}")
            try:
                return f"{count_files(directory, folder, after=after, last=last)} files"
            except CorruptRunDirectory as gone:  # the log was compacted or removed since
                return f"not known: {gone.what}"

        rows = [asdict(one) for one in differences(older, newer, files=files)]
    columns = ("what", "first", "second", "between")
    show(rows, output=output, title=f"checkpoints {older.batch} and {newer.batch} of {query}", columns=columns)


@checkpoints_app.command("verify")
@takes_settings("store", "storage", "scope")
def checkpoints_verify(
    query: OneQueryArgument = None,
    batch: BatchArgument = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Verify all kept checkpoints, not the newest alone.")] = False,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read all files that a takeover needs at a checkpoint. The exit code is 5 if a file is missing or damaged.

    Example: tenure checkpoints verify hourly
    """
    if every and batch is not None:
        raise UsageError(f"--all and batch {batch} are given", fix="give one of them")
    use_spark()  # the rooms of takeovers import PySpark
    from tenure.operate.verifying import all_kept, known_queries, newest_only, one_batch, verify

    chosen = one_batch(batch) if batch is not None else all_kept if every else newest_only
    with _context(settings) as context:
        queries = known_queries(context) if query is None else [query]
        found = [one for shown in queries for one in verify(context, shown, chosen=chosen)]
    if output.is_data:
        print_document([_verified(one) for one in found], output=output)
    else:
        rows = [
            {"query": one.query, "batch": one.batch, "verdict": _verdict(one), "damage": line}
            for one in found
            for line in (one.damage or ("",))
        ]
        columns = ("query", "batch", "verdict", "damage")
        show(rows, output=output, title=f"checkpoints of {context.scope}", columns=columns)
        for one in found:
            if one.advice is not None:
                note(f"checkpoint {one.batch} of {one.query}: {one.advice.meaning}; {one.advice.fix}")
    damaged = [one for one in found if one.damage]
    if damaged:
        first = damaged[0]
        raise CorruptCheckpoint(
            f"{len(damaged)} of {len(found)} checkpoints damaged: batch {first.batch} of query {first.query!r}: "
            f"{first.damage[0]}" + (f" and {len(first.damage) - 1} more" if len(first.damage) > 1 else "")
        )


@checkpoints_app.command("pin")
@takes_settings("store", "storage", "scope")
def checkpoints_pin(
    query: Annotated[str, typer.Argument(help="The query.")],
    batch: BatchArgument = None,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the list.")] = "",
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Keep a checkpoint until it is unpinned, with a copy of its state. Members may run meanwhile.

    Example: tenure checkpoints pin hourly 417 --reason "before the upgrade"
    """
    use_spark()  # the rooms of takeovers import PySpark
    from tenure.operate.pinning import pin

    with _context(settings) as context:
        pinned = pin(context, query, batch, asked=AskedBy(operator(), " ".join(reason.split())))
    what = f"checkpoint {pinned.batch} of {query}"
    line = f"{what} is pinned already, {_pin_in_words(pinned.pin)}"
    if pinned.is_new:
        line = f"{what} is pinned; {pinned.files} files are copied to {pinned.pin.copy}"
    show_done(line, {"query": query, "batch": pinned.batch, "copy": pinned.pin.copy}, output=output)


@checkpoints_app.command("unpin")
@takes_settings("store", "storage", "scope")
def checkpoints_unpin(
    query: Annotated[str, typer.Argument(help="The query.")],
    batch: Annotated[int, typer.Argument(help="The batch.")],
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a pinned checkpoint go as others do, and remove its copy.

    Example: tenure checkpoints unpin hourly 417
    """
    use_spark()  # the rooms of takeovers import PySpark
    from tenure.operate.pinning import unpin

    with _context(settings) as context:
        pin, kept = unpin(context, query, batch)
    what = f"checkpoint {batch} of {query}"
    line = f"{what} is not pinned" if pin is None else f"{what} is not pinned any more"
    show_done(line, {"query": query, "batch": batch, "was_pinned": pin is not None}, output=output)
    if kept is not None:
        warn(f"its copy stays for the next sweep: {kept}")


def _pin_in_words(pin: Pin) -> str:
    words = f"by {pin.by} at {pin.at}" + (f": {pin.reason}" if pin.reason else "")
    return words if pin.whole else f"{words} (the copy is not whole: pin it again)"


def _verified(one: Verified) -> dict[str, Any]:
    told = {"meaning": None, "fix": None} if one.advice is None else asdict(one.advice)
    return {
        "query": one.query,
        "batch": one.batch,
        "run_directory": None if one.checkpoint is None else one.checkpoint.run_directory,
        "verdict": _verdict(one),
        "damage": one.damage,
        **told,
    }


def _verdict(one: Verified) -> str:
    return "damaged" if one.damage else "whole"


@contextmanager
def _context(settings: Settings) -> Iterator[ScopeContext]:
    with open_scope(settings) as (opened, name):
        yield scope_context(settings, opened, name, clock=_CLOCK)


def _queries(context: ScopeContext, query: str | None) -> Sequence[str]:
    """The queries that are meant. Raises UsageError: that query has no checkpoint."""
    queries = [newest.query for newest in take_snapshot(context.store, context.scope).queries]
    if query is not None and query not in queries:
        raise UsageError(f"query {query!r} has no checkpoint in scope {context.scope!r}", fix=f"known: {queries}")
    return queries if query is None else [query]
