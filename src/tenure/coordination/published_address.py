"""An address that a scope publishes for clients that know no store, outside of the records of the scope.

Promise of an implementation: a publication replaces the very state that it has read, and never a publication of a
higher epoch, of another scope or of another owner. So a late writer changes nothing. Not promised: that a publication
goes with its session. A process that dies leaves its address until a higher epoch replaces it.
"""

from __future__ import annotations

from typing import Protocol

from tenure.coordination.records import Scope


class PublishedAddress(Protocol):
    """An address under a public name. Thread-safe. A constructor does no I/O."""

    @property
    def name(self) -> str:
        """The public name."""
        ...

    def publish(self, scope: Scope, *, epoch: int, address: str, port: int) -> None:
        """Let the name lead to this IP address and port. Nothing is written if that is so already.

        Raises NotPublished: another owner or a higher epoch has the name; AccessDenied, StoreUnavailable: nothing was
        written; OutcomeUnknown: safe to repeat.
        """
        ...

    def withdraw(self, scope: Scope, *, epoch: int) -> None:
        """Let the name lead nowhere, unless another owner or a higher epoch has it. Raises StoreUnavailable,
        OutcomeUnknown: safe to repeat."""
        ...

    def close(self) -> None:
        """Release connections. A later call raises StoreUnavailable."""
        ...
