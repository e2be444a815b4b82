"""`tenure result` and `tenure cleanup`: how a pipeline ended, and what is left of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import typer

from tenure.assembly import identify, scope_context
from tenure.cleanup.claims import orphans_of, term_now
from tenure.cleanup.cleaner import CANNOT
from tenure.cleanup.ended_pipeline import cleanables_of
from tenure.cleanup.plan import PLAN, Cleanable, Row
from tenure.cli.options import OutputOption, ScopeOption, StorageOption, StoreOption, open_scope
from tenure.cli.output import Output, print_json, show
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.election import observe
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tenure.errors import UsageError
from tenure.ownership.owner import renew_identity
from tenure.results.result import Result, Stage
from tenure.results.store import RESULTS, result_in
from tenure.settings import load_settings

_CLOCK = SystemClock()
_TTL = timedelta(seconds=10)
_SHOWN = 3
"""How many names of a row a table shows."""

result_app = typer.Typer(no_args_is_help=True, help="How a pipeline ended for good.")
cleanup_app = typer.Typer(no_args_is_help=True, help="What is left of a pipeline, and goes.")


@result_app.command("show")
def result_show(store: StoreOption = None, scope: ScopeOption = None, output: OutputOption = Output.TABLE) -> None:
    """How the pipeline ended, and whether it is cleaned up."""
    settings = load_settings(store=store, scope=scope)
    with open_scope(settings) as (opened, name):
        found = result_in(opened.list(name, RESULTS).records)
    if output is Output.JSON:
        print_json(None if found is None else asdict(found))
        return
    if found is None:
        sys.stdout.write(f"{name} has not ended: the next run goes on where it was\n")
        return
    rows = [{"field": field, "value": value} for field, value in asdict(found).items()]
    show(rows, output=output, title=f"result of {name}", columns=("field", "value"))


@result_app.command("forget")
def result_forget(store: StoreOption = None, storage: StorageOption = None, scope: ScopeOption = None) -> None:
    """Let a pipeline that has ended be run again, from the beginning of its sources."""
    settings = load_settings(store=store, storage=storage, scope=scope)
    with open_scope(settings) as (opened, name):
        results = scope_context(settings, opened, name, clock=_CLOCK).results()
        _refuse_unless_clean(results.read(), name)
        leader = observe(opened, name).leader
        if leader is not None:
            raise UsageError(f"member {leader!r} leads scope {name!r}", fix="stop it first")
        identity = identify(settings)
        who = Identity(f"forget-{identity.member}", identity.host, identity.pid)
        try:
            with held(opened, name, who, ttl=_TTL, timeout=2 * _TTL, clock=_CLOCK) as term:
                _refuse_unless_clean(results.read(), name)  # it may be another one by now
                renew_identity(opened, term, clock=_CLOCK)  # what is left of this life is not of the next one
                results.forget(term)
        except TimeoutError as busy:
            raise UsageError(f"scope {name!r} cannot be had: {busy}", fix="stop its members first") from busy
    sys.stdout.write(f"{name} may be run again, from the beginning\n")


def _refuse_unless_clean(found: Result | None, scope: Scope) -> None:
    if found is None:
        raise UsageError(f"scope {scope!r} has no result", fix="nothing has to be forgotten: tenure run goes on")
    if found.stage is Stage.DIRTY:
        raise UsageError(
            f"what the pipeline of scope {scope!r} left is not cleaned up yet",
            fix="start a member, which does that; see tenure cleanup status",
        )


@cleanup_app.command("status")
def cleanup_status(
    store: StoreOption = None,
    storage: StorageOption = None,
    scope: ScopeOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """What is left of a pipeline that has ended; of one that goes on, what nobody needs. As it is now."""
    settings = load_settings(store=store, storage=storage, scope=scope)
    with open_scope(settings) as (opened, name):
        context = scope_context(settings, opened, name, clock=_CLOCK)
        found = context.results().read()
        if found is None:
            context.owner().check()
            cleanables = orphans_of(context, term_now(context))
        else:
            cleanables = cleanables_of(context)
        rows = [_left(row, cleanables[row.name]) for row in PLAN if row.name in cleanables]
    rows = [row for row in rows if row["names"] or row["trouble"]]
    if output is Output.JSON:
        print_json(rows)
        return
    title = f"{name} goes on" if found is None else f"{name} has {found.ending.value}, and is {found.stage.value}"
    if not rows:
        what = "there is nothing that nobody needs" if found is None else "nothing is left of it"
        sys.stdout.write(f"{title}: {what}\n")
        return
    shown = [{**row, "count": len(row["names"]), "names": _some(row["names"])} for row in rows]
    show(shown, output=output, title=title, columns=("left", "count", "names", "trouble"))


def _left(row: Row, cleanables: Cleanable) -> dict[str, Any]:
    try:
        return {"left": row.name, "what": row.what, "names": list(cleanables.find()), "trouble": None}
    except CANNOT as trouble:
        return {"left": row.name, "what": row.what, "names": [], "trouble": str(trouble)}


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])
