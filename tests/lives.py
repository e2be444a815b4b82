"""What happens to a store by other hands: a copy is made of a scope, it is emptied, the copy is brought back."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.coordination.records import Delete, Put, Record, Scope, Write
from tenure.coordination.store import CoordinationStore


def copy_of(store: CoordinationStore, scope: Scope) -> Sequence[Record]:
    """What a backup has: the records that outlive sessions."""
    return [record for record in store.list(scope, "").records if record.session is None]


def empty(store: CoordinationStore, scope: Scope) -> None:
    """Remove every record of a scope, also those of live sessions."""
    deletes = [Delete(record.key, record.version) for record in store.list(scope, "").records]
    for delete in reversed(deletes):  # children first
        store.commit(scope, guards=(), writes=(delete,))


def bring_back(store: CoordinationStore, scope: Scope, copy: Sequence[Record]) -> None:
    """Make a scope what it was when the copy was made."""
    empty(store, scope)
    for record in copy:
        write: Write = Put(record.key, record.value, replaces=None)
        store.commit(scope, guards=(), writes=(write,))
