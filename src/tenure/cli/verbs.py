"""The verbs of an operator: switchover, failover, pause, resume, restart, reinit.

Promise: exit code 0 means that the order was carried out or, for `restart` and `reinit`, recorded. `switchover` and
`failover` wait for the new leader; a switchover that takes too long is withdrawn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Annotated

import typer
from rich import filesize

from tenure.checkpoints.store import newest_batches
from tenure.cli.completing import member_names
from tenure.cli.options import OutputOption, duration_of, open_scope, operator, takes_settings
from tenure.cli.output import Output, note, show, show_done, warn
from tenure.cli.progress import progress
from tenure.clock import SystemClock
from tenure.coordination.candidates import MEMBERS, AskedBy, Candidate
from tenure.coordination.election import View, observe, view_in
from tenure.coordination.past_members import PastMember, is_shown
from tenure.coordination.reading import read_again, wait_for_change
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import StoreUnavailable, UsageError
from tenure.operate.handover import handover_line
from tenure.operate.orders import Orders, Requested
from tenure.operate.scopes import known_records
from tenure.operate.snapshot import Snapshot
from tenure.progress import Step
from tenure.settings import Settings

_CLOCK = SystemClock()
_COLUMNS = ("member", "role", "state", "epoch", "lag", "behind", "priority", "tags", "host", "pid")

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


def show_members(snapshot: Snapshot) -> None:
    """Print the table of the members, with a pause or switchover in its title."""
    leader = snapshot.leader or "nobody"
    notes = [f"{leader} leads, epoch {snapshot.epoch}"]
    if snapshot.paused:
        notes.append("paused")
    if snapshot.switchover is not None:
        notes.append(f"switchover to {snapshot.switchover.to or 'the best standby'} asked for")
    behind = {candidate.member: _behind(candidate) for candidate in snapshot.members}
    now = _CLOCK.now()
    gone = [row for row in snapshot.gone if is_shown(row, now=now)]
    lags = {candidate.member: _lag(candidate) for candidate in snapshot.members}
    show(
        [
            {**row, "lag": lags.get(str(row["member"])), "behind": behind.get(str(row["member"]))}
            for row in [*member_rows(snapshot), *(_gone_row(row) for row in gone)]
        ],
        output=Output.TABLE,
        title=f"{snapshot.scope} on {snapshot.store}: {', '.join(notes)}",
        columns=(*_COLUMNS, "joined", "leads_since"),
        spare=("joined", "leads_since", "host", "priority", "epoch"),
    )
    for past in gone:
        note(f"{past.member} is gone ({past.shown(now=now)})" + (f": {past.line}" if past.line else ""))
    for line in _troubles(snapshot):
        note(line)
    for row in member_rows(snapshot):
        if row["trouble"] and row["state"] != "unreadable":
            note(f"{row['member']}: {row['trouble']}")
        if row["other_file"]:
            note(f"{row['member']}: its pipeline file ({row['file']}) is not that of the leader")
    if not snapshot.members and not snapshot.epoch:
        note(f"no member ever ran scope {snapshot.scope} in this store; see tenure scopes")
    for line in warnings_of(snapshot):
        warn(line)


def _gone_row(row: PastMember) -> dict[str, object]:
    return {**dict.fromkeys(_COLUMNS), "state": "gone", "leads_since": None, **asdict(row)}


def _troubles(snapshot: Snapshot) -> Iterator[str]:
    """Why the scope is paused, and what fails, for people."""
    pause, failing = snapshot.pause, snapshot.failing
    if pause is not None and not pause.why and pause.by:
        yield f"paused by {pause.by}, {pause.at}" + (f": {pause.reason}" if pause.reason else "")
    elif pause is not None and pause.why:
        yield f"paused by {pause.by}, {pause.at}: {pause.why}; mend the cause, then tenure resume"
    elif failing is not None:
        times = "once" if failing.tries == 1 else f"{failing.tries} times"
        what = (
            f"attempt {failing.count} at batch {failing.last.batch}, " if failing.count and failing.last.query else ""
        )
        yield f"{failing.last.kind} {times} since {failing.since}, {what}last by {failing.member}: {failing.last.why}"


def warnings_of(snapshot: Snapshot) -> list[str]:
    """A warning for each record that does not decode."""
    return [f"{unread.why}; it is skipped" for unread in snapshot.unread]


def _lag(candidate: Candidate) -> str | None:
    if candidate.lag is None:
        return None
    return f"{candidate.lag.batches} batches, {filesize.decimal(candidate.lag.bytes)}"


def _behind(candidate: Candidate) -> str | None:
    return ", ".join(f"{query} {count}" for query, count in sorted(candidate.behind.items())) or None


def member_rows(snapshot: Snapshot) -> list[dict[str, object]]:
    """A row for each member, also for those whose record does not decode."""
    rows = []
    leaders_file = next((member.file for member in snapshot.members if member.member == snapshot.leader), "")
    for member in snapshot.members:
        row = {**asdict(member), "state": member.state.value, "tags": "nofailover" if member.nofailover else None}
        rows.append({**row, "trouble": member.trouble or None})
    for skipped in snapshot.unread:
        if skipped.key.startswith(f"{MEMBERS}/"):
            empty = dict.fromkeys([*(field.name for field in fields(Candidate)), "tags"])
            name = skipped.key.removeprefix(f"{MEMBERS}/")
            rows.append({**empty, "member": name, "state": "unreadable", "trouble": skipped.why})
    for row in rows:
        leads = row["member"] == snapshot.leader
        row |= {"role": "leader" if leads else "standby", "epoch": snapshot.epoch if leads else None}
        row |= {"joined": row.pop("since"), "leads_since": snapshot.leads_since if leads else None}
        row["other_file"] = bool(leaders_file and row["file"]) and row["file"] != leaders_file
    return rows


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
