"""Makes the checkpoint directory of a plain Spark query the first checkpoint of a query in a scope.

Promise: the directory is not changed. The scope has the checkpoint, with all of its files in the storage, or has none:
the record is committed last, under a term, and only while no batch of the query is planned. A member that starts
meanwhile waits for the term. Files of an adoption that was interrupted lie where rehearsals lie, and the leader's sweep
removes them.
"""

from __future__ import annotations

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.coordination.candidates import members_in
from tenure.coordination.encoding import new_uid
from tenure.coordination.reading import read_again
from tenure.coordination.term import Term
from tenure.errors import UsageError
from tenure.moves.plain_checkpoint import PlainCheckpoint, check_unchanged
from tenure.pipelines.pipeline import STREAM_NAME
from tenure.progress import Progress, unseen
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext


def refuse_name(query: str) -> None:
    """Raise UsageError: no stream of a pipeline file has this name."""
    if not STREAM_NAME.match(query):
        raise UsageError(f"query {query!r} is not the name of a stream", fix="use letters, digits, '_' and '-'")


def refuse_own(plain: PlainCheckpoint, *, storage: str) -> None:
    """Raise UsageError: the directory is in the scope's own part of the storage."""
    if plain.url.startswith(f"{RunDirectory(storage).url}/"):
        raise UsageError(
            f"{plain.url} is a run directory of the scope itself", fix="start its members; they go on from there"
        )


def check_free(context: ScopeContext, *, query: str) -> None:
    """Check that nobody runs the scope, and that the query is new there. Writes nothing. Raises UsageError,
    OwnerMismatch, StoreUnavailable, StorageError, Corrupt."""
    records = read_again(lambda: context.store.list(context.scope, ""), clock=context.clock).records
    if living := members_in(records):
        raise UsageError(
            f"scope {context.scope!r} has live members: {', '.join(living)}", fix="stop them first: see tenure list"
        )
    if context.results().read() is not None:
        raise UsageError(f"the pipeline of scope {context.scope!r} has ended for good", fix="name another --scope")
    newest = context.checkpoints(query).newest()
    if newest is not None:
        raise UsageError(
            f"query {query!r} of scope {context.scope!r} has a checkpoint already, of batch {newest.batch}",
            fix="name another query, or another --scope",
        )
    context.owner().check()


def adopt(
    context: ScopeContext, term: Term, plain: PlainCheckpoint, *, query: str, progress: Progress = unseen
) -> Checkpoint:
    """Copy what a takeover needs, and commit the checkpoint. Return it.

    Raises UsageError: the plain query still runs; OutOfOrder: the query has a checkpoint; CorruptRunDirectory,
    CorruptCheckpoint, StorageError, StoreUnavailable, OwnerMismatch, TermLost: nothing was adopted.
    """
    context.owner().own(term)
    checkpoints = context.checkpoints(query)
    directory = f"rehearsals/{term.holder}/{query}-{new_uid()[:12]}"
    point = SeedPoint(plain.batch, plain.offsets, committed=plain.done)
    seed(plain.url, f"{context.storage}/{directory}", point, progress=progress)
    check_unchanged(plain)
    adopted = plain.checkpoint(query, run_directory=directory, epoch=term.epoch, clock=context.clock)
    checkpoints.adopt(term, adopted)
    return adopted
