"""Goes on with a scope whose store was lost, from the run directories in its storage.

A query goes on from its run directory of the highest epoch that Spark could have started on: a seed writes `metadata`
last. Nobody has the newest batch there with other offsets, whether the lost store knew it or not: a later epoch would
have a directory of its own. So the batch runs again with its offsets, and its sink knows it by the query's id.

Promise: the new life begins with an epoch above all epochs that the storage has seen, so sinks refuse the leaders of
the lost store. The marks of the storage are replaced under the new term, so those leaders find another owner. A call
that was interrupted may be repeated. Not promised: anything while a member of the lost store still runs; stop them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.checkpoints.run_name import RunName, run_queries, runs_of
from tenure.clock import timestamp
from tenure.coordination.candidates import members_in
from tenure.coordination.election_rules import Office, encode_office, office_in
from tenure.coordination.encoding import new_uid
from tenure.coordination.identity import Birth, birth_in, put_identity
from tenure.coordination.reading import read_again
from tenure.coordination.records import Absent, Put
from tenure.coordination.settle import commit_settled
from tenure.coordination.term import EPOCH, LEADER, Term
from tenure.coordination.terms import STORE_LOST, End, TermRecord
from tenure.errors import UsageError
from tenure.moves.plain_checkpoint import PlainCheckpoint, read_plain
from tenure.ownership.marks import Marks
from tenure.scope_context import ScopeContext
from tenure.storage.reach import reach
from tenure.storage.storage import Storage

HOLDER = "lost-store"
"""Who held the last epoch of the lost store, in the history of the new one."""


@dataclass(frozen=True, slots=True)
class LostQuery:
    """A query, and the run directory from which it goes on."""

    query: str
    run: RunName
    plain: PlainCheckpoint


def find_lost(storage: str) -> Sequence[LostQuery]:
    """The queries in a scope's part of the storage. Raises UsageError: there is none, or a query cannot be gone on
    from; Corrupt..., StorageError."""
    found = [_newest(storage, query) for query in run_queries(storage)]
    lost = [one for one in found if one is not None]
    if not lost:
        raise UsageError(f"storage {storage} has no run directory to go on from", fix="name the storage of the scope")
    return sorted(lost, key=lambda one: one.query)


def _newest(storage: str, query: str) -> LostQuery | None:
    folders = reach(storage)
    complete = [run for run in runs_of(storage, query) if not run.is_pinned and _is_complete(folders, run)]
    newest = max((run.epoch for run in complete), default=0)
    plains = [(run, read_plain(f"{storage}/{run}")) for run in complete if run.epoch == newest]
    if not plains:
        return None
    run, plain = max(plains, key=lambda one: (one[1].batch, one[1].done))
    return LostQuery(query, run, plain)


def _is_complete(folders: Storage, run: RunName) -> bool:
    """Whether Spark could have started there, and there is a batch to go on from."""
    names = {entry.name for entry in folders.entries(str(run))}
    return "metadata" in names and bool(folders.entries(f"{run}/offsets"))


def check_lost(context: ScopeContext) -> int | None:
    """The newest epoch that the storage has seen; None: an interrupted call has begun the new life already. Raises
    UsageError: the store knows the scope, or members live; StoreUnavailable, StorageError, Corrupt."""
    records = read_again(lambda: context.store.list(context.scope, ""), clock=context.clock).records
    if living := members_in(records):
        raise UsageError(
            f"scope {context.scope!r} has live members: {', '.join(living)}", fix="stop them first: see tenure list"
        )
    birth = birth_in(records)
    seen = _newest_epoch(context, but=None if birth is None else birth.identity)
    if office_in(records) is None:
        return seen
    if birth is not None and birth.epoch > seen:
        return None
    raise UsageError(
        f"the store is not lost: it knows scope {context.scope!r}", fix="start its members, or name another store"
    )


def begin_life(context: ScopeContext) -> None:
    """Let the next term of an empty scope have an epoch above all that its storage has seen. Raises like `check_lost`;
    GuardFailed: somebody else has begun to use the scope."""
    seen = check_lost(context)
    if seen is None:
        return
    now = timestamp(context.clock)
    office, uid = Office(seen, HOLDER, now, until=now, why=STORE_LOST), new_uid()
    term = TermRecord(seen, HOLDER, now).ended(End(STORE_LOST), at=now)
    commit_settled(
        context.store,
        context.scope,
        guards=(Absent(LEADER),),
        writes=(
            Put(EPOCH, encode_office(office, uid=uid), replaces=None),
            term.put(uid=uid, replaces=None),
            put_identity(Birth(new_uid(), seen + 1), replaces=None),
        ),
        go_on=lambda: True,
        clock=context.clock,
    )


def _newest_epoch(context: ScopeContext, *, but: str | None) -> int:
    """The newest epoch in the names of run directories, a mirror's too, and of marks, but those of the owner `but`."""
    storage = context.storage
    epochs = [mark.epoch for mark in Marks(storage).look().marks if mark.identity != but]
    epochs += [run.epoch for query in run_queries(storage) for run in runs_of(storage, query)]
    return max(epochs, default=0)


def go_on(context: ScopeContext, term: Term, lost: Sequence[LostQuery]) -> None:
    """Replace the owner's marks, and commit a checkpoint for each query that has none. Raises TermLost, OwnerMismatch,
    StoreUnavailable, StorageError."""
    context.owner().replace(term)
    for one in lost:
        checkpoints = context.checkpoints(one.query)
        if checkpoints.newest(term) is not None:
            continue
        run_directory = str(one.run)
        checkpoint = one.plain.checkpoint(one.query, run_directory=run_directory, epoch=term.epoch, clock=context.clock)
        checkpoints.adopt(term, checkpoint)
