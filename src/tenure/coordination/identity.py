"""Pure: which life of a scope a store tells of, and whether what it says now can follow what it said before.

A life begins with the first grant of a scope, which writes a random identity, and ends when a result is forgotten. The
record `identity` is permanent; it says, too, with which epoch the life begins, and which lives were before it. A record
that is missing is put again only where no checkpoint stands: with checkpoints nobody can tell any more whose they are.

Promise: no I/O, no clock. A store whose newest epoch is less than one that was seen, or whose identity is another one
that does not name the one before it, was emptied, restored from an older copy, or replaced: epochs would be given a
second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.coordination.encoding import decode, encode
from tenure.coordination.records import Key, Put, Record, Version
from tenure.errors import CorruptRecord, OwnerMismatch

IDENTITY: Final = Key("identity")
"""The record of which life this is."""

ANEW: Final = "to begin anew, use another --scope, and another output"
"""What always helps: nothing is in the folder of such a scope, and no checkpoint names what is not there."""

_FORMER: Final = 50
"""How many lives before it an identity names."""

_CHECKPOINTS: Final = Key("checkpoints")
"""As `tenure.checkpoints.store` has it; a checkpoint lies in the area of its query."""


@dataclass(frozen=True, slots=True)
class Life:
    """What a scope says of itself. `identity` None: nothing. `epoch`: the newest; 0: nobody ever led. `former`: the
    identities of the lives before this one."""

    identity: str | None
    epoch: int
    former: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Birth:
    """The record `identity`: how a life began."""

    identity: str
    epoch: int
    """The first one of this life."""
    former: tuple[str, ...] = ()
    """The identities of the lives before it, oldest first."""

    def next(self, identity: str, *, epoch: int) -> Birth:
        """Of the life after this one."""
        return Birth(identity, epoch, (*self.former, self.identity)[-_FORMER:])


def has_checkpoints(records: Sequence[Record]) -> bool:
    """Whether a batch of some query is planned among the records of a scope."""
    return any(record.key.is_under(_CHECKPOINTS) and record.key.count("/") > 1 for record in records)


def birth_in(records: Sequence[Record]) -> Birth | None:
    """The record `identity` among those of a scope; None: there is none. Raises CorruptRecord."""
    record = next((record for record in records if record.key == IDENTITY), None)
    if record is None:
        return None
    found = decode(record, fields={"identity": str, "epoch": int, "former": list})
    former = found["former"]
    if not all(isinstance(one, str) for one in former):
        raise CorruptRecord(f"record {IDENTITY!r} does not decode: field 'former' has what is no identity")
    return Birth(found["identity"], found["epoch"], tuple(former))


def put_identity(birth: Birth, *, replaces: Version | None) -> Put:
    """The write that makes this the identity; its own value tells who wrote it."""
    fields = {"identity": birth.identity, "epoch": birth.epoch, "former": list(birth.former)}
    return Put(IDENTITY, encode(fields), replaces=replaces)


def check_follows(now: Life, before: Life | None, *, scope: str) -> Life:
    """What is known of the scope now. `before` None: nothing was.

    Raises OwnerMismatch: what is said now cannot come after what was said before.
    """
    if before is None:
        return now
    if now.epoch < before.epoch:
        found = f"epoch {now.epoch}" if now.epoch else "nothing"
        raise _lost(scope, f"was in epoch {before.epoch}, and has {found} now")
    if before.identity not in (None, now.identity, *now.former):
        found = "none" if now.identity is None else f"owner {now.identity[:8]}"
        raise _lost(scope, f"was that of owner {str(before.identity)[:8]}, and names {found} now")
    return now


def _lost(scope: str, what: str) -> OwnerMismatch:
    return OwnerMismatch(
        f"scope {scope!r} in the store {what}: it was emptied, restored from an older copy, or replaced",
        fix=f"restore the store; {ANEW}",
    )
