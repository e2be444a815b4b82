"""Pure: the records of a store and the marks of a storage -> whether both belong to one life of a pipeline (I10).

The storage is read between two readings of the store. Everything in the storage was in the store before, so the later
reading has it; everything in the earlier reading was in the storage before. Hence a leader that goes on meanwhile, its
successor and a zombie are never taken for strangers.

Promise: a refusal names the contradiction, and a fix that works. Not promised: that an older copy is noticed at once. A
storage that was copied within the newest epoch lacks files of the next run directory, which is CorruptRunDirectory; a
store that was copied within the newest epoch is noticed by a batch that is done.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tenure.coordination.identity import ANEW

KEPT: Final = 5
"""How many marks of the newest epochs stay, besides the marks that are needed."""

_MARK: Final = re.compile(r"e(?P<epoch>\d{8,})-(?P<identity>[0-9a-f]{32})-(?P<grant>[0-9a-f]{12})")

_STORE: Final = f"restore the store; {ANEW}"
_STORAGE: Final = f"restore the storage; {ANEW}"
_EITHER: Final = f"restore the store, or name the storage that is its own; {ANEW}"
_ONE: Final = f"stop the members of one of them, and remove its marks from the folder owner; {ANEW}"
_NAMELESS: Final = f"restore the record, if it was removed; {ANEW}"
_ENDED: Final = (
    "restore the store, or name the storage that is its own; to begin anew, use another --scope, or tenure result "
    "forget and an empty storage, and another output"
)


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A name in the storage: an epoch of an identity had its grant."""

    epoch: int
    identity: str
    grant: str
    """The `grant_name`. An older copy of a store may give an epoch a second time."""

    @classmethod
    def parse(cls, name: str) -> Mark | None:
        """The mark of a name; None: the name is no mark."""
        found = _MARK.fullmatch(name)
        return None if found is None else cls(int(found["epoch"]), found["identity"], found["grant"])

    def __str__(self) -> str:
        return f"e{self.epoch:08d}-{self.identity}-{self.grant}"


