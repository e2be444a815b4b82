"""Opens the store and the scope that the settings name. Only this module and the warden know the backends."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tenure.backends.registry import SHARED, open_store
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.timed_store import TimedStore, Told
from tenure.event import Events
from tenure.settings import Settings

if TYPE_CHECKING:
    from tenure.scope_context import ScopeContext


def scope_store(
    settings: Settings, *, clock: Clock | None = None, existing: bool = False, told: Told | None = None
) -> CoordinationStore:
    """Open the store that the settings name. `existing`: it must exist. `told`: hears of each request. Raises
    UsageError, StoreUnavailable."""
    clock = clock or SystemClock()
    store = open_store(settings.store_url(), clock=clock, existing=existing)
    return store if told is None else TimedStore(store, told=told, clock=clock)


def shared_store(settings: Settings, *, clock: Clock) -> AbstractContextManager[CoordinationStore]:
    """The store that the settings name, for as long as a block lasts; all blocks of this process share one client.
    Raises UsageError."""
    return SHARED.use(settings.store_url(), clock=clock)


def storage_url(settings: Settings, scope: Scope) -> str:
    """The URL of the scope's part of the storage."""
    return f"{settings.required('storage').rstrip('/')}/{scope}"


def scope_context(
    settings: Settings, store: CoordinationStore, scope: Scope, *, clock: Clock, events: Events = Events.nobody
) -> ScopeContext:
    """The scope in `store` and in the storage of the settings. Raises UsageError: the settings name no storage."""
    from tenure.scope_context import ScopeContext  # costs time, and a command that looks at the store needs none

    return ScopeContext(
        store,
        scope,
        storage_url(settings, scope),
        clock,
        events,
        checkpoints_kept=settings.checkpoints_kept,
        inline_limit=settings.inline_limit,
        ttl=settings.ttl,
        cleanup=settings.cleanup_policy(),
    )


def check_storage(settings: Settings, scope: Scope) -> None:
    """Check that this process can write to the storage. The folder of the scope is not made: the pipeline may have been
    cleaned up. Raises UsageError, StorageError."""
    from tenure.storage.reach import reach

    own = storage_url(settings, scope)
    reach(own if reach(own).entries() else settings.required("storage")).check_writable()
