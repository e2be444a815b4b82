"""The verbs of an operator: switchover, failover, pause, resume, restart, reinit.

Promise: exit code 0 means that the order was carried out or, for `restart` and `reinit`, recorded. `switchover` and
`failover` wait for the new leader; a switchover that takes too long is withdrawn.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Annotated

import typer

from tenure.checkpoints.store import newest_batches
from tenure.cli.completing import member_names
from tenure.cli.options import OutputOption, duration_of, open_scope, operator, takes_settings
from tenure.cli.output import Output, show_done
from tenure.cli.progress import progress
from tenure.clock import SystemClock
from tenure.coordination.candidates import AskedBy
from tenure.coordination.election import View, observe, view_in
from tenure.coordination.reading import read_again, wait_for_change
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import StoreUnavailable, UsageError
from tenure.operate.handover import handover_line
from tenure.operate.orders import Orders, Requested
from tenure.operate.scopes import known_records
from tenure.progress import Step
from tenure.settings import Settings

_CLOCK = SystemClock()

CandidateOption = Annotated[
    str | None,
    typer.Option(
        "--candidate",
        metavar="MEMBER",
        autocompletion=member_names,
        help="The next leader; by default the best standby.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Do not ask. Needed without a terminal.")]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the history: for example 'maintenance of host 7'.")
]
TimeoutOption = Annotated[str, typer.Option("--timeout", help="How long to wait for the new leader: 60s, 5m.")]


@takes_settings("store", "scope")
def switchover(
    candidate: CandidateOption = None,
    timeout: TimeoutOption = "60s",
    reason: ReasonOption = "",
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Hand the leadership over: the leader finishes its batch and resigns, and a standby takes over.

    Example: tenure switchover --candidate ben --reason 'maintenance of host 7'
    """
    limit = duration_of(timeout)
    with open_scope(settings) as (opened, name):
        orders = _orders(opened, name, reason)
        requested = orders.switchover(to=candidate)
        try:
            successor = _wait_for_successor(opened, name, requested, limit=limit)
        except BaseException:
            orders.withdraw(requested)
            raise
        if successor is None:
            taken_back = orders.withdraw(requested)
            raise StoreUnavailable(
                f"no other member of scope {name!r} led within {timeout}{_pause_of(opened, name)}"
                + ("; the request is taken back" if taken_back else ""),
                fix="see tenure list; give a longer --timeout if the batches take long",
            )
    _show_leader(successor, name, requested, output)


@takes_settings("store", "scope")
def failover(
    candidate: CandidateOption = None,
    force: ForceOption = False,
    timeout: TimeoutOption = "60s",
    reason: ReasonOption = "",
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """End the leader's term at once, without waiting for its batch. For a leader that does not work as it should.

    Example: tenure failover --force
    """
    limit = duration_of(timeout)
    with open_scope(settings) as (opened, name):
        if not force:
            known_records(opened, name)  # nobody is asked about a scope that is not there
            _confirm_failover(observe(opened, name), name)
        requested = _orders(opened, name, reason).failover(to=candidate)
        successor = _wait_for_successor(opened, name, requested, limit=limit)
        if successor is None:
            raise StoreUnavailable(
                f"no member of scope {name!r} led within {timeout}{_pause_of(opened, name)}", fix="see tenure list"
            )
    _show_leader(successor, name, requested, output)


@takes_settings("store", "scope")
def pause(reason: ReasonOption = "", *, settings: Settings, output: OutputOption = Output.TABLE) -> None:
    """Maintenance: no member is elected until `tenure resume`. The leader goes on, and stays fenced.

    Example: tenure pause --reason 'upgrade of the store'
    """
    with open_scope(settings) as (opened, name):
        fresh = _orders(opened, name, reason).pause()
    line = f"{name} is paused: no member is elected until tenure resume" if fresh else f"{name} was paused already"
    show_done(line, {"scope": name, "paused": True, "was_paused": not fresh}, output=output)


@takes_settings("store", "scope")
def resume(settings: Settings, output: OutputOption = Output.TABLE) -> None:
    """End a pause.

    Example: tenure resume
    """
    with open_scope(settings) as (opened, name):
        was_paused = Orders(opened, name, clock=_CLOCK).resume()
    line = f"{name} is not paused any more" if was_paused else f"{name} was not paused"
    show_done(line, {"scope": name, "paused": False, "was_paused": was_paused}, output=output)


@takes_settings("store", "scope")
def restart(
    member: Annotated[str, typer.Argument(autocompletion=member_names, help="The member whose driver is replaced.")],
    reason: ReasonOption = "",
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Replace a member's driver. A leader finishes its batch and resigns first.

    Example: tenure restart anna
    """
    with open_scope(settings) as (opened, name):
        _orders(opened, name, reason).restart(member)
    line = f"member {member} of {name} was asked to replace its driver"
    show_done(line, {"scope": name, "member": member, "restart": "asked for"}, output=output)


@takes_settings("store", "scope")
def reinit(
    member: Annotated[str, typer.Argument(autocompletion=member_names, help="The standby that begins anew.")],
    reason: ReasonOption = "",
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a standby begin anew: another driver, which copies and rehearses the leader's state from nothing.

    Example: tenure reinit ben
    """
    with open_scope(settings) as (opened, name):
        _orders(opened, name, reason).reinit(member)
    line = f"standby {member} of {name} was asked to begin anew"
    show_done(line, {"scope": name, "member": member, "reinit": "asked for"}, output=output)


def _orders(store: CoordinationStore, scope: Scope, reason: str) -> Orders:
    return Orders(store, scope, clock=_CLOCK, asked=AskedBy(operator(), " ".join(reason.split())))


def _wait_for_successor(
    store: CoordinationStore, scope: Scope, requested: Requested, *, limit: timedelta
) -> View | None:
    """The leadership once a member holds a later term; None: no member did in time."""
    end_s = _CLOCK.monotonic_s() + limit.total_seconds()
    revision = Revision(0)
    with progress(_CLOCK) as tell:
        while True:
            listing = read_again(
                lambda: store.list(scope, ""), over=lambda: _CLOCK.monotonic_s() >= end_s, clock=_CLOCK
            )
            view = view_in(listing)
            if view.epoch > requested.epoch:
                return view
            remaining_s = end_s - _CLOCK.monotonic_s()
            if remaining_s <= 0:
                return None
            what = handover_line(view, epoch=requested.epoch, batches=newest_batches(listing.records))
            tell(Step(what, limit.total_seconds() - remaining_s, limit.total_seconds(), "s"))
            revision = max(revision, view.revision)
            timeout = timedelta(seconds=min(remaining_s, 1.0))
            wait_for_change(store, scope, after=revision, timeout=timeout, clock=_CLOCK)


def _pause_of(store: CoordinationStore, scope: Scope) -> str:
    """For a scope that was paused after the request."""
    return ": it is paused, see tenure resume" if observe(store, scope).pause is not None else ""


def _confirm_failover(view: View, scope: Scope) -> None:
    if not sys.stdin.isatty():
        raise UsageError("failover ends a term at once, and there is no terminal to ask at", fix="add --force")
    leader = f"{view.leader}, epoch {view.epoch}" if view.leader else "nobody"
    typer.confirm(f"{leader} leads {scope}. End this term at once? Its unfinished batch is run again", abort=True)


def _show_leader(view: View, scope: Scope, requested: Requested, output: Output) -> None:
    line = f"{view.leader} leads {scope}, epoch {view.epoch}; before: {requested.leader or 'nobody'}"
    record = {"scope": scope, "leader": view.leader, "epoch": view.epoch, "before": requested.leader}
    show_done(line, record, output=output)
