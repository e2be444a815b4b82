"""Pure: which life of a scope a store tells of, and whether what it says now can follow what it said before.

A life begins with the first grant of a scope, which writes a random identity, and ends when a result is forgotten. The
record `identity` is permanent. A record that is missing is put again only where no checkpoint stands: with checkpoints
nobody can tell any more whose they are.

Promise: no I/O, no clock. A store whose newest epoch is less than one that was seen, or whose identity is another one,
was emptied, restored from an older copy, or replaced: epochs would be given a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.coordination.encoding import decode, encode
from tenure.coordination.records import Key, Put, Record, Version
from tenure.errors import OwnerMismatch

IDENTITY: Final = Key("identity")
"""The record of which life this is."""

_CHECKPOINTS: Final = Key("checkpoints")
"""As `tenure.checkpoints.store` has it; a checkpoint lies in the area of its query."""


@dataclass(frozen=True, slots=True)
class Life:
    """What a scope says of itself. `identity` None: nothing. `epoch`: the newest; 0: nobody ever led."""

    identity: str | None
    epoch: int


def has_checkpoints(records: Sequence[Record]) -> bool:
    """Whether a batch of some query is planned among the records of a scope."""
    return any(record.key.is_under(_CHECKPOINTS) and record.key.count("/") > 1 for record in records)


def identity_in(records: Sequence[Record]) -> str | None:
    """The identity among the records of a scope; None: there is none. Raises CorruptRecord."""
    found = next((record for record in records if record.key == IDENTITY), None)
    return None if found is None else str(decode(found, fields={"identity": str})["identity"])


def put_identity(identity: str, *, replaces: Version | None) -> Put:
    """The write that makes this the identity; its own value tells who wrote it."""
    return Put(IDENTITY, encode({"identity": identity}), replaces=replaces)


def check_follows(now: Life, before: Life | None, *, scope: str) -> Life:
    """What is known of the scope now. `before` None: nothing was.

    Raises OwnerMismatch: what is said now cannot come after what was said before.
    """
    if before is None:
        return now
    if now.epoch < before.epoch:
        found = f"epoch {now.epoch}" if now.epoch else "nothing"
        raise _lost(scope, f"was in epoch {before.epoch}, and has {found} now")
    if before.identity is not None and now.identity != before.identity:
        found = "none" if now.identity is None else f"owner {now.identity[:8]}"
        raise _lost(scope, f"was that of owner {before.identity[:8]}, and names {found} now")
    return now


def _lost(scope: str, what: str) -> OwnerMismatch:
    return OwnerMismatch(
        f"scope {scope!r} in the store {what}: it was emptied, restored from an older copy, or replaced",
        fix="restore the store, or name an empty storage to begin anew",
    )
