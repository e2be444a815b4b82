"""The remains of an ended pipeline in the store and in the storage, row by row of the plan.

Promise: records are removed under the term; a pointer goes before its blob. In the storage only the folders that Tenure
makes are touched, and no link is followed. Nothing is remembered between two walks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.checkpoints.left_out import QUARANTINED
from tenure.checkpoints.store import CHECKPOINTS as CHECKPOINT_AREAS
from tenure.cleanup.engine import Everything, Leftovers
from tenure.cleanup.plan import ANCHORS, AREAS, CHECKPOINTS, DECLARATION, HANDLES, REQUESTS, STORAGE, Cleanable
from tenure.coordination.candidates import PAUSED, RESTARTS, SWITCHOVER
from tenure.coordination.failing import FAILING
from tenure.coordination.records import Delete, Key, Record
from tenure.coordination.term import Term, commit_under
from tenure.declarations.store import DECLARED
from tenure.errors import HandleLocked
from tenure.handles.areas import RECORDS, handles_in, is_anchor, records_in
from tenure.handles.record_store import RecordStore
from tenure.scope_context import ScopeContext
from tenure.storage.storage import Storage


def cleanables_of(context: ScopeContext) -> dict[str, Cleanable]:
    """All rows of the plan that need no sink."""
    folders = context.folders()
    return {
        REQUESTS: _Records(context, wanted=_is_request),
        CHECKPOINTS: _Checkpoints(context),
        HANDLES: _OfServices(context),
        ANCHORS: _Anchors(context, wanted=_is_anchor),
        DECLARATION: _Records(context, wanted=lambda record: record.key == DECLARED),
        **{row: Leftovers(folders, area.folder, Everything(area.ends)) for row, area in AREAS.items()},
        STORAGE: _Root(folders),
    }


def _is_request(record: Record) -> bool:
    request = record.key.is_under(RESTARTS) or record.key.is_under(QUARANTINED)
    return request or record.key in (SWITCHOVER, PAUSED, FAILING)


def _is_anchor(record: Record) -> bool:
    return is_anchor(record.key) or is_anchor(record.key, CHECKPOINT_AREAS)


class _Records:
    """Records of a scope that name nothing."""

    def __init__(self, context: ScopeContext, *, wanted: Callable[[Record], bool]) -> None:
        self._context = context
        self._wanted = wanted

    def find(self) -> Sequence[str]:
        records = self._context.store.list(self._context.scope, "").records
        return [record.key for record in records if self._wanted(record)]

    def remove(self, term: Term, name: str) -> None:
        key, store = Key(name), self._context.store
        record = store.read(self._context.scope, key)
        if record is None:
            return
        self._check(key)  # after the read: a lock that comes now has moved the anchor
        commit_under(store, term, writes=(Delete(key, record.version),), clock=self._context.clock)

    def _check(self, key: Key) -> None:
        """Raises HandleLocked: the record is needed."""


class _Anchors(_Records):
    """The anchors of the areas that have no handle and no lock any more."""

    def _check(self, key: Key) -> None:
        below = self._context.store.list(self._context.scope, key).records
        if below:
            raise HandleLocked(below[0].key)


class _Checkpoints:
    """The handles of all queries, also of queries that the pipeline no longer has."""

    def __init__(self, context: ScopeContext) -> None:
        self._context = context

    def find(self) -> Sequence[str]:
        records = self._context.store.list(self._context.scope, CHECKPOINT_AREAS).records
        handles = handles_in(records, CHECKPOINT_AREAS)
        return [record.key.removeprefix(f"{CHECKPOINT_AREAS}/") for record in handles]

    def remove(self, term: Term, name: str) -> None:
        query, batch = name.split("/")
        self._context.checkpoint_handles(query).remove(term, batch)


class _OfServices:
    """The handles and the records of services that led this scope (`tenure.lead`)."""

    def __init__(self, context: ScopeContext) -> None:
        self._context = context

    def find(self) -> Sequence[str]:
        records = self._context.store.list(self._context.scope, "").records
        return [record.key for record in (*handles_in(records), *records_in(records))]

    def remove(self, term: Term, name: str) -> None:
        context, (area, _, last) = self._context, name.rpartition("/")
        if area == RECORDS:
            RecordStore(context.store, context.scope, clock=context.clock).remove(term, last)
        else:
            context.handles(Key(area)).remove(term, last)


class _Root:
    """The scope's own folder, which goes when it is empty; files of others keep it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def find(self) -> Sequence[str]:
        return ["."] if self._storage.is_empty() else []

    def remove(self, term: Term, name: str) -> None:
        self._storage.remove_empty()
