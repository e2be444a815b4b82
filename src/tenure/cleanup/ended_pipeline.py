"""What a pipeline leaves in the store and in the storage, row by row of the plan.

Promise: everything in the store is removed under the term; a pointer goes before what it names. In the storage only the
folders that Tenure makes are touched, and links are never followed. Nothing here is kept in mind between two walks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tenure.checkpoints.store import CHECKPOINTS as CHECKPOINT_AREAS
from tenure.cleanable import (
    ANCHORS,
    BLOBS,
    CHECKPOINTS,
    DECLARATION,
    OWNER,
    REHEARSALS,
    REQUESTS,
    RUNS,
    STORAGE,
    Cleanable,
)
from tenure.clock import Clock
from tenure.coordination.candidates import PAUSED, RESTARTS, SWITCHOVER
from tenure.coordination.records import Delete, Key, NoneUnder, Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.declarations.store import DECLARED
from tenure.errors import StorageError
from tenure.handles.store import HandleStore
from tenure.ownership.marks import OWNER as MARKS
from tenure.storage.folders import Folders

_FOLDERS: Final[Mapping[str, tuple[str, int]]] = {
    RUNS: ("runs", 2),
    REHEARSALS: ("rehearsals", 2),
    BLOBS: ("blobs", 1),
    OWNER: (MARKS, 1),
}
"""The folders below a scope's storage, and how deep what is removed at once lies in them."""


def cleanables_of(
    store: CoordinationStore,
    scope: Scope,
    *,
    storage: Folders,
    handles: Callable[[str], HandleStore],
    clock: Clock,
) -> dict[str, Cleanable]:
    """All rows of the plan that need no sink. `handles`: query -> the handle store of its checkpoints."""
    return {
        REQUESTS: _Records(store, scope, clock=clock, wanted=_is_request),
        CHECKPOINTS: _Checkpoints(store, scope, handles=handles),
        ANCHORS: _Records(store, scope, clock=clock, wanted=_is_anchor),
        DECLARATION: _Records(store, scope, clock=clock, wanted=lambda record: record.key == DECLARED),
        **{row: _Folders(storage, folder, depth=depth) for row, (folder, depth) in _FOLDERS.items()},
        STORAGE: _Root(storage),
    }


def _is_request(record: Record) -> bool:
    return record.key in (SWITCHOVER, PAUSED) or record.key.is_under(RESTARTS)


def _is_anchor(record: Record) -> bool:
    return record.key.is_under(CHECKPOINT_AREAS) and record.key.count("/") == 1


class _Records:
    """Records of a scope that nothing else belongs to."""

    def __init__(
        self,
        store: CoordinationStore,
        scope: Scope,
        *,
        clock: Clock,
        wanted: Callable[[Record], bool],
    ) -> None:
        self._store = store
        self._scope = scope
        self._clock = clock
        self._wanted = wanted

    def find(self) -> Sequence[str]:
        return [record.key for record in self._store.list(self._scope, "").records if self._wanted(record)]

    def remove(self, term: Term, name: str) -> None:
        key = Key(name)
        record = self._store.read(self._scope, key)
        if record is None:
            return
        commit_under(
            self._store,
            term,
            guards=(NoneUnder(key),),
            writes=(Delete(key, record.version),),
            clock=self._clock,
        )


class _Checkpoints:
    """The handles of all queries, also of those that the pipeline does not have any more."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, handles: Callable[[str], HandleStore]) -> None:
        self._store = store
        self._scope = scope
        self._handles = handles

    def find(self) -> Sequence[str]:
        records = self._store.list(self._scope, CHECKPOINT_AREAS).records
        return [record.key.removeprefix(f"{CHECKPOINT_AREAS}/") for record in records if record.key.count("/") == 2]

    def remove(self, term: Term, name: str) -> None:
        query, batch = name.split("/")
        self._handles(query).remove(term, batch)


class _Folders:
    """What lies in one folder of the storage, to a depth; then that folder."""

    def __init__(self, storage: Folders, folder: str, *, depth: int) -> None:
        self._storage = storage
        self._folder = folder
        self._depth = depth

    def find(self) -> Sequence[str]:
        """What lies deepest comes first; folders that are to be empty by then end with `/`, and come last."""
        parents = [self._folder] if any(entry.name == self._folder for entry in self._storage.entries()) else []
        whole: list[str] = []
        levels = [parents]
        for depth in range(1, self._depth + 1):
            found = [
                (f"{parent}/{entry.name}", entry.folder)
                for parent in parents
                for entry in self._storage.entries(parent)
            ]
            parents = [path for path, folder in found if folder and depth < self._depth]
            whole += [path for path, _ in found if path not in parents]
            levels.append(parents)
        return [*whole, *(f"{path}/" for level in reversed(levels) for path in level)]

    def remove(self, term: Term, name: str) -> None:
        if not name.endswith("/"):
            self._storage.remove(name)
            return
        self._storage.remove_empty(name[:-1])
        if self._storage.entries(name[:-1]):
            raise StorageError(f"{name} is not empty yet")


class _Root:
    """The scope's own folder, which goes when nothing is in it; what others have put there stays."""

    def __init__(self, storage: Folders) -> None:
        self._storage = storage

    def find(self) -> Sequence[str]:
        return ["."] if self._storage.is_empty() else []

    def remove(self, term: Term, name: str) -> None:
        self._storage.remove_empty()
