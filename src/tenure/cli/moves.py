"""`tenure adopt` and `tenure export`: a query moves in from plain Spark, with its checkpoint, and out again.

Promise: without `--apply` nothing is written. The plain query's own checkpoint directory is never changed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich import filesize

from tenure.cli.options import OutputOption, duration_of, takes_settings
from tenure.cli.output import Output, note, print_document, say, show, warn
from tenure.cli.progress import progress
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.encoding import new_uid
from tenure.coordination.held_term import held
from tenure.coordination.reading import read_again
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.declarations.declaration import ZONE, kept_zone
from tenure.errors import StoreUnavailable, UsageError
from tenure.opening import scope_context, scope_store, storage_url
from tenure.operate.snapshot import take_snapshot
from tenure.settings import Settings
from tenure.spark.installed import use_spark
from tenure.storage.reach import reach

if TYPE_CHECKING:
    from tenure.moves.lost_store import LostQuery
    from tenure.moves.plain_checkpoint import PlainCheckpoint
    from tenure.scope_context import ScopeContext

_CLOCK: Final = SystemClock()
_ELECTED: Final = timedelta(seconds=60)
"""For how long a term is waited for: a session of a member that died may stand for as long as its ttl."""
_SHOWN: Final = 60
"""The characters of an offset that a table shows."""


@takes_settings("store", "storage", "scope")
def adopt(
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="The checkpointLocation of the plain query, a path or a URL."),
    ] = None,
    *,
    query: Annotated[str | None, typer.Option(help="The stream of the pipeline file that goes on from there.")] = None,
    lost_store: Annotated[
        bool, typer.Option("--lost-store", help="Go on from the scope's own storage, whose store was lost.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Adopt it. Without this flag, nothing is written.")] = False,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Go on from the checkpoint of a plain Spark query. Stop its job first.

    Example: tenure adopt /data/checkpoints/hourly --query hourly --apply
    """
    name = Scope(settings.required("scope"))
    if lost_store:
        if checkpoint is not None or query is not None:
            raise UsageError(
                "--lost-store goes on with all queries of the storage, and CHECKPOINT or --query is given",
                fix="give no CHECKPOINT, no --query",
            )
        _adopt_lost(settings, name, apply=apply, output=output)
        return
    if checkpoint is None or query is None:
        raise UsageError("nothing is named to adopt", fix="give CHECKPOINT and --query, or --lost-store")
    _adopt_plain(settings, name, checkpoint, query=query, apply=apply, output=output)


@takes_settings("store", "storage", "scope")
def export(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The new checkpointLocation, a path or a URL.")],
    *,
    query: Annotated[str, typer.Option(help="The query.")],
    batch: Annotated[
        int | None, typer.Option(help="Go back to this kept batch; by default the newest, as a job goes on.")
    ] = None,
    settings: Settings,
    patience: Annotated[
        str, typer.Option("--timeout", help="How long to wait for a batch in flight: 30s, 5m.")
    ] = "30s",
    output: OutputOption = Output.TABLE,
) -> None:
    """Copy a query's checkpoint for plain Spark, or for a scope that goes back. Pause the pipeline first.

    Example: tenure export /data/checkpoints/hourly-plain --query hourly
    """
    use_spark()  # the rooms of takeovers import PySpark
    from tenure.moves.plain_checkpoint import export as export_newest
    from tenure.operate.going_back import export_batch

    name = Scope(settings.required("scope"))
    limit = duration_of(patience)
    with (
        _context(settings, name, existing=True) as context,
        SessionKeeper(context.store, ttl=settings.ttl, clock=_CLOCK) as keeper,
    ):
        session, url = keeper.session_id, _url(directory)
        with progress(_CLOCK) as tell:
            if batch is None:
                copied = export_newest(context, url, query=query, session=session, patience=limit, progress=tell)
            else:
                copied = export_batch(context, url, query=query, batch=batch, session=session, progress=tell)
        leader, zone = take_snapshot(context.store, name).leader, _zone(context)
    if leader is not None:
        again = "export again when nobody leads" if batch is None else "stop its members before a query starts there"
        warn(f"{leader} leads scope {name}, and goes on after batch {copied.batch}: {again}")
    if output.is_data:
        exported = {"scope": name, "query": query, "batch": copied.batch, "directory": directory, "time_zone": zone}
        print_document({**exported, "query_id": copied.query_id}, output=output)
        return
    if batch is None:
        note(
            f"query {query} of scope {name} is exported up to batch {copied.batch}; plain Spark goes on from "
            f"{directory}"
        )
    else:
        note(f"query {query} of scope {name} is exported as it was after batch {batch}, under another id")
        note(f"sinks do not know this id: put the output back to what it was then, and adopt {directory}")
    if zone is not None:
        note(f"the query has computed in the time zone {zone}: give the job the same {ZONE}")


def _url(place: str) -> str:
    return place if "://" in place else f"file://{os.path.abspath(place)}"


