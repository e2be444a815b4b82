"""A result and its encoding: JSON with a format version.

Promise: `decode_result` reads the payloads of `encode_result`; any other payload is CorruptRecord.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenure.coordination.encoding import decode_payload, encode_payload
from tenure.errors import CorruptRecord


class Ending(StrEnum):
    """How a pipeline ended for good. A failed query is no such end: the next run goes on where the query failed."""

    FINISHED = "finished"
    """All input is in the sinks."""


class Stage(StrEnum):
    """How far the cleanup is."""

    DIRTY = "dirty"
    """Remains of the pipeline may still be there. The next leader removes them, and runs no query."""
    CLEAN = "clean"
    """Only the result remains."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a pipeline ended."""

    ending: Ending
    stage: Stage
    epoch: int
    """Of the term in which the pipeline ended."""
    member: str
    """The leader of that term."""
    ended_at: str
    """Wall clock (ISO 8601, UTC), for people."""


def encode_result(result: Result) -> bytes:
    """The payload of the result's handle."""
    return encode_payload(result)


def decode_result(payload: bytes) -> Result:
    """The result in a payload. Raises CorruptRecord."""
    try:
        return decode_payload(Result, payload)
    except ValueError as error:
        raise CorruptRecord(f"the result of the pipeline does not decode: {error}") from error
