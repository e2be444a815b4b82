"""What belongs to nobody in the storage of a pipeline that goes on, for whoever holds the term.

Promise: the storage is listed first, and then the records are read; what is an orphan is said by `orphans.py` alone.
Only what Tenure names is touched, links are never followed, and no record is written. A checkpoint that cannot be read
keeps everything. Not promised: that one walk finds all: what a fenced leader puts there later is found by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenure.checkpoints.batch_rules import may_finish
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RUNS as RUNS_FOLDER
from tenure.checkpoints.run_name import RunName
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.cleanable import BLOBS, REHEARSALS, RUNS, Cleanable
from tenure.cleanup.orphans import BLOBS as BLOBS_FOLDER
from tenure.cleanup.orphans import REHEARSALS as REHEARSALS_FOLDER
from tenure.cleanup.orphans import Seen, is_orphan, nothing_seen
from tenure.coordination.candidates import MEMBERS, PAUSED, RESTARTS, SWITCHOVER, members_in
from tenure.coordination.encoding import decode
from tenure.coordination.records import Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.storage.folders import Folders

_WITHOUT_BLOBS: Final = {MEMBERS, RESTARTS, SWITCHOVER, PAUSED}
"""Records, and areas of records, that name none. One of them that does not decode is skipped by everybody."""


@dataclass(frozen=True, slots=True)
class Office:
    """Under which term it is looked for what nobody needs."""

    epoch: int
    holder: str


def orphans_of(
    store: CoordinationStore,
    scope: Scope,
    office: Office,
    *,
    storage: Folders,
    checkpoints: Callable[[str], CheckpointStore],
) -> dict[str, Cleanable]:
    """The rows of the plan that may be walked while the pipeline goes on, and need no sink. `checkpoints`: query ->
    its store."""
    named = _Named(store, scope, office, storage, checkpoints)
    return {
        # The folder of a query stays: a leader that starts would have to make it again in that very moment.
        RUNS: _Orphans(storage, RUNS_FOLDER, office, named, depth=3, stays=2),
        REHEARSALS: _Orphans(storage, REHEARSALS_FOLDER, office, named, depth=3, stays=1),
        BLOBS: _Orphans(storage, BLOBS_FOLDER, office, named, depth=None, stays=1),
    }


def seen_now(
    store: CoordinationStore,
    scope: Scope,
    office: Office,
    *,
    storage: Folders,
    checkpoints: Callable[[str], CheckpointStore],
) -> Seen:
    """What the records say now, for who has listed the storage before. Raises StoreError, StorageError, Corrupt."""
    return _Named(store, scope, office, storage, checkpoints).read()


class _Named:
    """What the records of the scope name, and the run directories that a takeover may need besides."""

    def __init__(
        self,
        store: CoordinationStore,
        scope: Scope,
        office: Office,
        storage: Folders,
        checkpoints: Callable[[str], CheckpointStore],
    ) -> None:
        self._store = store
        self._scope = scope
        self._office = office
        self._storage = storage
        self._checkpoints = checkpoints

    def read(self) -> Seen:
        """Raises StoreError, StorageError, Corrupt."""
        # A listing that is not one instant can miss a blob that passes from its handle to a reader's lock: made while
        # the handle stood, the lock is there when the scope is listed again.
        listings = 1 if self._store.guarantees.list_is_one_instant else 2
        records = [record for _ in range(listings) for record in self._store.list(self._scope, "").records]
        queries = {record.key.split("/")[1] for record in records if record.key.is_under(CHECKPOINTS)}
        kept = {query: self._checkpoints(query).list() for query in sorted(queries)}
        named = {one.run_directory for checkpoints in kept.values() for one in checkpoints}
        for checkpoints in kept.values():
            if checkpoints:
                named.update(self._may_finish(checkpoints[-1]))
        return Seen(
            epoch=self._office.epoch,
            holder=self._office.holder,
            members=frozenset(members_in(records)),  # also those whose record does not decode: they live
            named=frozenset([*_blobs_in(records), *named]),
        )

    def _may_finish(self, newest: Checkpoint) -> Iterator[str]:
        """The run directories in which the newest batch of a query may be, or become, done by a leader that was
        overtaken, while it is not done where the checkpoint says. Raises StorageError."""
        batch = str(newest.batch)
        is_closed = self._has(f"{newest.run_directory}/commits", batch)
        if is_closed:
            return
        for entry in self._storage.entries(f"{RUNS_FOLDER}/{newest.query}"):
            run = RunName.parse(f"{RUNS_FOLDER}/{newest.query}/{entry.name}")
            if run is None or run.epoch >= self._office.epoch:  # a mirror, or the holder's own
                continue
            if may_finish(is_closed=is_closed, has_plan=self._has(f"{run}/offsets", batch)):
                yield str(run)

    def _has(self, folder: str, name: str) -> bool:
        return any(entry.name == name for entry in self._storage.entries(folder))


def _blobs_in(records: Sequence[Record]) -> Iterator[str]:
    """The blobs that handles and locks name, as paths below the storage. Raises CorruptRecord: whatever else does not
    decode may be one of them."""
    for record in records:
        if record.key.split("/")[0] in _WITHOUT_BLOBS:
            continue
        blob: Any = decode(record, fields={}).get("blob")
        address = blob.get("address") if isinstance(blob, dict) else blob
        if isinstance(address, str) and address:
            yield f"{BLOBS_FOLDER}/{address}"


class _Orphans:
    """The orphans in one folder of the storage. Names of folders with nothing in them end with `/`."""

    def __init__(
        self,
        storage: Folders,
        folder: str,
        office: Office,
        named: _Named,
        *,
        depth: int | None,
        stays: int,
    ) -> None:
        """`depth`: how deep below the storage lies what is removed as a whole; None: files. `stays`: folders up to this
        depth stay, also when nothing is in them."""
        self._storage = storage
        self._folder = folder
        self._named = named
        self._depth = depth
        self._stays = stays
        self._least = nothing_seen(epoch=office.epoch, holder=office.holder)

    def find(self) -> Sequence[str]:
        """Raises StorageError, StoreError, Corrupt."""
        found = sorted(path for path in self._listed(self._folder, depth=1) if is_orphan(path, self._least))
        if not found:
            return ()
        seen = self._named.read()
        return [path for path in found if is_orphan(path, seen)]

    def remove(self, term: Term, name: str) -> None:
        """Remove it, and the folders above it in which nothing is any more."""
        parts = name.rstrip("/").split("/")
        folders = len(parts)
        if not name.endswith("/"):
            self._storage.remove(name)
            folders -= 1
        for depth in range(folders, self._stays, -1):
            self._storage.remove_empty("/".join(parts[:depth]))

    def _listed(self, folder: str, *, depth: int) -> Iterator[str]:
        entries = self._storage.entries(folder)
        if not entries and depth > 1:
            yield f"{folder}/"
        for entry in entries:
            path = f"{folder}/{entry.name}"
            if entry.folder and depth + 1 != self._depth:
                yield from self._listed(path, depth=depth + 1)
            else:
                yield path
