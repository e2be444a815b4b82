"""The contract that every coordination store keeps, and that all else is built on.

Promise of a store: a commit is all or nothing; it returns, or raises one error that says what happened.
There is no unguarded write. It promises nothing about leaders, checkpoints or pipelines: it knows none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, Self

from tenure.coordination.guarantees import Guarantees
from tenure.coordination.records import (
    Commit,
    Delete,
    Guard,
    Key,
    Listing,
    NoneUnder,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Write,
)
from tenure.errors import CommitRefused


class Session(Protocol):
    """A lease on liveness. Records bound to it vanish when it ends; once ended it never comes back."""

    id: SessionId
    ttl: timedelta

    def renew(self) -> None:
        """Prove that the session lives now, and keep it for another ttl from the moment the request left.

        Raises SessionEnded (final), StoreUnavailable or OutcomeUnknown (try again before the deadline).
        """
        ...

    def close(self) -> None:
        """End the session; its records are gone when this returns. Closing an ended session is fine.

        Raises StoreUnavailable or OutcomeUnknown: then it ends by itself at its ttl.
        """
        ...


class Changes(Protocol):
    """A watch on one scope: says that something changed, not what. The reader lists again."""

    def wait(self, *, timeout: timedelta) -> Revision | None:
        """Return the scope's revision once it is past the last one returned (or `after`), None at the timeout.

        May return early for a change that the reader has seen already. Raises StoreUnavailable.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


class CoordinationStore(Protocol):
    """A coordination store. Thread-safe. Opening it is the backend's business; constructors do no I/O."""

    @property
    def guarantees(self) -> Guarantees: ...

    def open_session(self, *, ttl: timedelta) -> Session:
        """Open a new session. Raises StoreUnavailable, OutcomeUnknown (it then ends by itself at its ttl)."""
        ...

    def read(self, scope: Scope, key: Key) -> Record | None:
        """The record at `key`, linearizable; None when there is none. Raises StoreUnavailable."""
        ...

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        """All records strictly below `prefix` (all of the scope when empty), ordered by key.
        Raises StoreUnavailable."""
        ...

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        """Apply all writes if all guards hold and each write replaces what it names; else nothing.

        Guards are judged in the order given, then the writes' own (`implied_guard`) in theirs; GuardFailed
        names the first that does not hold. A commit without writes judges its guards and changes nothing.
        Raises GuardFailed, SessionEnded (a write is bound to a session that is over), CommitRefused
        (larger than the guarantees), StoreUnavailable: nothing was written. OutcomeUnknown: it may have been.
        ValueError: two writes to one key, or a NoneUnder without the Delete of its key.
        """
        ...

    def watch(self, scope: Scope, *, after: Revision) -> Changes:
        """Watch the scope for commits and ended sessions after revision `after`."""
        ...

    def close(self) -> None:
        """Release connections and threads. Sessions opened here are not renewed any more; they end by their
        ttl, or at once where death is noticed at once."""
        ...


def check_commit(guarantees: Guarantees, guards: Sequence[Guard], writes: Sequence[Write]) -> None:
    """Refuse what no store accepts. Every backend calls this before it sends anything.

    Raises ValueError (malformed) or CommitRefused (too large).
    """

    keys = [write.key for write in writes]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a commit writes each key once, got {keys}")
    deleted = {write.key for write in writes if isinstance(write, Delete)}
    for guard in guards:
        if isinstance(guard, NoneUnder) and guard.key not in deleted:
            raise ValueError(f"{guard} needs a Delete of {guard.key!r} in the same commit")
    if len(guards) + len(writes) > guarantees.max_writes:
        raise CommitRefused(
            f"commit of {len(guards) + len(writes)} guards and writes is over the {guarantees.max_writes} "
            f"of store {guarantees.name!r}",
            fix="split it",
        )
    bound = {write.session for write in writes if isinstance(write, Put) and write.session is not None}
    if guarantees.one_session_a_commit and len(bound) > 1:
        raise CommitRefused(
            f"commit binds records to {len(bound)} sessions, and store {guarantees.name!r} permits one",
            fix="split it",
        )
    for write in writes:
        if isinstance(write, Put) and len(write.value) > guarantees.max_record_bytes:
            raise CommitRefused(
                f"record {write.key!r} of {len(write.value)} bytes is over the "
                f"{guarantees.max_record_bytes} of store {guarantees.name!r}",
                fix="keep the bytes in a blob",
            )