def grant_name(epoch: int, *, holder: str, since: str) -> str:
    """A name for a grant, from the facts that the store remembers."""
    return hashlib.sha256(f"{epoch} {holder} {since}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest checkpoint of a query. `epoch`: of the term that wrote it; None: the record does not decode."""

    batch: int
    epoch: int | None


@dataclass(frozen=True, slots=True)
class InStore:
    """The records of a scope."""

    identity: str | None = None
    """None: there is no identity."""
    epoch: int = 0
    """The newest epoch; 0: nobody ever led."""
    grants: Mapping[int, str] = field(default_factory=dict)
    """Epoch -> the name of its grant, as far back as the store remembers."""
    newest: Mapping[str, Newest] = field(default_factory=dict)
    """By query."""
    ended: bool = False
    """The pipeline has ended for good: its checkpoints go, and then its run directories."""
    clean: bool = False
    """The cleanup is done. A leader that woke up later may have put files there, which nobody needs."""
    begins: int = 0
    """The first epoch of this life: run directories of earlier epochs belong to other lives."""
    former: tuple[str, ...] = ()
    """The identities of the lives before."""


@dataclass(frozen=True, slots=True)
class Done:
    """A batch that Spark noted as done. `path`: of the note, below the storage."""

    batch: int
    path: str


@dataclass(frozen=True, slots=True)
class InStorage:
    """The marks and batches in a scope's part of a storage."""

    claimed: str | None = None
    """The identity that claimed the storage; None: nobody did. It counts while there is no mark of an epoch."""
    marks: tuple[Mark, ...] = ()
    done: Mapping[str, Done] = field(default_factory=dict)
    """The newest done batch of each query, among the batches that the store may not know."""
    earlier: tuple[str, ...] = ()
    """The `identities` before `done` was read."""

    @property
    def identities(self) -> tuple[str, ...]:
        """The owners; several: they have claimed the storage at once."""
        if self.marks:
            return tuple(sorted({mark.identity for mark in self.marks}))
        return () if self.claimed is None else (self.claimed,)

    @property
    def newest(self) -> Mark | None:
        """The mark of the newest epoch; None: there is no mark."""
        return max(self.marks, default=None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why store and storage do not belong to one life, and the fix."""

    found: str
    fix: str


def refusal(before: InStore, storage: InStorage, after: InStore) -> Refusal | None:
    """Why the storage is not that of the store; None: it is. The storage was read between `before` and `after`."""
    return (
        claimed_by_another(storage, after)
        or _of_another_grant(storage, after)
        or _done_elsewhere(storage, after)
        or _of_an_older_storage(before, storage, after)
    )


def claimed_by_another(storage: InStorage, store: InStore) -> Refusal | None:
    """Whether another identity has marked the storage. The store may be read at any time: it keeps its identity."""
    whose = ", ".join(_owner(one) for one in storage.identities)
    if store.identity is None and store.newest:
        found = "the store has checkpoints and no owner"
        return Refusal(f"{found}: its record 'identity' was removed, or an older version wrote them", _NAMELESS)
    if any(one != store.identity for one in storage.identities):
        if store.identity in storage.identities:
            return Refusal(f"{whose} have claimed it at once", _ONE)
        if store.identity is None:
            return Refusal(f"it belongs to {whose}, and the store knows nothing of that", _STORE)
        belongs = f"it belongs to {whose}, and the store to {_owner(store.identity)}"
        return Refusal(belongs, _ENDED if store.clean else _EITHER)
    return None


def marked_by_another(storage: InStorage, store: InStore) -> Refusal | None:
    """The check of a leader that has put its mark. The store was read after the marks."""
    return claimed_by_another(storage, store) or _of_another_grant(storage, store)


def _of_another_grant(storage: InStorage, store: InStore) -> Refusal | None:
    """Whether the storage has the mark of a grant that an older copy of the store does not know."""
    newest = storage.newest
    if newest is not None and newest.epoch > store.epoch:
        found = f"it is marked by epoch {newest.epoch}, and the store is in epoch {store.epoch}"
        return Refusal(f"{found}, so the store is an older copy", _STORE)
    for mark in sorted(storage.marks, reverse=True):
        if store.grants.get(mark.epoch, mark.grant) != mark.grant:
            found = f"its mark of epoch {mark.epoch} is of another grant than the store's"
            return Refusal(f"{found}, so the store comes from an older copy", _STORE)
    return None


def _done_elsewhere(storage: InStorage, store: InStore) -> Refusal | None:
    """Whether the storage has a batch done that an older copy of the store does not know."""
    for query, done in sorted(storage.done.items()):
        if store.ended:
            if not (store.clean or storage.identities or store.identity in storage.earlier):
                run = done.path.partition("/commits/")[0]
                fix = f"restore the storage, or name its own; if this is it, remove {run}; {ANEW}"
                return Refusal(f"it has {done.path}, and no mark of an owner", fix)
            continue  # a cleanup removes checkpoints before run directories, and these before marks
        known = store.newest.get(query)
        if known is None:
            return Refusal(f"it has {done.path}, and the store has no checkpoint of query {query!r}", _STORE)
        if done.batch > known.batch:
            found = f"it has {done.path}, and the newest checkpoint of query {query!r} is {known.batch}"
            return Refusal(f"{found}, so the store is an older copy", _STORE)
    return None


def _of_an_older_storage(before: InStore, storage: InStorage, after: InStore) -> Refusal | None:
    """Whether the store has planned under an epoch whose mark an older copy of the storage does not have."""
    marked = {mark.epoch for mark in storage.marks}
    for query, newest in sorted(before.newest.items()):
        now = after.newest.get(query)
        if newest.epoch is None or newest.epoch in marked or now is None or now.epoch != newest.epoch:
            continue  # the mark of a checkpoint that was replaced meanwhile may be gone
        found = f"it has no mark of epoch {newest.epoch}, in which batch {newest.batch} of query {query!r} was planned"
        return Refusal(f"{found}, so it is an older copy, or another one", _STORAGE)
    return None


def changed_since(noted: Mark, storage: InStorage) -> Refusal | None:
    """Why a sweep's plan, made at the newest mark `noted`, must not be applied; None: it may, as without any mark."""
    newest = storage.newest
    if newest is None or (newest >= noted and storage.identities == (noted.identity,)):
        return None
    if any(one != noted.identity for one in storage.identities):
        return Refusal(f"it belongs to {_owner(newest.identity)} now", "make a new plan")
    return Refusal(f"its newest mark is of epoch {newest.epoch} now: it is an older copy", "make a new plan")


def not_needed(storage: InStorage, store: InStore) -> list[Mark]:
    """The marks that no comparison needs any more: neither among the newest, nor of an epoch that wrote the newest
    checkpoint of a query. Marks of epochs after `store` stay: the store may have been read long before the storage."""
    needed = {newest.epoch for newest in store.newest.values()}
    known = sorted(mark for mark in storage.marks if mark.epoch <= store.epoch)
    return [] if None in needed else [mark for mark in known[:-KEPT] if mark.epoch not in needed]


def _owner(identity: str) -> str:
    return f"owner {identity[:8]}"
