"""The contract of what a pipeline leaves, one kind of things at a time (as Flink's CleanableResource), and the kinds.

Promise: nothing. It is a contract; sinks and rooms below the cleanup keep it without knowing the cleanup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from tenure.coordination.term import Term

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
    """What is left of one kind. Every call may be repeated."""

    def find(self) -> Sequence[str]:
        """The names of what is there now. Raises StorageError, StoreError, Corrupt."""
        ...

    def remove(self, term: Term, name: str) -> None:
        """Remove one of them, under the term; one that is gone is fine.

        Raises TermLost: nothing more may be removed. HandleLocked, StorageError, StoreError, Corrupt: it stays for now.
        """
        ...
