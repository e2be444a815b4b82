"""What an operator looks at: `tenure status`, `list`, `history`. They need the store alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from shlex import quote
from typing import Annotated, NoReturn

import typer

from tenure.cli.addresses import remember, remembered
from tenure.cli.history import json_of, rows_of
from tenure.cli.member_tables import member_rows, show_members, warnings_of
from tenure.cli.options import OutputOption, open_existing, takes_settings
from tenure.cli.output import Output, note, show
from tenure.cli.watching import EveryOption, Look, Viewed, WatchOption, away_look, interval, look_at
from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.durations import ago
from tenure.errors import StoreUnavailable, UsageError
from tenure.operate.history import history as terms
from tenure.operate.picture import take_picture
from tenure.operate.snapshot import take_snapshot
from tenure.operate.verdict import Level, MembersWord, lines_of, verdict, without_store
from tenure.settings import Settings
from tenure.wording import masked_url

_CHECKED = {Level.OK: 0, Level.WARN: 20, Level.BAD: 21}
"""The exit codes of `tenure status --check`."""


@takes_settings("store", "scope")
def status(
    settings: Settings,
    output: OutputOption = Output.TABLE,
    members: Annotated[
        list[str] | None,
        typer.Option("--members", metavar="HOST:PORT", help="A member's --http, to ask where the store is away."),
    ] = None,
    watch: WatchOption = False,
    every: EveryOption = None,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Print one line, and end with 0 (ok), 20 (warn) or 21 (bad), for cron.")
    ] = False,
) -> None:
    """The verdict: any trouble, and the command against it; who leads, who stands by, and how far each query is.

    Example: tenure status --watch
    """
    how_often = interval(watch, every)
    if check and how_often is not None:
        raise UsageError("--check looks once, and --watch goes on", fix="give one of them")
    viewed = _viewed(settings, _status, away=partial(_members_alone, settings, members))
    try:
        if check:
            _check(viewed, flags=_flags_of(settings))
        look_at(viewed, output=output, every=how_often)
    except StoreUnavailable as failed:
        alone = None if check else viewed.away(failed)
        if alone is not None and "members" in alone.document:
            alone.show(output=output)
        raise


def _viewed(
    settings: Settings,
    look: Callable[[Settings, CoordinationStore, Scope], Look],
    *,
    away: Callable[[StoreUnavailable], Look] = away_look,
) -> Viewed:
    """The scope of the settings, and how it is looked at."""
    scope = Scope(settings.required("scope"))
    return Viewed(partial(open_existing, settings), scope, lambda store: look(settings, store, scope), away)


def _check(viewed: Viewed, *, flags: str) -> NoReturn:
    with viewed.opening() as store:
        found = verdict(take_picture(store, Scope(viewed.scope or ""), now=SystemClock().now()), flags=flags)
    sys.stdout.write(f"{found.level.value}: {found.findings[0].line}\n")
    raise typer.Exit(_CHECKED[found.level])


def _flags_of(settings: Settings) -> str:
    """The store and the storage as flags of a member, for a shell."""
    store, storage = (masked_url(url) for url in (settings.required("store"), settings.storage or "URL"))
    return f"--store {quote(store)} --storage {quote(storage)}"


def _status(settings: Settings, store: CoordinationStore, scope: Scope) -> Look:
    now = SystemClock().now()
    picture = take_picture(store, scope, now=now)
    snapshot, found = picture.snapshot, verdict(picture, flags=_flags_of(settings))
    remember(settings.required("store"), scope, snapshot.members)

    def tables() -> None:
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
        show(queries, output=Output.TABLE, title="newest checkpoints", columns=columns)

    document = {**asdict(snapshot), "verdict": {"level": found.level.value, **asdict(found)}}
    rules = [one.rule for one in found.findings]  # their sentences have ages, which differ at each look
    return Look(document, tables, warnings_of(snapshot), state=(asdict(snapshot), rules))


def _members_alone(settings: Settings, given: list[str] | None, failed: StoreUnavailable) -> Look:
    """What the members say of themselves, where the store does not answer."""
    known = {address: address for address in given or ()}
    known = known or dict(remembered(settings.required("store"), settings.required("scope")))
    if not known:
        return away_look(failed)
    from tenure.cli.members import ask_all  # costs time, and a store mostly answers

    rows = ask_all(known)
    answers = [MembersWord(*(str(row.get(name) or "") for name in ("member", "state", "leader"))) for row in rows]

    def tables() -> None:
        for word, text in without_store(answers, why=failed.what):
            note(f"{word:<6}{text}")
        note("")
        names = ("member", "state", "epoch", "leader", "away_since", "silent_s", "failing", "address", "trouble")
        show(
            [{name: row.get(name) for name in names} for row in rows],
            output=Output.TABLE,
            title=f"{settings.required('scope')}, as its members know it",
            columns=names,
            spare=("silent_s", "address", "failing"),
        )

    return Look({"store_away": str(failed), "members": rows}, tables)


@takes_settings("store", "scope")
def list_members(
    settings: Settings, output: OutputOption = Output.TABLE, watch: WatchOption = False, every: EveryOption = None
) -> None:
    """The members: the leader, and the standbys that can take over.

    Example: tenure list --every 5
    """
    look_at(_viewed(settings, _members), output=output, every=interval(watch, every))


def _members(settings: Settings, store: CoordinationStore, scope: Scope) -> Look:
    snapshot = take_snapshot(store, scope)
    return Look(member_rows(snapshot), partial(show_members, snapshot), warnings_of(snapshot))


@takes_settings("store", "scope")
def history(
    settings: Settings, output: OutputOption = Output.TABLE, watch: WatchOption = False, every: EveryOption = None
) -> None:
    """The terms of a pipeline: who led when, when nobody led, and why each term ended.

    Example: tenure history --output json
    """
    look_at(_viewed(settings, _terms), output=output, every=interval(watch, every))


def _terms(settings: Settings, store: CoordinationStore, scope: Scope) -> Look:
    known = terms(store, scope)

    def tables() -> None:
        rows = rows_of(known, now=SystemClock().now())
        columns = ("epoch", "holder", "from", "to", "why")
        show(rows, output=Output.TABLE, title=f"terms of {scope}", columns=columns)

    return Look([json_of(term) for term in known.terms], tables)
