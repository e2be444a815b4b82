"""What an operator looks at: `tenure status`, `history`, `scopes`. They need the store alone."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tenure.cli.history import json_of, rows_of
from tenure.cli.members import ask_all, remember, remembered
from tenure.cli.options import OutputOption, open_existing, open_scope, takes_settings
from tenure.cli.output import Output, note, print_json, show, warn
from tenure.cli.verbs import show_members, warn_of_skipped
from tenure.clock import SystemClock
from tenure.durations import ago
from tenure.errors import StoreUnavailable
from tenure.operate.history import history as terms
from tenure.operate.picture import take_picture
from tenure.operate.scopes import CHECK_THE_STORE, ScopeStatus, scope_statuses
from tenure.operate.verdict import Level, lines_of, verdict
from tenure.settings import Settings

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
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Print one line, and end with 0 (ok), 20 (warn) or 21 (bad), for cron.")
    ] = False,
) -> None:
    """The verdict: any trouble, and the command against it; who leads, who stands by, and how far each query is."""
    now = SystemClock().now()
    try:
        with open_scope(settings) as (opened, name):
            picture = take_picture(opened, name, now=now)
    except StoreUnavailable as away:
        if not check:
            _show_members_alone(settings, members, away, output=output)
        raise
    remember(settings.required("store"), name, picture.snapshot.members)
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


def _show_members_alone(settings: Settings, given: list[str] | None, away: StoreUnavailable, *, output: Output) -> None:
    """Print what the members say of themselves, where the store does not answer."""
    known = {address: address for address in given or ()}
    known = known or dict(remembered(settings.required("store"), settings.required("scope")))
    if not known:
        return
    rows = ask_all(known)
    if output is Output.JSON:
        print_json({"store": str(away), "members": rows})
        return
    note("the store does not answer; the members say:")
    names = ("member", "state", "epoch", "leader", "away_since", "silent_s", "failing", "address", "trouble")
    show(
        [{name: row.get(name) for name in names} for row in rows],
        output=output,
        title=f"{settings.required('scope')}, as its members know it",
        columns=names,
        spare=("silent_s", "address", "failing"),
    )


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
