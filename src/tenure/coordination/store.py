"""The contract that every coordination store keeps, and that everything else is built on.

Promise of a store: a commit is all or nothing, and returns or raises one error that states the outcome. No
write is unguarded, but that of a session to its own record (`Session.amend`). A store knows nothing of leaders,
checkpoints or pipelines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, Self

from tenure.coordination.records import (
    Commit,
    Guard,
    Key,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Write,
)
from tenure.errors import CommitRefused


@dataclass(frozen=True, slots=True)
class Guarantees:
    """Declared by a store, proved by `tests/kit/conformance`."""

    name: str
    """For messages: `sqlite`, `zookeeper`, ..."""
    max_record_bytes: int
    """The largest value of one record."""
    max_writes: int
    """The most guards and writes together of one commit."""
    survives_restart: bool
    """Whether records outlive the process of the store."""
    list_is_one_instant: bool = True
    """Whether a listing shows the scope as it was at one instant."""
    scopes_have_records: bool = True
    """Whether the store names as its scopes only those that have a record; if not, also scopes whose last record is
    gone."""
    versions_survive_deletion: bool = True
    """Whether the version of a deleted record never names a later state of the same key."""
    revision_is_the_scopes_own: bool = True
    """Whether a scope's revision grows only when the scope changes; if not, it may grow by what others do."""
    one_session_a_commit: bool = False
    """Whether all session-bound records of a commit must be bound to one session, which this very client opened."""
    amended_at_one_instant: bool = True
    """Whether a listing shows an amended value as of the instant of its other records, and a commit after the amendment
    finds it; if not, the amended value may show a little later."""
    death_noticed_at_once: bool = False
    """Whether the death of a session's process ends the session without waiting for its ttl."""


class Session(Protocol):
    """A lease on liveness. Records bound to it vanish when it ends; once ended it never comes back."""

    id: SessionId
    ttl: timedelta
    testament: str
    """What `CoordinationStore.end_session` needs to end the session. It is secret: who has it can end the session."""

    def renew(self) -> None:
        """Prove that the session lives now, and keep it for another ttl from the moment the request left.

        Raises SessionEnded (final), StoreUnavailable or OutcomeUnknown (try again before the deadline).
        """
        ...

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        """Replace the value of a record that is bound to this session, outside of guards. Only the session's owner
        amends, so the last call wins. Other clients see the new value (`Guarantees.amended_at_one_instant`), and
        watches wake. The version of the record may change or stay: from then on the record is guarded by `Absent`
        alone, no commit replaces it, and it goes with its session.

        Raises SessionEnded: the record is gone, or is not bound to this session; nothing was written. CommitRefused
        (larger than the guarantees), StoreUnavailable: nothing was written. OutcomeUnknown: safe to repeat.
        """
        ...

    def close(self) -> None:
        """End the session; its records are gone when this returns. Closing an ended session is fine.

        Raises StoreUnavailable or OutcomeUnknown: then the session ends at its ttl.
        """
        ...


class Changes(Protocol):
    """A watch on one scope: reports that the scope changed, and no more. The reader lists again."""

    def wait(self, *, timeout: timedelta) -> Revision | None:
        """Return the scope's revision once it is past `after` and the last returned revision; None at the timeout.

        May return early for a change that the reader knows already. Raises StoreUnavailable.
        """
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class CoordinationStore(Protocol):
    """A coordination store. Thread-safe. A constructor does no I/O."""

    @property
    def guarantees(self) -> Guarantees: ...

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> Session:
        """Open a new session. `purpose`: for people who look at the store with its own tools, where it has a place for
        a text. Raises StoreUnavailable, OutcomeUnknown (the session then ends at its ttl)."""
        ...

    def end_session(self, testament: str) -> None:
        """End the session of another process, which is dead, by its `Session.testament`. A session that has ended is
        fine. No other session is touched.

        Raises StoreUnavailable or OutcomeUnknown: safe to repeat; else the session ends at its ttl.
        """
        ...

    def read(self, scope: Scope, key: Key) -> Record | None:
        """The record at `key`, linearizable; None when there is none. Raises StoreUnavailable."""
        ...

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        """All records strictly below `prefix` (empty: all of the scope), ordered by key. Raises StoreUnavailable."""
        ...

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        """The records as this client last heard of them; never older than a commit, a listing, a glance or the
        change of a watch that this client has already seen. The scope is followed from the first glance on: a glance is
        no request, unless the line broke, or this client has seen something newer. Raises StoreUnavailable."""
        ...

    def scopes(self) -> Sequence[Scope]:
        """The scopes that have a record, ordered by name; where `Guarantees.scopes_have_records` is false, also scopes
        whose last record is gone. A scope that comes or goes meanwhile may be there or not. Raises StoreUnavailable;
        AccessDenied: this user may not list them."""
        ...

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        """Apply all writes if all guards hold and each write replaces the version that it names; else nothing.

        Guards are judged in their order, then the writes' own (`implied_guard`) in theirs; GuardFailed names the first
        that does not hold. A commit without writes judges its guards and changes nothing.
        Raises GuardFailed, SessionEnded (a write is bound to a session that is over), CommitRefused (larger than the
        guarantees), StoreUnavailable: nothing was written. OutcomeUnknown: the commit may have been written.
        ValueError: two writes to one key.
        """
        ...

    def watch(self, scope: Scope, *, after: Revision) -> Changes:
        """Watch the scope for commits, amendments and ended sessions after revision `after`."""
        ...

    def close(self) -> None:
        """Release connections and threads. Sessions end by their ttl, or at once where death is noticed at once."""
        ...


def check_commit(guarantees: Guarantees, guards: Sequence[Guard], writes: Sequence[Write]) -> None:
    """Refuse what the contract forbids. Every backend calls this before it sends a commit. Raises ValueError
    (malformed), CommitRefused (too large)."""
    keys = [write.key for write in writes]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a commit writes each key once, got {keys}")
    store, count = f"store {guarantees.name!r}", len(guards) + len(writes)
    if count > guarantees.max_writes:
        raise CommitRefused(
            f"commit of {count} guards and writes is over the {guarantees.max_writes} of {store}", fix="split it"
        )
    puts = [write for write in writes if isinstance(write, Put)]
    bound = {put.session for put in puts if put.session is not None}
    if guarantees.one_session_a_commit and len(bound) > 1:
        raise CommitRefused(f"commit binds records to {len(bound)} sessions, and {store} permits one", fix="split it")
    for put in puts:
        if len(put.value) > guarantees.max_record_bytes:
            raise CommitRefused(
                f"record {put.key!r} of {len(put.value)} bytes is over the {guarantees.max_record_bytes} of {store}",
                fix="keep the bytes in a blob",
            )
