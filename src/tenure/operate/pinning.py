"""Pins a checkpoint: its record stays, and a copy of all that a takeover at it would read.

Spark removes the state of old batches in a run directory that it uses, so a pin has a copy of its own.

1. One commit makes the pin, while the checkpoint stands. From then on the record, its blob, its run directory and the
   folder of the copy stay.
2. A seed fills the folder of the copy.
3. One commit says that the copy is whole.

Promise: retention and the pin of one checkpoint are never both committed. After a death at any step the same command
completes the pin, and `unpin` removes it; until then the copy is not called whole. A folder that no pin names any more
goes by the next sweep. Not promised: that the output is kept, too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, decode_checkpoint
from tenure.checkpoints.run_name import RunName
from tenure.checkpoints.store import CHECKPOINTS
from tenure.clock import timestamp
from tenure.coordination.candidates import AskedBy
from tenure.coordination.records import Key, Record, Version
from tenure.errors import CorruptRunDirectory, HandleNotFound, StorageError, UsageError
from tenure.handles.handle import decode_handle
from tenure.handles.pins import Pin
from tenure.operate.scopes import known_records
from tenure.operate.verifying import checkpoints_of, unknown
from tenure.rundirs.run_directory import has_commit, remove_tree
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext

_TRIES: Final = 20
"""How often the checkpoint is read whose record moves meanwhile."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A pinned checkpoint."""

    batch: int
    pin: Pin
    is_new: bool
    """False: it was pinned, and whole, before."""
    files: int
    """The copied files."""


def pin(context: ScopeContext, query: str, batch: int | None, *, asked: AskedBy) -> Pinned:
    """Pin the checkpoint of a batch, or the newest, and copy its files. A pin whose copy is not whole is completed.

    Raises UsageError: there is no such checkpoint, or another command pins or unpins it; Corrupt: the checkpoint is
    damaged, and is not pinned; StorageError: it is pinned, without a whole copy; StoreUnavailable, OutcomeUnknown.
    """
    for _ in range(_TRIES):
        record, checkpoint = _read(context, query, batch)
        wanted = Pin(
            record.key,
            Version(""),
            asked.by,
            timestamp(context.clock),
            asked.reason,
            blob="",
            protects=checkpoint.run_directory,
            copy=str(RunName.pinned(query)),
        )
        pins = context.pins(query)
        try:
            found, is_new = pins.pin(record.key.name, wanted, expected=record.version)
        except HandleNotFound:
            continue  # retaken, or dropped
        if found.whole:
            return Pinned(checkpoint.batch, found, is_new=False, files=0)
        if not is_new:
            # A command that died has left it, or it copies still: its folder is not this command's.
            taken = pins.change(replace(found, protects=wanted.protects, copy=wanted.copy))
            if taken is None:
                continue
            found = taken
        return _copied(context, query, checkpoint, found)
    raise UsageError(f"the checkpoints of query {query!r} move faster than they can be pinned", fix="try again")


def unpin(context: ScopeContext, query: str, batch: int) -> tuple[Pin | None, StorageError | None]:
    """End the pin of a checkpoint, and remove its copy. Return the pin (None: there was none), and the error that kept
    the copy; the next sweep removes it. Raises UsageError: there is no such checkpoint; StoreUnavailable,
    OutcomeUnknown, CorruptRecord."""
    records = known_records(context.store, context.scope)
    if all(record.key != key_of(query, batch) for record in checkpoints_of(records, query)):
        raise unknown(context, records, query)
    ended = context.pins(query).end(checkpoint_name(batch))
    failed = None
    if ended is not None:
        try:
            _remove_copy(context, ended)
        except StorageError as error:
            failed = error
    return ended, failed


def key_of(query: str, batch: int) -> Key:
    """The key of a checkpoint's handle."""
    return CHECKPOINTS.child(query).child(checkpoint_name(batch))


def _read(context: ScopeContext, query: str, batch: int | None) -> tuple[Record, Checkpoint]:
    records = known_records(context.store, context.scope)
    handles = checkpoints_of(records, query)
    wanted = handles[-1:] if batch is None else [one for one in handles if one.key == key_of(query, batch)]
    if not wanted:
        raise unknown(context, records, query)
    (record,) = wanted
    payload = context.checkpoint_handles(query).payload(decode_handle(record))
    return record, decode_checkpoint(payload, query=query, name=record.key.name)


def _copied(context: ScopeContext, query: str, checkpoint: Checkpoint, made: Pin) -> Pinned:
    """Fill the copy of a pin, and say that it is whole."""
    source, pins = f"{context.storage}/{checkpoint.run_directory}", context.pins(query)
    done = has_commit(source, checkpoint.batch)
    point = SeedPoint(checkpoint.batch, checkpoint.offsets, done, checkpoint.folders, checkpoint.kinds)
    try:
        files = seed(source, f"{context.storage}/{made.copy}", point)
    except CorruptRunDirectory:
        pins.end(checkpoint_name(checkpoint.batch), only=made)  # a pin without a copy would promise too much
        with suppress(StorageError):  # the next sweep removes it
            _remove_copy(context, made)
        raise
    whole = pins.change(replace(made, whole=True))
    if whole is None:
        raise UsageError(
            f"batch {checkpoint.batch} of query {query!r} was unpinned meanwhile, or another command pins it",
            fix="see tenure checkpoints list",
        )
    return Pinned(checkpoint.batch, whole, is_new=True, files=files)


def _remove_copy(context: ScopeContext, ended: Pin) -> None:
    """Raises StorageError."""
    run = RunName.parse(ended.copy)
    if run is not None and run.is_pinned:  # a damaged record removes nothing else
        remove_tree(f"{context.storage}/{run}")
