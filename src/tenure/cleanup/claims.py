"""Reads the claims of a scope's records on its storage, while its pipeline goes on. The caller has listed the storage
before.

Promise: no record is written. A record that does not decode, and may name a blob, is an error, which keeps everything.
Not promised: that a sweep removes all orphans: a fenced leader may write later, and the next sweep removes that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tenure.checkpoints.batch_rules import may_get_done
from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.left_out import QUARANTINED
from tenure.checkpoints.run_name import runs_of
from tenure.checkpoints.store import CHECKPOINTS, queries_in
from tenure.cleanup.engine import Leftovers
from tenure.cleanup.orphans import BLOBS_FOLDER, Claims, OrphanRule
from tenure.cleanup.plan import SWEPT, Cleanable
from tenure.coordination.candidates import MEMBERS, PAUSED, RESTARTS, SWITCHOVER, members_in
from tenure.coordination.election import observe
from tenure.coordination.encoding import decode
from tenure.coordination.failing import FAILING
from tenure.coordination.records import Record
from tenure.errors import UsageError
from tenure.handles.pins import COPY, is_pin
from tenure.handles.store import PROTECTS
from tenure.scope_context import ScopeContext
from tenure.storage.storage import Storage

_WITHOUT_BLOBS: Final = {MEMBERS, RESTARTS, SWITCHOVER, PAUSED, FAILING, QUARANTINED}
"""Records, and areas of records, that name no blob. Everybody skips such a record that does not decode."""


def orphans_of(context: ScopeContext, term: Claims) -> dict[str, Cleanable]:
    """The rows of the plan that may be walked while the pipeline goes on, and need no sink. `term`: of the caller."""
    folders = context.folders()
    return {
        row: Leftovers(folders, folder, OrphanRule(term), look=lambda: OrphanRule(read_claims(context, term)))
        for folder, row in SWEPT.items()
    }


def term_now(context: ScopeContext) -> Claims:
    """The term of the leader, or the next term where nobody leads.

    Raises StoreUnavailable, CorruptRecord; UsageError: nobody ever led there, so the records of the storage may be in
    another store.
    """
    view = observe(context.store, context.scope)
    if view.office is None:
        raise UsageError(
            f"nobody ever led scope {context.scope!r} in this store", fix="name the store that it runs with"
        )
    return Claims(view.office.epoch + 1, "") if view.leader is None else Claims(view.epoch, view.leader)


def read_claims(context: ScopeContext, term: Claims) -> Claims:
    """The present claims: the living members, the named paths, and the run directories that a takeover may need, too.
    The caller has listed the storage, and checked its owner, before. Raises StoreError, StorageError, Corrupt."""
    # A listing that is not one instant can miss a blob that passes from its handle to a reader's lock. The lock is made
    # while the handle exists, so a second listing has it.
    listings = 1 if context.store.guarantees.list_is_one_instant else 2
    records = [record for _ in range(listings) for record in context.store.list(context.scope, "").records]
    kept = {query: context.checkpoints(query).list() for query in sorted(queries_in(records))}
    named = {checkpoint.run_directory for checkpoints in kept.values() for checkpoint in checkpoints}
    for checkpoints in kept.values():
        if checkpoints:
            named.update(_may_get_done(context.folders(), checkpoints[-1], term.epoch))
    return Claims(
        term.epoch,
        term.holder,
        members=frozenset(members_in(records)),  # a member whose record does not decode lives, too
        named=frozenset([*_blobs_in(records), *_protected_in(records), *named]),
    )


def _may_get_done(storage: Storage, newest: Checkpoint, epoch: int) -> Iterator[str]:
    """The run directories in which an overtaken leader may have finished, or may finish, the newest batch of a query;
    none when the batch is done in the checkpoint's own directory. Raises StorageError."""

    def has(folder: str) -> bool:
        return any(entry.name == str(newest.batch) for entry in storage.entries(folder))

    is_done = has(f"{newest.run_directory}/commits")
    if is_done:
        return
    for run in runs_of(storage.url, newest.query):
        if run.epoch >= epoch:  # a mirror, or the holder's own directory
            continue
        if may_get_done(is_done=is_done, has_plan=has(f"{run}/offsets")):
            yield str(run)


def _protected_in(records: Sequence[Record]) -> Iterator[str]:
    """The paths that locks and pins protect, below the storage."""
    for record in records:
        if record.key.is_under(CHECKPOINTS) and (record.session is not None or is_pin(record)):
            found = decode(record, fields={})
            for path in (found.get(PROTECTS), found.get(COPY)):
                if isinstance(path, str) and path:
                    yield path


def _blobs_in(records: Sequence[Record]) -> Iterator[str]:
    """The blobs that handles and locks name, as paths below the storage. Raises CorruptRecord: any other record that
    does not decode may be a handle or a lock."""
    for record in records:
        if record.key.split("/")[0] in _WITHOUT_BLOBS:
            continue
        blob: Any = decode(record, fields={}).get("blob")
        address = blob.get("address") if isinstance(blob, dict) else blob
        if isinstance(address, str) and address:
            yield f"{BLOBS_FOLDER}/{address}"
