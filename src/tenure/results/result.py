"""What a result says, and its encoding: JSON with a format version.

Promise: what `encode_result` wrote, `decode_result` reads; anything else is CorruptRecord.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from tenure.errors import CorruptRecord

_FORMAT = 1


class Ending(StrEnum):
    """How a pipeline ended for good. A query that failed is no such end: what is wrong is mended, and the next run goes
    on where it was."""

    FINISHED = "finished"
    """Everything that its sources had is in the sinks."""


class Stage(StrEnum):
    """How far the cleanup after it is."""

    DIRTY = "dirty"
    """Something that the pipeline left may still be there: whoever leads next cleans up, and runs nothing."""
    CLEAN = "clean"
    """Nothing is left but this."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a pipeline ended."""

    ending: Ending
    stage: Stage
    epoch: int
    """The term under which it ended."""
    member: str
    """Who led then."""
    ended_at: str
    """Wall clock (ISO 8601, UTC), for people."""


def encode_result(result: Result) -> bytes:
    """The payload of the result's handle."""
    return json.dumps({"format": _FORMAT, **asdict(result)}, separators=(",", ":"), sort_keys=True).encode()


def decode_result(payload: bytes) -> Result:
    """The result in a payload. Raises CorruptRecord."""
    try:
        found = json.loads(payload)
        if found.pop("format") != _FORMAT:
            raise ValueError("it has a format that this version does not read")
        for name, kind in (("epoch", int), ("member", str), ("ended_at", str)):
            if type(found[name]) is not kind:
                raise ValueError(f"{name} is not {kind.__name__}")
        return Result(**{**found, "ending": Ending(found["ending"]), "stage": Stage(found["stage"])})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptRecord(f"the result of the pipeline does not decode: {error}") from error
