"""Builds what cleans up and sweeps a scope: for drivers and for commands.

Promise: like `assembly`, it wires, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tenure.checkpoints.run_name import RUNS, RunName
from tenure.cleanable import Cleanable
from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.ended_pipeline import cleanables_of
from tenure.cleanup.orphan_sweep import Office, orphans_of, seen_now
from tenure.cleanup.orphans import Seen
from tenure.cleanup.sweeper import Sweeper
from tenure.coordination.election import observe
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, check_term
from tenure.errors import UsageError
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Attempts
from tenure.takeover.attempted_batches import attempts_at


def scope_cleanables(context: ScopeContext) -> Mapping[str, Cleanable]:
    """What the pipeline of a scope leaves, by the rows of the plan."""
    return cleanables_of(
        context.store,
        context.scope,
        storage=context.folders(),
        handles=context.checkpoint_handles,
        clock=context.clock,
    )


def scope_cleaner(context: ScopeContext, *, more: Mapping[str, Cleanable]) -> Cleaner:
    """What removes all that the pipeline of a scope left. `more`: the rows of the plan that need its sinks."""
    return _cleaner(context, {**scope_cleanables(context), **more})


def scope_orphans(context: ScopeContext, office: Office) -> Mapping[str, Cleanable]:
    """What nobody needs in the storage of a pipeline that goes on, by the rows of the plan, once that is ours."""
    return orphans_of(context.store, context.scope, office, storage=context.folders(), checkpoints=context.checkpoints)


def office_now(store: CoordinationStore, scope: Scope) -> Office:
    """As whom the leader looks at the storage, or the next one will.

    Raises StoreUnavailable, CorruptRecord; UsageError: nobody ever led there, so it may be another store that names
    what is in the storage.
    """
    view = observe(store, scope)
    if view.office is None:
        raise UsageError(f"nobody ever led scope {scope!r} in this store", fix="name the store that it runs with")
    return Office(view.office.epoch + 1, "") if view.leader is None else Office(view.epoch, view.leader)


def scope_seen(context: ScopeContext, office: Office) -> Seen:
    """What the records of a scope say now, for who has listed its storage before, and asked its owner. Raises
    StorageError, StoreError, Corrupt."""
    return seen_now(context.store, context.scope, office, storage=context.folders(), checkpoints=context.checkpoints)


def scope_attempts(context: ScopeContext, office: Office) -> Mapping[str, Attempts]:
    """The attempts at batches of the queries that have run directories, by the names of these. Raises StorageError."""
    folders = context.folders()
    queries = [
        query.name
        for query in folders.entries(RUNS)
        if query.folder
        and any(RunName.parse(f"{RUNS}/{query.name}/{run.name}") for run in folders.entries(f"{RUNS}/{query.name}"))
    ]
    return {query: attempts_at(query, context, epoch=office.epoch) for query in queries}


def scope_sweeper(
    context: ScopeContext, term: Term, *, more: Mapping[str, Cleanable], look_first: Callable[[], None]
) -> Sweeper:
    """What removes that which nobody needs, beside the batches of a term. `more`: as in `scope_cleaner`; `look_first`:
    as in `Sweeper`."""
    cleaner = _cleaner(context, {**scope_orphans(context, Office(term.epoch, term.holder)), **more})
    return Sweeper(cleaner, term, look_first=look_first, clock=context.clock, events=context.events)


def _cleaner(context: ScopeContext, cleanables: Mapping[str, Cleanable]) -> Cleaner:
    return Cleaner(
        cleanables,
        check=lambda term: check_term(context.store, term, clock=context.clock),
        scope=context.scope,
        policy=context.cleanup,
        clock=context.clock,
        events=context.events,
    )
