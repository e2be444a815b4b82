"""A term for as long as a block lasts: for services, notebooks, and verbs that write under a term.

Promise: the block is entered under a term, and leaving the block gives up the term. Not promised: that the block stops
when the term is lost: its writes are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from tenure.clock import Clock
from tenure.coordination.candidates import Identity
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import GuardFailed, StoreError, TermLost, UsageError


@contextmanager
def held(
    store: CoordinationStore, scope: Scope, who: Identity, *, ttl: timedelta, timeout: timedelta | None, clock: Clock
) -> Iterator[Term]:
    """Contend as `who`, and hold the term. `timeout` None: wait for ever.

    Raises TimeoutError (another member leads), UsageError (a live member has that name), StoreUnavailable,
    OutcomeUnknown, SessionEnded (this process was paused while it waited), OwnerMismatch (the store was emptied,
    restored or replaced while this process waited).
    """
    election = Election(store, scope, member=who.member, clock=clock)
    with SessionKeeper(store, ttl=ttl, clock=clock) as keeper:
        try:
            election.join(keeper, host=who.host, pid=who.pid, priority=who.priority)
        except GuardFailed as taken:
            raise UsageError(
                f"a live member of scope {scope!r} is named {who.member!r}", fix="give this one another member="
            ) from taken
        term = election.campaign(keeper, stop=_Until(clock, timeout))
        if term is None:
            raise TimeoutError(f"somebody else leads scope {scope!r}")
        with election.attending(term):
            try:
                yield term
            finally:
                with suppress(TermLost, StoreError):  # the term is over already, or ends with the session
                    election.resign(term, why="resigned")


class _Until:
    """Set at a deadline."""

    def __init__(self, clock: Clock, timeout: timedelta | None) -> None:
        self._clock = clock
        self._end_s = None if timeout is None else clock.monotonic_s() + timeout.total_seconds()

    def is_set(self) -> bool:
        return self._end_s is not None and self._clock.monotonic_s() >= self._end_s
