"""Copies an older checkpoint of a query into a new directory, from which a pipeline of another scope goes back.

Promise: the copy has another id of the query. Sinks know a query by its id, and have later batches of the old id: under
that, they would take the next batches for those that they have, and the rows would be lost. A lock protects the
checkpoint and its files meanwhile, and goes with the session of the caller (FLINK-6612). Nothing else in store and
storage changes. Not promised: that the output is as it was after that batch; that is up to the operator.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.coordination.records import SessionId
from tenure.errors import UsageError
from tenure.handles.pins import pins_in
from tenure.operate.pinning import key_of
from tenure.operate.scopes import known_records
from tenure.operate.verifying import unknown
from tenure.progress import Progress, unseen
from tenure.rundirs.run_directory import check_new, has_commit
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext


def export_batch(
    context: ScopeContext, directory: str, *, query: str, batch: int, session: SessionId, progress: Progress = unseen
) -> Checkpoint:
    """Fill the empty `directory` (a URL) so that a query goes on after a kept batch; return its checkpoint, with the
    id that the copy has. A pinned checkpoint comes from the pin's copy.

    Raises UsageError: there is no such checkpoint, Spark has not noted its batch as done, or the directory is not
    empty; CorruptRunDirectory, also where Spark has removed the state of the batch; CorruptCheckpoint, StorageError,
    StoreUnavailable, SessionEnded.
    """
    check_new(directory)
    with context.checkpoints(query).locked(batch, session=session) as kept:
        records = known_records(context.store, context.scope)
        if kept is None:
            raise unknown(context, records, query)
        copies = [pin.copy for pin in pins_in(records) if pin.whole and pin.handle == key_of(query, batch)]
        places = [f"{context.storage}/{place}" for place in (*copies, kept.run_directory)]
        source = next((place for place in places if has_commit(place, batch)), None)
        if source is None:
            raise UsageError(
                f"batch {batch} of query {query!r} is planned, and not noted as done where its files are",
                fix="name another batch: see tenure checkpoints list",
            )
        anew = replace(kept, query_id=str(uuid.uuid4()))
        point = SeedPoint(batch, kept.offsets, True, kept.folders, kept.kinds)
        seed(source, directory, point, query_id=anew.query_id, progress=progress)
        return anew
