"""What a checkpoint says, and its encoding: JSON with a format version.

Promise: what `encode_checkpoint` wrote, `decode_checkpoint` reads; anything else, and a checkpoint that
contradicts its name, is CorruptCheckpoint.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from tenure.errors import CorruptCheckpoint

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All batches before `batch` are in the sink; `batch` is planned with `offsets`."""

    query: str
    """The query's name in its pipeline."""
    query_id: str
    """Spark's id of the query, the same for all its run directories."""
    batch: int
    offsets: str
    """The text of Spark's `offsets/<batch>`."""
    run_directory: str
    """Where the state of the batches before is: the run directory of the member that planned it."""
    epoch: int
    """The term that planned it."""
    planned_at: str
    """Wall clock (ISO 8601, UTC), for people."""
    closed: bool = False
    """The batch is in the sink as well, and `run_directory` has the state after it: nothing has to be run again."""


def checkpoint_name(batch: int) -> str:
    """The name of a batch's handle: its id, so that the order of names is the order of batches."""
    return f"{batch:012d}"


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The payload of the checkpoint's handle."""
    return json.dumps({"format": _FORMAT, **asdict(checkpoint)}, sort_keys=True).encode()


def decode_checkpoint(payload: bytes, *, query: str, name: str) -> Checkpoint:
    """The checkpoint in a payload that was found under `name`. Raises CorruptCheckpoint."""
    where = f"checkpoint {name} of query {query!r}"
    try:
        found = json.loads(payload)
        if found.pop("format") != _FORMAT:
            raise ValueError("it has a format that this version does not read")
        checkpoint = Checkpoint(**found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptCheckpoint(f"{where} does not decode: {error}") from error
    for field in fields(Checkpoint):
        wanted = {"batch": int, "epoch": int, "closed": bool}.get(field.name, str)
        if type(getattr(checkpoint, field.name)) is not wanted:
            raise CorruptCheckpoint(f"{where} does not decode: {field.name} is not {wanted.__name__}")
    if checkpoint.query != query or checkpoint_name(checkpoint.batch) != name:
        raise CorruptCheckpoint(f"{where} says that it is batch {checkpoint.batch} of query {checkpoint.query!r}")
    return checkpoint
