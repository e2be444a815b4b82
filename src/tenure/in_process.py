"""`with tenure.lead(...) as leadership:` for notebooks and plain Python services: a term without a driver process.

Promise: only the leader enters the block. The store answers each `check` at that moment. Leaving the block gives up
the term. All blocks of a process share one client of their store. Not promised: that the block stops when the term is
lost. Ask `lost` or `check` before each step, and hand `epoch` to targets that can refuse an older epoch. In a forked
child the leadership is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from tenure.assembly import identify, shared_store
from tenure.clock import Clock, SystemClock
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, check_term
from tenure.errors import TermLost
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
        """The scope that this process leads."""
        return str(self._term.scope)

    @property
    def epoch(self) -> int:
        """The number of the term, one more each time: a fencing token for targets that can refuse an older epoch."""
        return self._term.epoch

    @property
    def lost(self) -> bool:
        """Whether the term is known to be over. Asks nobody, so False proves nothing."""
        return self._pid != os.getpid() or self._term.lost

    def check(self) -> None:
        """Ask the store whether the term stands now. Raises TermLost; StoreUnavailable: the store does not answer."""
        if self._pid != os.getpid():
            raise TermLost(scope=self._term.scope, epoch=self._term.epoch)
        check_term(self._store, self._term, clock=self._clock)


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
    """Wait until this process leads `scope`, and lead `scope` for as long as the block lasts.

    `store`, `member` and `ttl` are the flags of `tenure run`; their defaults come from TENURE_* or tenure.toml.
    `timeout` None: wait for ever. Raises TimeoutError, UsageError (also: a live member has that name),
    StoreUnavailable, OutcomeUnknown, SessionEnded (this process was paused while it waited), CorruptRecord,
    OwnerMismatch (the store was emptied, restored or replaced while this process waited). The block was not entered.
    """
    clock = clock or SystemClock()
    settings = load_settings(store=store, member=member, ttl=ttl)
    name = Scope(scope)
    with (
        shared_store(settings, clock=clock) as opened,
        held(opened, name, identify(settings), ttl=settings.ttl, timeout=timeout, clock=clock) as term,
    ):
        yield Leadership(opened, term, clock=clock)
