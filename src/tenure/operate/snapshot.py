"""A read-only picture of a scope, for the command line.

Promise: it needs the store only, not the storage.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.checkpoints.store import CHECKPOINTS, newest_in
from tenure.coordination.candidates import Candidate, Pause, Switchover, Unread
from tenure.coordination.election import observe
from tenure.coordination.failing import Failing
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scope at one instant (two reads: leadership, then checkpoints)."""

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


def take_snapshot(store: CoordinationStore, scope: Scope) -> Snapshot:
    """The scope now. Raises StoreUnavailable, CorruptRecord, CorruptHandle."""
    view = observe(store, scope)
    leader = next((member for member in view.members if member.member == view.leader), None)
    behind = {} if leader is None else leader.behind
    records = store.list(scope, CHECKPOINTS).records
    for record in handles_in(records, CHECKPOINTS):
        decode_handle(record)  # older checkpoints, too: damage is loud
    newest = newest_in(records)
    handles = [(query, decode_handle(newest[query])) for query in sorted(newest)]
    return Snapshot(
        scope=scope,
        store=store.guarantees.name,
        leader=view.leader,
        epoch=0 if view.office is None else view.office.epoch,
        paused=view.pause is not None,
        pause=view.pause,
        failing=view.failing,
        switchover=view.switchover,
        members=view.members,
        queries=tuple(QueryStatus(query, int(one.name), one.epoch, behind.get(query)) for query, one in handles),
        unread=view.unread,
    )
