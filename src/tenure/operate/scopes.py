"""The scopes of a store, for operators: a read-only picture of all, and the records of a scope by its name.

Promise: the picture needs the store only, and lists each scope once, several scopes at a time over one client. A scope
whose records do not decode is shown with its trouble, and hides no other scope. Not promised: one instant of all
scopes. A typing error in the name of a scope is an error that names the scopes of the store, where its user may list
them (`known_records`). Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

from tenure.checkpoints.store import planned_last
from tenure.coordination.candidates import members_in
from tenure.coordination.election import view_in
from tenure.coordination.records import Listing, Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import AccessDenied, Corrupt, UsageError
from tenure.operate.picture import ScopePicture, picture_in
from tenure.operate.removal_rules import is_removed
from tenure.results.store import result_in

T = TypeVar("T")

AT_ONCE: Final = 16
"""How many scopes are listed at once: a listing mostly waits for the store."""


@dataclass(frozen=True, slots=True)
class ScopeStatus:
    """One scope at one instant."""

    scope: str
    leader: str | None
    epoch: int
    """The newest epoch; 0: there never was a leader."""
    members: tuple[str, ...]
    """The live members."""
    paused: bool
    ended: str | None
    """How the pipeline ended for good; None: it goes on."""
    planned_at: str | None
    """When the newest batch was planned (ISO 8601, UTC); None: none is planned, or the store does not hold the time."""
    trouble: str | None = None
    """The line about a record that does not decode; the other fields are then empty."""


def scope_statuses(store: CoordinationStore) -> list[ScopeStatus]:
    """All scopes with a record, ordered by name. Raises StoreUnavailable."""
    found = _of_each_scope(store, partial(_status, store))
    return [status for status in found if status is not None]


def scope_pictures(store: CoordinationStore, *, now: datetime) -> list[tuple[Scope, ScopePicture | Corrupt]]:
    """The picture of each scope with a record, ordered by name; Corrupt: a record of the scope does not decode. Raises
    StoreUnavailable."""
    found = _of_each_scope(store, partial(_picture, store, now))
    return [one for one in found if one is not None]


def _of_each_scope(store: CoordinationStore, look: Callable[[Scope], T]) -> list[T]:
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tenure-scopes") as pool:
        return list(pool.map(look, store.scopes()))


def _picture(store: CoordinationStore, now: datetime, scope: Scope) -> tuple[Scope, ScopePicture | Corrupt] | None:
    """The scope and its picture; None: it was removed."""
    try:
        listing = store.list(scope, "")
        if is_removed(listing.records):
            return None
        return scope, picture_in(scope, store.guarantees.name, listing, now=now)
    except Corrupt as error:
        return scope, error


def _status(store: CoordinationStore, scope: Scope) -> ScopeStatus | None:
    """The scope; None: it was removed."""
    members: tuple[str, ...] = ()
    try:
        listing = store.list(scope, "")
        members = tuple(members_in(listing.records))
        return None if is_removed(listing.records) else _decoded(scope, listing, members)
    except Corrupt as error:
        return ScopeStatus(scope, None, 0, members, paused=False, ended=None, planned_at=None, trouble=str(error))


def _decoded(scope: Scope, listing: Listing, members: tuple[str, ...]) -> ScopeStatus:
    view, result = view_in(listing), result_in(listing.records)
    return ScopeStatus(
        scope,
        leader=view.leader,
        epoch=0 if view.office is None else view.office.epoch,
        members=members,
        paused=view.pause is not None,
        ended=None if result is None else result.ending.value,
        planned_at=planned_last(listing.records) or None,
    )


CHECK_THE_STORE: Final = (
    "check --store: a wrong path, another server, or a volume that is not mounted looks like an empty store"
)
NEW_SCOPES: Final = "only the first member of a new pipeline makes its scope"
"""A reader who looks during an outage must not begin a second store."""

_MOST: Final = 20
"""How many scopes an error names."""


def known_records(store: CoordinationStore, scope: Scope) -> tuple[Record, ...]:
    """All records of the scope. Raises UsageError: it has none, so no member ever ran it; StoreUnavailable."""
    records = store.list(scope, "").records
    if is_removed(records):
        raise UsageError(f"scope {scope!r} is not in this store ({store.guarantees.name})", fix=_others(store, scope))
    return records


def _others(store: CoordinationStore, scope: Scope) -> str:
    try:
        names = [str(name) for name in store.scopes() if name != scope]
    except AccessDenied:  # the right to this scope is no right to the names of the others
        return f"check --scope; {NEW_SCOPES}"
    if not names:
        return f"the store has no other scope; {CHECK_THE_STORE}; {NEW_SCOPES}"
    return f"known: {names[:_MOST]}" + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
