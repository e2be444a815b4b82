"""Builds the cleaner and the sweeper of a scope, for drivers and for commands. It wires, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tenure.checkpoints.run_name import run_queries, runs_of
from tenure.cleanup.claims import orphans_of
from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.ended_pipeline import cleanables_of
from tenure.cleanup.orphans import Claims
from tenure.cleanup.plan import Cleanable
from tenure.cleanup.sweeper import Sweeper
from tenure.coordination.term import Term, check_term
from tenure.rundirs.attempted_batches import attempts_at
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Attempts


def scope_cleaner(context: ScopeContext, *, more: Mapping[str, Cleanable]) -> Cleaner:
    """The cleaner that removes everything of an ended pipeline. `more`: the rows of the plan that need its sinks."""
    return _cleaner(context, {**cleanables_of(context), **more})


def scope_sweeper(
    context: ScopeContext, term: Term, *, more: Mapping[str, Cleanable], look_first: Callable[[], None]
) -> Sweeper:
    """The sweeper that removes orphans in a term. `more`: as in `scope_cleaner`; `look_first`: as in `Sweeper`."""
    cleaner = _cleaner(context, {**orphans_of(context, Claims(term.epoch, term.holder)), **more})
    return Sweeper(cleaner, term, look_first=look_first, clock=context.clock, events=context.events)


def scope_attempts(context: ScopeContext, *, epoch: int) -> Collection[Attempts]:
    """The attempts at batches of the queries that have run directories. Raises StorageError."""
    queries = [query for query in run_queries(context.storage) if runs_of(context.storage, query)]
    return [attempts_at(query, context, epoch=epoch) for query in queries]


def _cleaner(context: ScopeContext, cleanables: Mapping[str, Cleanable]) -> Cleaner:
    return Cleaner(
        cleanables,
        check=lambda term: check_term(context.store, term, clock=context.clock),
        scope=context.scope,
        policy=context.cleanup,
        clock=context.clock,
        events=context.events,
    )
