"""A read-only picture of a scope, for the command line.

Promise: it needs the store only, not the storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from tenure.checkpoints.store import CHECKPOINTS, newest_in, planned_last
from tenure.coordination.candidates import Candidate, Pause, Switchover, Unread, members_in
from tenure.coordination.election import View, view_in
from tenure.coordination.failing import Failing
from tenure.coordination.past_members import PastMember, gone_of, past_in
from tenure.coordination.records import Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import Corrupt
from tenure.handles.areas import handles_in
from tenure.handles.handle import decode_handle


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The newest checkpoint of a query."""

    query: str
    batch: int
    epoch: int
    """The term that planned or retook the batch last."""
    behind: int | None = None
    """The offsets of Kafka that the query was behind, up to half a minute ago; None: it reads none, or nobody knows."""
    planned_at: str | None = None
    """When the batch was planned (ISO 8601, UTC); None: the store does not hold the time."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scope at one instant."""

    scope: str
    store: str
    leader: str | None
    epoch: int
    """The newest epoch; 0: there never was a leader."""
    paused: bool
    """No member is elected until `tenure resume`."""
    switchover: Switchover | None
    """A request that the leader has not obeyed yet."""
    members: tuple[Candidate, ...]
    queries: tuple[QueryStatus, ...]
    unread: tuple[Unread, ...] = ()
    """The skipped records: those of members and requests that do not decode."""
    pause: Pause | None = None
    """Who paused the scope, and why; None: it is not paused."""
    failing: Failing | None = None
    """The failures since the last progress; None: there are none."""
    leads_since: str | None = None
    """When the leader won its term (ISO 8601, UTC); None: nobody leads."""
    gone: tuple[PastMember, ...] = ()
    """The members that do not live any more, as far as they were noted, the last first."""


def take_snapshot(store: CoordinationStore, scope: Scope) -> Snapshot:
    """The scope now. Raises StoreUnavailable, CorruptRecord, CorruptHandle."""
    listing = store.list(scope, "")
    return snapshot_in(scope, store.guarantees.name, view_in(listing), listing.records)


def snapshot_in(scope: Scope, store: str, view: View, records: Sequence[Record]) -> Snapshot:
    """The picture in the records of a scope. `store`: its kind. Raises CorruptHandle."""
    leader = next((member for member in view.members if member.member == view.leader), None)
    behind = {} if leader is None else leader.behind
    for record in handles_in(records, CHECKPOINTS):
        decode_handle(record)  # older checkpoints, too: damage is loud
    newest = newest_in(records)
    handles = [(query, decode_handle(newest[query])) for query in sorted(newest)]
    return Snapshot(
        scope=scope,
        store=store,
        leader=view.leader,
        epoch=0 if view.office is None else view.office.epoch,
        paused=view.pause is not None,
        pause=view.pause,
        failing=view.failing,
        switchover=view.switchover,
        members=view.members,
        queries=tuple(
            QueryStatus(query, int(one.name), one.epoch, behind.get(query), _planned_at(query, newest[query]))
            for query, one in handles
        ),
        unread=view.unread,
        leads_since=None if view.leader is None or view.office is None else view.office.since,
        gone=gone_of(past_in(records), members_in(records)),
    )


def _planned_at(query: str, record: Record) -> str | None:
    with suppress(Corrupt):  # for people; the driver refuses a damaged checkpoint
        return planned_last([record]) or None
    return None
