"""Pure: which blobs are deleted after each outcome of a commit.

The promise behind the table (I4, I6): a pointer in the store means that its blob exists and is right. So the
blob is written before the pointer, deleted after it, and deleted only when the outcome is definite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Operation(Enum):
    """What is done to a handle."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class Outcome(Enum):
    """What is known of the commit."""

    COMMITTED = "committed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Discard:
    """Which blobs are deleted after the commit."""

    new: bool
    old: bool


AFTER: Mapping[tuple[Operation, Outcome], Discard] = {
    (Operation.ADD, Outcome.COMMITTED): Discard(new=False, old=False),
    (Operation.ADD, Outcome.REFUSED): Discard(new=True, old=False),
    (Operation.ADD, Outcome.UNKNOWN): Discard(new=False, old=False),
    (Operation.REPLACE, Outcome.COMMITTED): Discard(new=False, old=True),
    (Operation.REPLACE, Outcome.REFUSED): Discard(new=True, old=False),
    (Operation.REPLACE, Outcome.UNKNOWN): Discard(new=False, old=False),
    (Operation.REMOVE, Outcome.COMMITTED): Discard(new=False, old=True),
    (Operation.REMOVE, Outcome.REFUSED): Discard(new=False, old=False),
    (Operation.REMOVE, Outcome.UNKNOWN): Discard(new=False, old=False),
}