def _adopt_plain(settings: Settings, name: Scope, checkpoint: str, *, query: str, apply: bool, output: Output) -> None:
    use_spark()  # the rooms of takeovers import PySpark
    from tenure.moves.adoption import check_free, refuse_name, refuse_own
    from tenure.moves.plain_checkpoint import read_plain

    refuse_name(query)
    plain = read_plain(_url(checkpoint))
    refuse_own(plain, storage=storage_url(settings, name))
    zone = None  # the scope has none yet
    if not apply:
        try:
            with _context(settings, name, existing=True) as context:
                check_free(context, query=query)
                zone = _zone(context)
        except StoreUnavailable as away:  # a new store is made by --apply
            warn(f"nothing is known of scope {name!r}: {away}")
        _show(plain, output=output)
        note(_of_zone(name, zone, what="the checkpoint"))
        note("nothing was written; --apply adopts it")
        return
    reach(settings.required("storage")).check_writable()
    with _context(settings, name, existing=False) as context:
        check_free(context, query=query)
        zone = _zone(context)
        _show(plain, output=output)
        say(f"copies what a takeover needs of {plain.files} files, {filesize.decimal(plain.bytes)}")
        with _term(context, settings) as term:
            from tenure.moves.adoption import adopt as adopt_plain

            with progress(_CLOCK) as tell:
                adopt_plain(context, term, plain, query=query, progress=tell)
    note(_of_zone(name, zone, what="the checkpoint"))
    note(f"query {query} of scope {name} goes on with batch {plain.next_batch}: start its members")


def _adopt_lost(settings: Settings, name: Scope, *, apply: bool, output: Output) -> None:
    use_spark()  # the rooms of takeovers import PySpark
    from tenure.moves.lost_store import begin_life, check_lost, find_lost, go_on

    lost = find_lost(storage_url(settings, name))
    if not apply:
        try:
            with _context(settings, name, existing=True) as context:
                check_lost(context)
        except StoreUnavailable as away:
            warn(f"nothing is known of scope {name!r}: {away}")
        _show_lost(lost, name, output=output)
        note("nothing was written; stop all members of the lost store first, then --apply goes on from there")
        return
    with _context(settings, name, existing=False) as context:
        begin_life(context)
        _show_lost(lost, name, output=output)
        with _term(context, settings) as term:
            go_on(context, term, lost)
    note(_of_zone(name, None, what="the storage"))
    note(f"scope {name} goes on under a new owner, from epoch {term.epoch}: start its members")


def _zone(context: ScopeContext) -> str | None:
    """The time zone in which the scope has run; None: it has none."""
    return kept_zone(read_again(lambda: context.declarations().read(), clock=context.clock).declaration)


def _of_zone(scope: Scope, zone: str | None, *, what: str) -> str:
    """Neither a checkpoint of Spark nor a storage has the time zone in which queries computed."""
    if zone is not None:
        return f"{what} has no time zone: members of scope {scope} compute in {zone}, and the job should have done so"
    return f"{what} has no time zone: members compute in that of {ZONE}, or else of the first leader's host"


def _show_lost(lost: Sequence[LostQuery], scope: Scope, *, output: Output) -> None:
    rows = [
        {
            "query": one.query,
            "run_directory": str(one.run),
            "batch": one.plain.batch,
            "is done": one.plain.done,
            "goes on with": one.plain.next_batch,
        }
        for one in lost
    ]
    columns = ("query", "run_directory", "batch", "is done", "goes on with")
    show(rows, output=output, title=f"queries in the storage of {scope}", columns=columns)


@contextmanager
def _context(settings: Settings, scope: Scope, *, existing: bool) -> Iterator[ScopeContext]:
    """The scope in the store of the settings, which is closed after the block."""
    opened = scope_store(settings, clock=_CLOCK, existing=existing)
    try:
        yield scope_context(settings, opened, scope, clock=_CLOCK)
    finally:
        opened.close()


@contextmanager
def _term(context: ScopeContext, settings: Settings) -> Iterator[Term]:
    """A term of this process. Raises UsageError: nobody can be elected now."""
    who = Identity(f"adopt-{new_uid()[:8]}", socket.gethostname(), os.getpid())
    try:
        with held(context.store, context.scope, who, ttl=settings.ttl, timeout=_ELECTED, clock=_CLOCK) as term:
            yield term
    except TimeoutError as late:
        raise UsageError(
            f"nobody was elected in scope {context.scope!r} within {_ELECTED.total_seconds():g} s: it is paused, or "
            "a member leads",
            fix="see tenure list; stop the members, or tenure resume",
        ) from late


def _show(plain: PlainCheckpoint, *, output: Output) -> None:
    found = _described(plain)
    if output.is_data:
        print_document(found, output=output)
        return
    sources = found.pop("sources")
    rows = [{"field": field, "value": value} for field, value in found.items()]
    show(rows, output=output, title="the plain query", columns=("field", "value"))
    show(sources, output=output, title="its sources", columns=("source", "kind", "offset"))


def _described(plain: PlainCheckpoint) -> dict[str, Any]:
    sources: list[Mapping[str, Any]] = [
        {"source": source.folder, "kind": source.kind, "offset": (source.offset or "")[:_SHOWN]}
        for source in plain.sources
    ]
    state = "none"
    if plain.operators:
        by = plain.provider or "the provider of Spark's settings"
        state = f"{len(plain.operators)} operators, {plain.partitions or '?'} partitions, {by}"
    return {
        "checkpoint": plain.url,
        "query id": plain.query_id,
        "newest batch": plain.batch,
        "is done": plain.done,
        "goes on with batch": plain.next_batch,
        "state": state,
        "files": plain.files,
        "bytes": plain.bytes,
        "sources": sources,
    }
