"""`with tenure.lead(...) as leadership:` for notebooks and plain Python services: a term without a driver of ours.

Promise: the block is entered only by the leader, and what it asks by `check` is answered by the store at that moment.
The term is given up when the block is left, whatever ends it. Not promised: that the block stops when the term is
lost; ask `lost` or `check` before each step, and hand `epoch` to what can refuse an older one. A forked child has no
part in it: there the leadership is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from tenure.assembly import identify, scope_store
from tenure.clock import Clock, SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.errors import GuardFailed, StoreError, TermLost, UsageError
from tenure.settings import load_settings


class Leadership:
    """A term that this process holds."""

    def __init__(self, store: CoordinationStore, term: Term, *, clock: Clock) -> None:
        self._store = store
        self._term = term
        self._clock = clock
        self._pid = os.getpid()

    @property
    def scope(self) -> str:
        """What is led."""
        return str(self._term.scope)

    @property
    def epoch(self) -> int:
        """The number of the term, one more each time: a fencing token for what can refuse an older one."""
        return self._term.epoch

    @property
    def lost(self) -> bool:
        """Whether the term is known to be over. False proves nothing; it costs nothing either."""
        return self._pid != os.getpid() or self._term.lost

    def check(self) -> None:
        """Ask the store whether the term stands now. Raises TermLost; StoreUnavailable while it cannot be known."""
        if self._pid != os.getpid():
            raise TermLost(scope=self._term.scope, epoch=self._term.epoch)
        commit_under(self._store, self._term, writes=(), clock=self._clock)


class _Until:
    """Set at a deadline."""

    def __init__(self, clock: Clock, timeout: timedelta | None) -> None:
        self._clock = clock
        self._end_s = None if timeout is None else clock.monotonic_s() + timeout.total_seconds()

    def is_set(self) -> bool:
        return self._end_s is not None and self._clock.monotonic_s() >= self._end_s


@contextmanager
def lead(
    scope: str,
    *,
    store: str | None = None,
    member: str | None = None,
    ttl: str | None = None,
    timeout: timedelta | None = None,
    clock: Clock | None = None,
) -> Iterator[Leadership]:
    """Wait until this process leads `scope`, and lead it for as long as the block lasts.

    `store`, `member` and `ttl` as the flags of `tenure run`; what is left out comes from TENURE_* or tenure.toml.
    `timeout` None: wait for ever. Raises TimeoutError, UsageError (also: a live member has that name),
    StoreUnavailable, SessionEnded (this process was paused while it waited).
    """
    clock = clock or SystemClock()
    settings = load_settings(store=store, member=member, ttl=ttl)
    name = Scope(scope)
    identity = identify(settings)
    opened = scope_store(settings, clock=clock)
    try:
        election = Election(opened, name, member=identity.member, clock=clock)
        with SessionKeeper(opened, ttl=settings.ttl, clock=clock) as keeper:
            try:
                election.join(keeper, host=identity.host, pid=identity.pid, priority=identity.priority)
            except GuardFailed as taken:
                raise UsageError(
                    f"a live member of scope {scope!r} is named {identity.member!r}",
                    fix="give this one another member=",
                ) from taken
            term = election.campaign(keeper, stop=_Until(clock, timeout))
            if term is None:
                raise TimeoutError(f"somebody else leads scope {scope!r}")
            with election.attending(term):
                try:
                    yield Leadership(opened, term, clock=clock)
                finally:
                    with suppress(TermLost, StoreError):  # it is over already, or ends with the session
                        election.resign(term, why="resigned")
    finally:
        opened.close()
