"""Pure: the table of the remains of a pipeline, the order in which they go, and their places in the storage.

Promise (I6): a record goes before the blob or directory that it names. A row waits for the rows that it `needs`; the
others go on without it. Nothing names the content of an empty row, so a row may be walked again at any time. Not
promised: how a row is removed; `Cleanable` is the contract for that, also for sinks.
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
HANDLES: Final = "handles"
ANCHORS: Final = "anchors"
DECLARATION: Final = "declaration"
STAGED: Final = "staged output"
RUNS: Final = "run directories"
REHEARSALS: Final = "rehearsals"
BLOBS: Final = "blobs"
OWNER: Final = "owner"
STORAGE: Final = "storage"


class Cleanable(Protocol):
    """Remains of one kind (as Flink's CleanableResource). Every call may be repeated."""

    def find(self) -> Sequence[str]:
        """The names of the present remains. Raises StorageError, StoreError, Corrupt."""
        ...

    def remove(self, term: Term, name: str) -> None:
        """Remove the thing of that name under the term, if it is still there.

        Raises TermLost: nothing more may be removed. HandleLocked, StorageError, StoreError, Corrupt: it stays for now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Area:
    """The place of a row in a scope's storage. Depths are numbers of path components."""

    folder: str
    ends: int
    """At the end of the pipeline, files and folders of this depth go as a whole."""
    stays: int = 0
    """While the pipeline goes on, folders up to this depth stay, also empty: a member that starts may need them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of remains. `what`: for people. `needs`: rows that must be empty before."""

    name: str
    what: str
    needs: tuple[str, ...] = ()
    area: Area | None = None
    """None: the remains are in the store, or at a sink."""


PLAN: Final = (
    Row(REQUESTS, "orders of operators: switchover, pause, restarts"),
    Row(STAGED, "files of output that no table names"),
    Row(CHECKPOINTS, "the pointers of checkpoints, then their blobs; a locked checkpoint waits for its reader"),
    Row(HANDLES, "handles and records of services, then their blobs; a locked handle waits for its reader"),
    Row(ANCHORS, "the records that move with each removal of a handle", needs=(CHECKPOINTS, HANDLES)),
    Row(DECLARATION, "the declarations of the last leader"),
    Row(
        RUNS,
        "run directories and mirrors",
        needs=(CHECKPOINTS, STAGED),  # they hold the ids of queries, by which staged output is found
        area=Area(RUNS_FOLDER, ends=3, stays=2),
    ),
    Row(REHEARSALS, "folders of rehearsals", area=Area("rehearsals", ends=3, stays=1)),
    Row(
        BLOBS,
        "blobs without a pointer, and unfinished writes",
        needs=(CHECKPOINTS, HANDLES),
        area=Area("blobs", ends=2, stays=1),
    ),
    Row(
        OWNER,
        "the marks of the storage's owner",
        needs=(RUNS, REHEARSALS, BLOBS),  # everything else in the storage needs its owner's mark
        area=Area(OWNER_FOLDER, ends=2),
    ),
    Row(STORAGE, "the empty folder of the scope in the storage", needs=(OWNER,)),
)
"""In this order. The result is no row: it is dirty before the first row, and clean after the last."""

AREAS: Final = {row.name: row.area for row in PLAN if row.area is not None}
SWEPT: Final = {area.folder: name for name, area in AREAS.items() if area.stays}
"""The folders of a scope's storage that are swept while the pipeline goes on -> their rows."""


def row_at(path: str) -> str:
    """The row of a path that a sweep may remove, below a scope's storage or beside a table."""
    return SWEPT.get(path.split("/", 1)[0], STAGED)


def awaited(row: Row, *, remaining: Collection[str]) -> tuple[str, ...]:
    """The rows among the `remaining` rows that a row has to wait for."""
    return tuple(name for name in row.needs if name in remaining)
