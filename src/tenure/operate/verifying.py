"""Verifies checkpoints: the record in the store, and all files that a takeover at the checkpoint reads.

Promise: nothing is written. Damage is reported only of a checkpoint whose record has not moved while its files were
read: a leader that goes on drops old checkpoints and files. Not promised: that the inputs of the planned batch are
there, nor that the sink has the batches before; a takeover looks for the inputs itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, decode_checkpoint
from tenure.checkpoints.store import CHECKPOINTS, newest_batches
from tenure.coordination.election import seen_in
from tenure.coordination.election_rules import decode_office
from tenure.coordination.records import Record
from tenure.errors import Corrupt, UsageError
from tenure.handles.areas import handles_in
from tenure.handles.handle import decode_handle
from tenure.handles.pins import pins_in
from tenure.operate.checkpoint_rules import Advice, advice
from tenure.operate.scopes import known_records
from tenure.rundirs.inspecting import damages_of
from tenure.scope_context import ScopeContext

_TRIES: Final = 5
"""How often a query is read whose checkpoints move meanwhile."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A checkpoint, and its damage."""

    query: str
    batch: int
    checkpoint: Checkpoint | None
    """None: the record does not decode, or its blob is damaged."""
    damage: tuple[str, ...]
    """One line each; empty: the checkpoint is whole."""
    advice: Advice | None
    """None: the checkpoint is whole."""


Chosen = Callable[[Sequence[Record]], Sequence[Record]]
"""Which of the records of a query's checkpoints, oldest first."""


def newest_only(records: Sequence[Record]) -> Sequence[Record]:
    """The newest checkpoint, at which a takeover goes on."""
    return records[-1:]


def all_kept(records: Sequence[Record]) -> Sequence[Record]:
    """All of them."""
    return records


def one_batch(batch: int) -> Chosen:
    """The checkpoint of that batch."""
    return lambda records: [record for record in records if record.key.name == checkpoint_name(batch)]


def known_queries(context: ScopeContext) -> list[str]:
    """The queries with a checkpoint, also where its record does not decode. Raises UsageError, StoreUnavailable."""
    return sorted(newest_batches(known_records(context.store, context.scope)))


def verify(context: ScopeContext, query: str, *, chosen: Chosen = newest_only) -> list[Verified]:
    """Verify checkpoints of a query, oldest first. Raises UsageError: none is chosen; StorageError, StoreUnavailable,
    CorruptRecord: the record of the leader does not decode."""
    for _ in range(_TRIES):
        records = known_records(context.store, context.scope)
        handles = checkpoints_of(records, query)
        wanted = chosen(handles)
        if not wanted:
            raise unknown(context, records, query)
        newest = int(handles[-1].key.name)
        found = [_verified(context, records, record, newest=newest) for record in wanted]
        moved = [one for one, record in zip(found, wanted, strict=True) if one.damage and not _stands(context, record)]
        if not moved:
            break
    return [one for one in found if one not in moved]


def checkpoints_of(records: Sequence[Record], query: str) -> list[Record]:
    """The records of a query's checkpoints, oldest first."""
    area = CHECKPOINTS.child(query)
    handles = [record for record in handles_in(records, CHECKPOINTS) if record.key.is_under(area)]
    return sorted((one for one in handles if one.key.name.isdecimal()), key=lambda record: int(record.key.name))


def unknown(context: ScopeContext, records: Sequence[Record], query: str) -> UsageError:
    """The error for a query without such a checkpoint."""
    kept = [int(record.key.name) for record in checkpoints_of(records, query)]
    if not kept:
        known = sorted(newest_batches(records))
        return UsageError(f"query {query!r} has no checkpoint in scope {context.scope!r}", fix=f"known: {known}")
    return UsageError(
        f"query {query!r} has no checkpoint of that batch in scope {context.scope!r}", fix=f"kept batches: {kept}"
    )


def _leader_in(records: Sequence[Record]) -> str | None:
    seen = seen_in(tuple(records))
    return None if seen.leader is None or seen.epoch is None else decode_office(seen.epoch).holder


def _verified(context: ScopeContext, records: Sequence[Record], record: Record, *, newest: int) -> Verified:
    query, batch = record.key.split("/")[1], int(record.key.name)
    checkpoint: Checkpoint | None = None
    try:
        payload = context.checkpoint_handles(query).payload(decode_handle(record))
        checkpoint = decode_checkpoint(payload, query=query, name=record.key.name)
        copies = [pin.copy for pin in pins_in(records) if pin.handle == record.key and pin.whole]
        # A copy is all that an older checkpoint needs: Spark removes old batches from a run directory that it uses.
        paths = copies if copies and batch < newest else [checkpoint.run_directory, *copies]
        damage = [line for path in paths for line in damages_of(f"{context.storage}/{path}", checkpoint)]
    except Corrupt as error:
        damage = [error.what]
    told = advice(newest=newest, batch=batch, leader=_leader_in(records)) if damage else None
    return Verified(query, batch, checkpoint, tuple(damage), told)


def _stands(context: ScopeContext, record: Record) -> bool:
    now = context.store.read(context.scope, record.key)
    return now is not None and (now.version, now.value) == (record.version, record.value)
