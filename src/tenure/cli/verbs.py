"""The verbs of an operator: list, switchover, failover, pause, resume, restart.

Promise: a verb that returns 0 happened; `switchover` and `failover` wait for the new leader, and a switchover that does
not come in time is taken back.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, fields
from datetime import timedelta
from typing import Annotated

import typer
from rich import filesize

from tenure.cli.options import OutputOption, ScopeOption, StoreOption, open_scope
from tenure.cli.output import Output, show, warn
from tenure.clock import SystemClock
from tenure.coordination.candidates import MEMBERS, Candidate, State
from tenure.coordination.election import View, observe
from tenure.coordination.orders import Orders, Requested
from tenure.coordination.reading import read_again, wait_for_change
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import CoordinationStore
from tenure.durations import parse_duration
from tenure.errors import StoreUnavailable, UsageError
from tenure.settings import load_settings
from tenure.status.snapshot import Snapshot, take_snapshot

_CLOCK = SystemClock()

CandidateOption = Annotated[
    str | None, typer.Option("--candidate", metavar="MEMBER", help="The member to lead; the best one when left out.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Do not ask. Needed where no terminal is there to ask at.")]
TimeoutOption = Annotated[str, typer.Option("--timeout", help="How long to wait for the new leader: 60s, 5m.")]


def list_members(store: StoreOption = None, scope: ScopeOption = None, output: OutputOption = Output.TABLE) -> None:
    """The members: who leads, who could take over."""
    with open_scope(load_settings(store=store, scope=scope)) as (opened, name):
        found = take_snapshot(opened, name)
    if output is Output.JSON:
        show(_rows(found), output=output, title="", columns=())
        warn_of_skipped(found)
    else:
        show_members(found)


def switchover(
    candidate: CandidateOption = None,
    timeout: TimeoutOption = "60s",
    store: StoreOption = None,
    scope: ScopeOption = None,
) -> None:
    """Hand the leadership over: the leader finishes its batch, resigns, and the other one takes over."""
    limit = _duration(timeout)
    with open_scope(load_settings(store=store, scope=scope)) as (opened, name):
        orders = Orders(opened, name, clock=_CLOCK)
        requested = orders.switchover(to=candidate)
        try:
            found = _wait_for_successor(opened, name, requested, limit=limit)
        except BaseException:
            orders.withdraw(requested)
            raise
        if found is None:
            taken_back = orders.withdraw(requested)
            raise StoreUnavailable(
                f"no other member of scope {name!r} led within {timeout}"
                + ("; the request is taken back" if taken_back else ""),
                fix="look with tenure list; a batch that takes long wants a longer --timeout",
            )
    _say_leader(found, name, requested)


def failover(
    candidate: CandidateOption = None,
    force: ForceOption = False,
    timeout: TimeoutOption = "60s",
    store: StoreOption = None,
    scope: ScopeOption = None,
) -> None:
    """Take the leadership away at once, waiting for no batch; for a leader that does not do what it should."""
    limit = _duration(timeout)
    with open_scope(load_settings(store=store, scope=scope)) as (opened, name):
        if not force:
            _confirm_failover(observe(opened, name), name)
        requested = Orders(opened, name, clock=_CLOCK).failover(to=candidate)
        found = _wait_for_successor(opened, name, requested, limit=limit)
        if found is None:
            raise StoreUnavailable(f"no member of scope {name!r} led within {timeout}", fix="look with tenure list")
    _say_leader(found, name, requested)


def pause(store: StoreOption = None, scope: ScopeOption = None) -> None:
    """Maintenance: nobody is elected until `tenure resume`. The leader goes on, and stays fenced."""
    with open_scope(load_settings(store=store, scope=scope)) as (opened, name):
        fresh = Orders(opened, name, clock=_CLOCK).pause()
    _say(f"{name} is paused: nobody is elected until tenure resume" if fresh else f"{name} was paused already")


def resume(store: StoreOption = None, scope: ScopeOption = None) -> None:
    """End a pause."""
    with open_scope(load_settings(store=store, scope=scope)) as (opened, name):
        was = Orders(opened, name, clock=_CLOCK).resume()
    _say(f"{name} is not paused any more" if was else f"{name} was not paused")


def restart(
    member: Annotated[str, typer.Argument(help="The member whose driver is replaced.")],
    store: StoreOption = None,
    scope: ScopeOption = None,
) -> None:
    """Replace a member's driver; a leader finishes its batch and resigns first."""
    with open_scope(load_settings(store=store, scope=scope)) as (opened, name):
        Orders(opened, name, clock=_CLOCK).restart(member)
    _say(f"member {member} of {name} was asked to replace its driver")


