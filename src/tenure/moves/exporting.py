"""Copies the newest checkpoint of a query into a checkpoint directory of plain Spark.

Promise: the copy is whole, or Spark refuses it: `metadata` is written last. A lock protects the checkpoint and its run
directory meanwhile, and goes with the session of the caller (FLINK-6612). Nothing else in store and storage changes.
Not promised: that the pipeline does not go on meanwhile. Members are to be stopped before the plain job starts.
"""

from __future__ import annotations

from datetime import timedelta

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.coordination.records import SessionId
from tenure.errors import UsageError
from tenure.rundirs.run_directory import RunDirectory, has_commit
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext

_LOOK_S = 0.2


def export(context: ScopeContext, directory: str, *, query: str, session: SessionId, patience: timedelta) -> Checkpoint:
    """Fill the empty `directory` (a URL) so that plain Spark goes on after the newest batch; return its checkpoint.
    `patience`: for how long a batch in flight is waited for.

    Raises UsageError: there is no checkpoint, its batch is in flight, or the directory is not empty;
    CorruptRunDirectory, CorruptCheckpoint, StorageError, StoreUnavailable, SessionEnded.
    """
    if RunDirectory(directory).list():
        raise UsageError(f"{directory} is not empty", fix="name a new directory")
    end_s = context.clock.monotonic_s() + patience.total_seconds()
    while True:
        with context.checkpoints(query).locked(session=session) as newest:
            if newest is None:
                raise UsageError(
                    f"query {query!r} has no checkpoint in scope {context.scope!r}", fix="see tenure checkpoints list"
                )
            source = f"{context.storage}/{newest.run_directory}"
            if has_commit(source, newest.batch):
                seed(source, directory, SeedPoint(newest.batch, newest.offsets, True, newest.folders, newest.kinds))
                return newest
        if context.clock.monotonic_s() >= end_s:
            raise UsageError(
                f"batch {newest.batch} of query {query!r} is planned, and not noted as done",
                fix="let a member end it: tenure pause, tenure restart of the leader, and export again",
            )
        context.clock.sleep(_LOOK_S)
