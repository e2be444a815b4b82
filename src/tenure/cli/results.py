"""`tenure result` and `tenure cleanup`: how a pipeline ended, and its remains."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import typer

from tenure.assembly import identify
from tenure.cleanup.claims import orphans_of, term_now
from tenure.cleanup.cleaner import CANNOT
from tenure.cleanup.ended_pipeline import cleanables_of
from tenure.cleanup.plan import PLAN, Cleanable, Row
from tenure.cli.options import OutputOption, open_scope, takes_settings
from tenure.cli.output import Output, print_document, show, show_done, show_record
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.election import observe
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tenure.errors import UsageError
from tenure.opening import scope_context
from tenure.operate.scopes import known_records
from tenure.ownership.owner import renew_identity
from tenure.results.result import Result, Stage
from tenure.results.store import RESULTS, result_in
from tenure.settings import Settings

_CLOCK = SystemClock()
_TTL = timedelta(seconds=10)
_SHOWN = 3
"""How many names of a row the table shows at a terminal."""

result_app = typer.Typer(no_args_is_help=True, help="How a pipeline ended for good.")
cleanup_app = typer.Typer(no_args_is_help=True, help="The remains of a pipeline.")


@result_app.command("show")
@takes_settings("store", "scope")
def result_show(settings: Settings, output: OutputOption = Output.TABLE) -> None:
    """How the pipeline ended, and whether it is cleaned up.

    Example: tenure result show
    """
    with open_scope(settings) as (opened, name):
        result = result_in(opened.list(name, RESULTS).records)
    if result is not None:
        show_record(asdict(result), output=output, title=f"result of {name}")
    elif output.is_data:
        print_document(None, output=output)
    else:
        sys.stdout.write(f"{name} has not ended: the next run goes on where it was\n")


@result_app.command("forget")
@takes_settings("store", "storage", "scope")
def result_forget(settings: Settings, output: OutputOption = Output.TABLE) -> None:
    """Let a pipeline that has ended be run again, from the beginning of its sources.

    Example: tenure result forget
    """
    with open_scope(settings) as (opened, name):
        known_records(opened, name)
        results = scope_context(settings, opened, name, clock=_CLOCK).results()
        _refuse_unless_clean(results.read(), name)
        leader = observe(opened, name).leader
        if leader is not None:
            raise UsageError(f"member {leader!r} leads scope {name!r}", fix="stop that member first")
        identity = identify(settings)
        who = Identity(f"forget-{identity.member}", identity.host, identity.pid)
        try:
            with held(opened, name, who, ttl=_TTL, timeout=2 * _TTL, clock=_CLOCK) as term:
                _refuse_unless_clean(results.read(), name)  # the result may have changed before the term
                renew_identity(opened, term, clock=_CLOCK)  # separates any remains of this life from the next
                results.forget(term)
        except TimeoutError as busy:
            raise UsageError(f"scope {name!r} is busy: {busy}", fix="stop its members first") from busy
    show_done(f"{name} may be run again, from the beginning", {"scope": name, "forgotten": True}, output=output)


def _refuse_unless_clean(result: Result | None, scope: Scope) -> None:
    if result is None:
        raise UsageError(f"scope {scope!r} has no result", fix="start a member: the pipeline goes on")
    if result.stage is Stage.DIRTY:
        raise UsageError(
            f"the remains of the pipeline of scope {scope!r} are not cleaned up yet",
            fix="start a member, which cleans up; see tenure cleanup status",
        )


@cleanup_app.command("status")
@takes_settings("store", "storage", "scope")
def cleanup_status(
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """The present remains of a pipeline that has ended, or the orphans of a pipeline that goes on.

    Example: tenure cleanup status
    """
    with open_scope(settings) as (opened, name):
        context = scope_context(settings, opened, name, clock=_CLOCK)
        result = context.results().read()
        if result is None:
            context.owner().check()
            cleanables = orphans_of(context, term_now(context))
        else:
            cleanables = cleanables_of(context)
        rows = [_left(row, cleanables[row.name]) for row in PLAN if row.name in cleanables]
    rows = [row for row in rows if row["names"] or row["trouble"]]
    if output.is_data:
        print_document(rows, output=output)
        return
    title = f"{name} goes on" if result is None else f"{name} has {result.ending.value}, and is {result.stage.value}"
    if not rows:
        what = "it has no orphans" if result is None else "nothing is left of it"
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
    most = _SHOWN if sys.stdout.isatty() else len(names)
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])