def show_members(found: Snapshot) -> None:
    """The table of the members, with what an operator asked for."""
    leader = found.leader or "nobody"
    notes = [f"{leader} leads, epoch {found.epoch}"]
    if found.paused:
        notes.append("paused")
    if found.switchover is not None:
        notes.append(f"switchover to {found.switchover.to or 'the best standby'} asked for")
    lags = {one.member: _lag(one) for one in found.members}
    show(
        [{**row, "lag": lags.get(str(row["member"]))} for row in _rows(found)],
        output=Output.TABLE,
        title=f"{found.scope} on {found.store}: {', '.join(notes)}",
        columns=("member", "role", "state", "epoch", "lag", "priority", "tags", "host", "pid", "since"),
    )
    for row in _rows(found):
        if row["state"] == State.FAILING.value:
            _say(f"{row['member']}: {row['trouble']}")
        if row["other_file"]:
            _say(f"{row['member']}: its pipeline file ({row['file']}) is not that of the leader")
    warn_of_skipped(found)


def warn_of_skipped(found: Snapshot) -> None:
    """A line for each record that does not decode."""
    for one in found.unread:
        warn(f"{one.why}; it is skipped")


def _lag(one: Candidate) -> str | None:
    if one.lag is None:
        return None
    return f"{one.lag.batches} batches, {filesize.decimal(one.lag.bytes)}"


def _rows(found: Snapshot) -> list[dict[str, object]]:
    rows = []
    led = next((one.file for one in found.members if one.member == found.leader), "")
    for one in found.members:
        row = {**asdict(one), "state": one.state.value, "tags": "nofailover" if one.nofailover else None}
        rows.append({**row, "trouble": one.trouble or None})
    for skipped in found.unread:
        if skipped.key.startswith(f"{MEMBERS}/"):
            empty = dict.fromkeys([*(field.name for field in fields(Candidate)), "tags"])
            name = skipped.key.removeprefix(f"{MEMBERS}/")
            rows.append({**empty, "member": name, "state": "unreadable", "trouble": skipped.why})
    for row in rows:
        leads = row["member"] == found.leader
        row |= {"role": "leader" if leads else "standby", "epoch": found.epoch if leads else None}
        row["other_file"] = bool(led and row["file"]) and row["file"] != led
    return rows


def _wait_for_successor(
    store: CoordinationStore, scope: Scope, requested: Requested, *, limit: timedelta
) -> View | None:
    """The leadership once a later term is held; None: none was in time."""
    end_s = _CLOCK.monotonic_s() + limit.total_seconds()
    revision = Revision(0)
    while True:
        found = read_again(lambda: observe(store, scope), over=lambda: _CLOCK.monotonic_s() >= end_s, clock=_CLOCK)
        if found.epoch > requested.epoch:
            return found
        left_s = end_s - _CLOCK.monotonic_s()
        if left_s <= 0:
            return None
        revision = max(revision, found.revision)
        timeout = timedelta(seconds=min(left_s, 1.0))
        wait_for_change(store, scope, after=revision, timeout=timeout, clock=_CLOCK)


def _confirm_failover(found: View, scope: Scope) -> None:
    if not sys.stdin.isatty():
        raise UsageError("failover ends a term at once, and nobody is here to be asked", fix="add --force")
    leader = f"{found.leader}, epoch {found.epoch}" if found.leader else "nobody"
    typer.confirm(f"{leader} leads {scope}. End this term at once? Its unfinished batch is run again", abort=True)


def _say_leader(found: View, scope: Scope, requested: Requested) -> None:
    _say(f"{found.leader} leads {scope}, epoch {found.epoch}; before: {requested.leader or 'nobody'}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--timeout {text!r} is not a duration", fix=str(error)) from error
