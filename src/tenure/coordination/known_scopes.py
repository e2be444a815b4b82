"""The records of a scope that must be there: a typing error in its name is an error that names the scopes that are.

Promise: nothing is written. Not promised: the names, where the user of the store may not list them.
"""

from __future__ import annotations

from typing import Final

from tenure.coordination.records import Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import AccessDenied, UsageError

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
    if not records:
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
