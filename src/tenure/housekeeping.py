"""Builds what cleans up and sweeps, from settings: for drivers and for commands.

Promise: like `assembly`, it wires, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenure.assembly import checkpoint_handles, checkpoint_store, storage_url
from tenure.checkpoints.run_name import RUNS, RunName
from tenure.cleanable import Cleanable
from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.ended_pipeline import cleanables_of
from tenure.cleanup.orphan_sweep import Office, orphans_of, seen_now
from tenure.cleanup.orphans import Seen
from tenure.cleanup.sweeper import Sweeper
from tenure.clock import Clock
from tenure.coordination.election import observe
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, check_term
from tenure.errors import UsageError
from tenure.events import Events
from tenure.settings import Settings
from tenure.sinks.sink import Attempts
from tenure.storage.folders import Folders
from tenure.takeover.attempted_batches import attempts_at


def scope_cleanables(
    store: CoordinationStore, scope: Scope, *, settings: Settings, clock: Clock, events: Events = Events.nobody
) -> Mapping[str, Cleanable]:
    """What the pipeline of a scope leaves, by the rows of the plan."""
    return cleanables_of(
        store,
        scope,
        storage=Folders(storage_url(settings, scope)),
        handles=lambda query: checkpoint_handles(store, scope, query, settings=settings, clock=clock, events=events),
        clock=clock,
    )


def scope_cleaner(
    store: CoordinationStore,
    scope: Scope,
    *,
    more: Mapping[str, Cleanable],
    settings: Settings,
    clock: Clock,
    events: Events,
) -> Cleaner:
    """What removes all that the pipeline of a scope left. `more`: the rows of the plan that need its sinks."""
    cleanables = scope_cleanables(store, scope, settings=settings, clock=clock, events=events)
    return _cleaner({**cleanables, **more}, store, scope, settings=settings, clock=clock, events=events)


def scope_orphans(
    store: CoordinationStore, scope: Scope, office: Office, *, settings: Settings, clock: Clock
) -> Mapping[str, Cleanable]:
    """What nobody needs in the storage of a pipeline that goes on, by the rows of the plan, once that is ours."""
    return orphans_of(
        store,
        scope,
        office,
        storage=Folders(storage_url(settings, scope)),
        checkpoints=lambda query: checkpoint_store(store, scope, query, settings=settings, clock=clock),
    )


def office_now(store: CoordinationStore, scope: Scope) -> Office:
    """As whom the leader looks at the storage, or the next one will.

    Raises StoreUnavailable, CorruptRecord; UsageError: nobody ever led there, so it may be another store that names
    what is in the storage.
    """
    view = observe(store, scope)
    if view.office is None:
        raise UsageError(f"nobody ever led scope {scope!r} in this store", fix="name the store that it runs with")
    return Office(view.office.epoch + 1, "") if view.leader is None else Office(view.epoch, view.leader)


def scope_seen(store: CoordinationStore, scope: Scope, office: Office, *, settings: Settings, clock: Clock) -> Seen:
    """What the records of a scope say now, for who has listed its storage before, and asked its owner. Raises
    StorageError, StoreError, Corrupt."""
    return seen_now(
        store,
        scope,
        office,
        storage=Folders(storage_url(settings, scope)),
        checkpoints=lambda query: checkpoint_store(store, scope, query, settings=settings, clock=clock),
    )


def scope_attempts(
    store: CoordinationStore, scope: Scope, office: Office, *, settings: Settings, clock: Clock
) -> Mapping[str, Attempts]:
    """The attempts at batches of the queries that have run directories, by the names of these. Raises StorageError."""
    storage = storage_url(settings, scope)
    folders = Folders(storage)
    queries = [
        query.name
        for query in folders.entries(RUNS)
        if query.folder
        and any(RunName.parse(f"{RUNS}/{query.name}/{run.name}") for run in folders.entries(f"{RUNS}/{query.name}"))
    ]
    return {
        query: attempts_at(
            query,
            scope=scope,
            storage=storage,
            checkpoints=lambda name: checkpoint_store(store, scope, name, settings=settings, clock=clock),
            epoch=office.epoch,
        )
        for query in queries
    }


def scope_sweeper(
    store: CoordinationStore,
    scope: Scope,
    term: Term,
    *,
    more: Mapping[str, Cleanable],
    look_first: Callable[[], None],
    settings: Settings,
    clock: Clock,
    events: Events,
) -> Sweeper:
    """What removes that which nobody needs, beside the batches of a term. `more`: as in `scope_cleaner`; `look_first`:
    as in `Sweeper`."""
    office = Office(term.epoch, term.holder)
    orphans = scope_orphans(store, scope, office, settings=settings, clock=clock)
    cleaner = _cleaner({**orphans, **more}, store, scope, settings=settings, clock=clock, events=events)
    return Sweeper(cleaner, term, look_first=look_first, clock=clock, events=events)


def _cleaner(
    cleanables: Mapping[str, Cleanable],
    store: CoordinationStore,
    scope: Scope,
    *,
    settings: Settings,
    clock: Clock,
    events: Events,
) -> Cleaner:
    return Cleaner(
        cleanables,
        check=lambda term: check_term(store, term, clock=clock),
        scope=scope,
        policy=settings.cleanup_policy(),
        clock=clock,
        events=events,
    )
