"""What became of a commit that etcd answered with "database space exceeded".

etcd asks for the size of its database when a transaction arrives, and again when it applies the transaction. It applies
a transaction that is over the quota only then, and answers that it has no space. So this answer proves nothing. But the
request is not on its way any more: it was applied before the answer, or never will be, and one read shows which.

Promise: pure. A commit counts as applied when a record that it writes has its very content, as every value is unique
(`coordination.settle`). It counts as not applied while such a record is as it was before.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from tenure.coordination.records import Put, Record, Write


class Fate(Enum):
    """What became of a commit."""

    APPLIED = auto()
    NOT_APPLIED = auto()
    UNKNOWN = auto()


def telling(writes: Sequence[Write]) -> Write | None:
    """The write whose record shows the fate of all; None: nothing is written. A permanent record with content shows it
    best: a bound record goes with its session, and nobody signs a removal."""
    puts = [write for write in writes if isinstance(write, Put)]
    return next(iter((*(put for put in puts if put.session is None), *puts, *writes)), None)


def fate_of(write: Write, now: Record | None) -> Fate:
    """The fate of a commit with `write`, by the record at its key after the answer."""
    if isinstance(write, Put) and now is not None and now.value == write.value and now.version != write.replaces:
        return Fate.APPLIED
    before = None if now is None else now.version
    return Fate.NOT_APPLIED if before == write.replaces else Fate.UNKNOWN
