"""Pure: which life of a scope a store holds, and whether this reading can follow the reading before. No I/O, no clock.

A life begins with the first grant of a scope, which writes a random identity, and ends when a result is forgotten. The
permanent record `identity` also names the first epoch of the life, and the lives before it. A missing record is put
again only where no checkpoint stands: nobody could tell whose the checkpoints are.

Promise: `check_follows` refuses a store that was emptied, restored from an older copy, or replaced, and would give
epochs twice. Its newest epoch is smaller than before, or its identity does not name the identity before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.coordination.encoding import decode_as, encode
from tenure.coordination.records import Key, Put, Record, Version
from tenure.errors import OwnerMismatch

IDENTITY: Final = Key("identity")
"""The record of the scope's life."""

ANEW: Final = "to begin anew, use another --scope, and another output"
"""The fix that always works: the new scope has neither files nor checkpoints."""

_FORMER: Final = 50
"""How many former lives an identity names."""

_CHECKPOINTS: Final = Key("checkpoints")
"""As in `tenure.checkpoints.store`; a checkpoint lies in the area of its query."""


@dataclass(frozen=True, slots=True)
class Life:
    """A scope's life at one instant. `identity` None: there is no record. `epoch`: the newest; 0: nobody ever led.
    `former`: the identities of the lives before."""

    identity: str | None
    epoch: int
    former: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Birth:
    """The record `identity`: how a life began."""

    identity: str
    epoch: int
    """The first epoch of the life."""
    former: tuple[str, ...] = ()
    """The identities of the lives before, oldest first."""

    def next(self, identity: str, *, epoch: int) -> Birth:
        """The birth of the next life."""
        return Birth(identity, epoch, (*self.former, self.identity)[-_FORMER:])


def has_checkpoints(records: Sequence[Record]) -> bool:
    """Whether a batch of some query is planned among the records of a scope."""
    return any(record.key.is_under(_CHECKPOINTS) and record.key.count("/") > 1 for record in records)


def birth_in(records: Sequence[Record]) -> Birth | None:
    """The record `identity` of a scope; None: there is none. Raises CorruptRecord."""
    record = next((record for record in records if record.key == IDENTITY), None)
    if record is None:
        return None
    return decode_as(Birth, record)


def put_identity(birth: Birth, *, replaces: Version | None) -> Put:
    """The write that makes this the identity; its value is unique, so no uid is needed."""
    fields = {"identity": birth.identity, "epoch": birth.epoch, "former": list(birth.former)}
    return Put(IDENTITY, encode(fields), replaces=replaces)


def check_follows(now: Life, before: Life | None, *, scope: str) -> Life:
    """`now`, which can follow `before` (None: this is the first reading). Raises OwnerMismatch: it cannot."""
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
