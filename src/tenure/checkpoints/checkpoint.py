"""A checkpoint and its encoding: JSON with a format version.

Promise: `decode_checkpoint` reads the payloads of `encode_checkpoint`. Any other payload, and a checkpoint that
contradicts its name, is CorruptCheckpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from tenure.checkpoints.source import decode_kinds
from tenure.errors import CorruptCheckpoint

_FORMAT = 1
_TYPES = {"batch": int, "epoch": int, "folders": tuple, "kinds": dict, "paths": dict, "closed": bool}
"""Of the fields that are not text."""


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
    kinds: Mapping[str, str] = field(default_factory=dict)
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
    return json.dumps({"format": _FORMAT, **asdict(checkpoint)}, separators=(",", ":"), sort_keys=True).encode()


def decode_checkpoint(payload: bytes, *, query: str, name: str) -> Checkpoint:
    """The checkpoint in the payload of handle `name`. Raises CorruptCheckpoint."""
    where = f"checkpoint {name} of query {query!r}"
    try:
        found = json.loads(payload)
        if found.pop("format") != _FORMAT:
            raise ValueError("this version does not read its format")
        folders = found.get("folders", [])
        if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
            raise ValueError("folders is not a list of texts")
        kinds = decode_kinds(found.get("kinds", {}))
        paths = found.get("paths", {})
        if not isinstance(paths, dict) or not all(isinstance(path, str) for path in paths.values()):
            raise ValueError("paths does not hold texts")
        checkpoint = Checkpoint(**{**found, "folders": tuple(folders), "kinds": kinds, "paths": paths})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptCheckpoint(f"{where} does not decode: {error}") from error
    for one in fields(Checkpoint):
        wanted = _TYPES.get(one.name, str)
        if type(getattr(checkpoint, one.name)) is not wanted:
            raise CorruptCheckpoint(f"{where} does not decode: {one.name} is not {wanted.__name__}")
    if checkpoint.query != query or checkpoint_name(checkpoint.batch) != name:
        raise CorruptCheckpoint(f"{where} says that it is batch {checkpoint.batch} of query {checkpoint.query!r}")
    return checkpoint
