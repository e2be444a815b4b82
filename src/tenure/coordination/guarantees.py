"""The guarantees that a store declares: the contract's promises, or the weaker promises of this store."""

from __future__ import annotations

from dataclasses import dataclass


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
