"""A checkpoint and its encoding: JSON with a format version.

Promise: `decode_checkpoint` reads the payloads of `encode_checkpoint`. Any other payload, and a checkpoint that
contradicts its name, is CorruptCheckpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.checkpoints.source import Kind
from tenure.coordination.encoding import decode_payload, encode_payload
from tenure.errors import CorruptCheckpoint


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
    """The run directory of the member that planned or retook the batch. It holds the state of the batches before."""
    epoch: int
    """The term that planned the batch, or retook it last."""
    planned_at: str
    """Wall clock (ISO 8601, UTC), for people."""
    folders: tuple[str, ...] = ()
    """The folder below Spark's `sources/` of each line of `offsets`; empty: line i is folder i."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The kind of each source, by its folder. A folder that is not there: the kind was not recorded."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """The URL that each source of files reads, by its folder. A folder that is not there: it was not recorded."""
    closed: bool = False
    """`run_directory` was seeded after the end of the batch, so it has only the state after the batch. (A batch is
    done, closed or not, when its run directory has Spark's `commits/<batch>`.)"""


def checkpoint_name(batch: int) -> str:
    """The name of a batch's handle. The order of names is the order of batches."""
    return f"{batch:012d}"


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The payload of the checkpoint's handle."""
    return encode_payload(checkpoint)


def decode_checkpoint(payload: bytes, *, query: str, name: str) -> Checkpoint:
    """The checkpoint in the payload of handle `name`. Raises CorruptCheckpoint."""
    where = f"checkpoint {name} of query {query!r}"
    try:
        checkpoint = decode_payload(Checkpoint, payload)
    except ValueError as error:
        raise CorruptCheckpoint(f"{where} does not decode: {error}") from error
    if checkpoint.query != query or checkpoint_name(checkpoint.batch) != name:
        raise CorruptCheckpoint(f"{where} says that it is batch {checkpoint.batch} of query {checkpoint.query!r}")
    return checkpoint
