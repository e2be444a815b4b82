"""What a doctor asks of a store beyond its contract, and the words of the answers.

Promise: an examination changes nothing that a member could see. It answers in bounded time, and a server that does not
answer is a remark, not an error. No decision of a member rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from tenure.coordination.records import Scope


class Grade(StrEnum):
    """How good it is."""

    OK = "ok"
    NOTE = "note"
    """A fact that the reader should know, or a check that was not made."""
    WARN = "warn"
    """A member can lead. Something near it will fail one day, or shows people wrong facts."""
    BAD = "bad"
    """A member would not start, could not lead, or could not hand over."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One answer: a fact that was seen, its meaning, and the fix. `means` and `mend` may be empty."""

    grade: Grade
    seen: str
    means: str = ""
    mend: str = ""


class Examination(Protocol):
    """The examination of one store."""

    @property
    def local_folder(self) -> str | None:
        """The folder of this machine in which the store writes; None: the store is a server."""
        ...

    @property
    def has_scratch(self) -> bool:
        """Whether a member's rights let it write a scope beside its own, and `forget` it."""
        ...

    def examine(self, scope: Scope | None) -> Sequence[Remark]:
        """Look at the servers, and at the rights to `scope` (None: it is not known). Raises StoreUnavailable."""
        ...

    def server_time(self, scope: Scope) -> datetime | None:
        """The wall clock of the server, right after a commit to `scope`; None: it is this machine's, or is not told.
        Raises StoreUnavailable."""
        ...

    def forget(self, scope: Scope) -> None:
        """Remove what a store keeps of a scope without records. Raises StoreUnavailable."""
        ...


@runtime_checkable
class Examinable(Protocol):
    """A store that can be examined."""

    def examination(self) -> Examination:
        """No I/O."""
        ...
