"""Pure: the one table of all that a pipeline leaves when it has ended, and the order in which it goes.

Promise (I6): what a record names goes after the record. A row waits for those that it `needs`; the others go on without
it. Nothing of a row is named anywhere once it is empty, so a row may be walked again at any time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tenure.cleanable import (
    ANCHORS,
    BLOBS,
    CHECKPOINTS,
    DECLARATION,
    OWNER,
    REHEARSALS,
    REQUESTS,
    RUNS,
    STAGED,
    STORAGE,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of what is left. `what`, `owner`: for people. `needs`: rows that must be empty before."""

    name: str
    what: str
    owner: str
    needs: tuple[str, ...] = ()


PLAN: Final = (
    Row(REQUESTS, "what operators asked for: switchover, pause, restarts", owner="operators"),
    Row(STAGED, "files of output that no table names", owner="leaders, dead ones included"),
    Row(
        CHECKPOINTS, "the pointers of checkpoints, then their blobs; a locked one waits for its reader", owner="leader"
    ),
    Row(ANCHORS, "the records that move with each removal of a checkpoint", owner="leader", needs=(CHECKPOINTS,)),
    Row(DECLARATION, "what the last leader declared", owner="leader"),
    # What is staged is found by the ids of queries, which are in their run directories.
    Row(RUNS, "run directories and mirrors", owner="leaders and standbys", needs=(CHECKPOINTS, STAGED)),
    Row(REHEARSALS, "what standbys rehearsed in", owner="standbys"),
    Row(BLOBS, "blobs without a pointer, and writes that did not end", owner="leaders", needs=(CHECKPOINTS,)),
    # As long as anything else is there, it can be told whose it is.
    Row(OWNER, "the marks of whose storage it is", owner="leaders", needs=(RUNS, REHEARSALS, BLOBS)),
    Row(STORAGE, "the scope's folder in the storage, when nothing is in it", owner="all", needs=(OWNER,)),
)
"""In this order. The result is not among it: it is dirty before the first row, and clean after the last."""


def awaited(row: Row, *, left: Collection[str]) -> tuple[str, ...]:
    """Which of the rows in `left`, in which something is left, a row has to wait for; none: it may go."""
    return tuple(name for name in row.needs if name in left)
