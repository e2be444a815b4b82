"""Pure: the one table of all that a pipeline leaves, the order in which it goes, and where in the storage it lies.

Promise (I6): what a record names goes after the record. A row waits for those that it `needs`; the others go on without
it. Nothing of a row is named anywhere once it is empty, so a row may be walked again at any time. Not promised: how a
row is removed; `Cleanable` is the contract of whoever does that, also of sinks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tenure.checkpoints.run_name import RUNS as RUNS_FOLDER
from tenure.coordination.term import Term
from tenure.ownership.marks import OWNER as OWNER_FOLDER

REQUESTS: Final = "requests"
CHECKPOINTS: Final = "checkpoints"
ANCHORS: Final = "anchors"
DECLARATION: Final = "declaration"
STAGED: Final = "staged output"
RUNS: Final = "run directories"
REHEARSALS: Final = "rehearsals"
BLOBS: Final = "blobs"
OWNER: Final = "owner"
STORAGE: Final = "storage"


class Cleanable(Protocol):
    """What is left of one kind (as Flink's CleanableResource). Every call may be repeated."""

    def find(self) -> Sequence[str]:
        """The names of what is there now. Raises StorageError, StoreError, Corrupt."""
        ...

    def remove(self, term: Term, name: str) -> None:
        """Remove one of them, under the term; one that is gone is fine.

        Raises TermLost: nothing more may be removed. HandleLocked, StorageError, StoreError, Corrupt: it stays for now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Area:
    """Where in a scope's storage the things of a row lie, by numbers of path components."""

    folder: str
    ends: int
    """At the end of the pipeline, what lies so deep goes as a whole."""
    stays: int = 0
    """While the pipeline goes on, folders up to this depth stay, also empty: whoever starts may just need them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of what is left. `what`, `owner`: for people. `needs`: rows that must be empty before."""

    name: str
    what: str
    owner: str
    needs: tuple[str, ...] = ()
    area: Area | None = None
    """None: it lies in the store, or at a sink."""


PLAN: Final = (
    Row(REQUESTS, "what operators asked for: switchover, pause, restarts", owner="operators"),
    Row(STAGED, "files of output that no table names", owner="leaders, dead ones included"),
    Row(
        CHECKPOINTS, "the pointers of checkpoints, then their blobs; a locked one waits for its reader", owner="leader"
    ),
    Row(ANCHORS, "the records that move with each removal of a checkpoint", owner="leader", needs=(CHECKPOINTS,)),
    Row(DECLARATION, "what the last leader declared", owner="leader"),
    Row(
        RUNS,
        "run directories and mirrors",
        owner="leaders and standbys",
        needs=(CHECKPOINTS, STAGED),  # the ids of queries, by which staged output is looked for, are in them
        area=Area(RUNS_FOLDER, ends=3, stays=2),
    ),
    Row(REHEARSALS, "what standbys rehearsed in", owner="standbys", area=Area("rehearsals", ends=3, stays=1)),
    Row(
        BLOBS,
        "blobs without a pointer, and writes that did not end",
        owner="leaders",
        needs=(CHECKPOINTS,),
        area=Area("blobs", ends=2, stays=1),
    ),
    Row(
        OWNER,
        "the marks of whose storage it is",
        owner="leaders",
        needs=(RUNS, REHEARSALS, BLOBS),  # as long as anything else is there, it can be told whose it is
        area=Area(OWNER_FOLDER, ends=2),
    ),
    Row(STORAGE, "the scope's folder in the storage, when nothing is in it", owner="all", needs=(OWNER,)),
)
"""In this order. The result is not among it: it is dirty before the first row, and clean after the last."""

AREAS: Final = {row.name: row.area for row in PLAN if row.area is not None}
SWEPT: Final = {area.folder: name for name, area in AREAS.items() if area.stays}
"""The folders of a scope's storage that are swept while the pipeline goes on -> their rows."""


def row_at(path: str) -> str:
    """The row of a path that a sweep may remove: below a scope's storage, or else beside a table."""
    return SWEPT.get(path.split("/", 1)[0], STAGED)


def awaited(row: Row, *, left: Collection[str]) -> tuple[str, ...]:
    """Which of the rows in `left`, in which something is left, a row has to wait for; none: it may go."""
    return tuple(name for name in row.needs if name in left)
