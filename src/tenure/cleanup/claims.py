"""Reads what the records of a scope say of its storage, while its pipeline goes on: for whoever has listed that before.

Promise: no record is written. A record that does not decode, and may name something, is an error, which keeps
everything. Not promised: that one sweep finds all: what a fenced leader puts there later is found by the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tenure.checkpoints.batch_rules import may_finish
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.run_name import RUNS as RUNS_FOLDER
from tenure.checkpoints.run_name import RunName
from tenure.checkpoints.store import CHECKPOINTS
from tenure.cleanup.engine import Leftovers
from tenure.cleanup.orphans import BLOBS_FOLDER, Claims, OrphanRule
from tenure.cleanup.plan import SWEPT, Cleanable
from tenure.coordination.candidates import MEMBERS, PAUSED, RESTARTS, SWITCHOVER, members_in
from tenure.coordination.election import observe
from tenure.coordination.encoding import decode
from tenure.coordination.records import Record
from tenure.errors import UsageError
from tenure.scope_context import ScopeContext
from tenure.storage.storage import Storage

_WITHOUT_BLOBS: Final = {MEMBERS, RESTARTS, SWITCHOVER, PAUSED}
"""Records, and areas of records, that name none. One of them that does not decode is skipped by everybody."""


def orphans_of(context: ScopeContext, term: Claims) -> dict[str, Cleanable]:
    """The rows of the plan that may be walked while the pipeline goes on, and need no sink. `term`: who asks."""
    folders = context.folders()

    def look() -> OrphanRule:
        return OrphanRule(read_claims(context, term))

    return {row: Leftovers(folders, folder, OrphanRule(term), look=look) for folder, row in SWEPT.items()}


def term_now(context: ScopeContext) -> Claims:
    """The term of the leader, or that of the next one where nobody leads.

    Raises StoreUnavailable, CorruptRecord; UsageError: nobody ever led there, so it may be another store that names
    what is in the storage.
    """
    view = observe(context.store, context.scope)
    if view.office is None:
        raise UsageError(
            f"nobody ever led scope {context.scope!r} in this store", fix="name the store that it runs with"
        )
    return Claims(view.office.epoch + 1, "") if view.leader is None else Claims(view.epoch, view.leader)


def read_claims(context: ScopeContext, term: Claims) -> Claims:
    """What the records say now, for who has listed the storage before, and asked its owner: the living members, what
    records name, and the run directories that a takeover may need besides. Raises StoreError, StorageError, Corrupt."""
    # A listing that is not one instant can miss a blob that passes from its handle to a reader's lock: made while
    # the handle stood, the lock is there when the scope is listed again.
    listings = 1 if context.store.guarantees.list_is_one_instant else 2
    records = [record for _ in range(listings) for record in context.store.list(context.scope, "").records]
    queries = {record.key.split("/")[1] for record in records if record.key.is_under(CHECKPOINTS)}
    kept = {query: context.checkpoints(query).list() for query in sorted(queries)}
    named = {one.run_directory for checkpoints in kept.values() for one in checkpoints}
    for checkpoints in kept.values():
        if checkpoints:
            named.update(_may_finish(context.folders(), checkpoints[-1], term.epoch))
    return Claims(
        term.epoch,
        term.holder,
        members=frozenset(members_in(records)),  # also those whose record does not decode: they live
        named=frozenset([*_blobs_in(records), *named]),
    )


def _may_finish(storage: Storage, newest: Checkpoint, epoch: int) -> Iterator[str]:
    """The run directories in which the newest batch of a query may be, or become, done by a leader that was
    overtaken, while it is not done where the checkpoint says. Raises StorageError."""

    def has(folder: str) -> bool:
        return any(entry.name == str(newest.batch) for entry in storage.entries(folder))

    is_closed = has(f"{newest.run_directory}/commits")
    if is_closed:
        return
    for entry in storage.entries(f"{RUNS_FOLDER}/{newest.query}"):
        run = RunName.parse(f"{RUNS_FOLDER}/{newest.query}/{entry.name}")
        if run is None or run.epoch >= epoch:  # a mirror, or the holder's own
            continue
        if may_finish(is_closed=is_closed, has_plan=has(f"{run}/offsets")):
            yield str(run)


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
