"""The members of a scope, as `tenure list` and `tenure status` print them.

Promise: each member has a row, also one whose record does not decode. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields

from rich import filesize

from tenure.cli.output import Output, note, show, warn
from tenure.clock import SystemClock
from tenure.coordination.candidates import MEMBERS, Candidate
from tenure.coordination.past_members import PastMember, is_shown
from tenure.operate.snapshot import Snapshot

_COLUMNS = ("member", "role", "state", "epoch", "lag", "behind", "priority", "tags", "host", "pid")


def show_members(snapshot: Snapshot) -> None:
    """Print the table of the members, with a pause or switchover in its title."""
    leader = snapshot.leader or "nobody"
    notes = [f"{leader} leads, epoch {snapshot.epoch}"]
    if snapshot.paused:
        notes.append("paused")
    if snapshot.switchover is not None:
        notes.append(f"switchover to {snapshot.switchover.to or 'the best standby'} asked for")
    behind = {candidate.member: _behind(candidate) for candidate in snapshot.members}
    now = SystemClock().now()
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
