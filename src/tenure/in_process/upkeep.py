"""The storage of a leadership in a process of one's own: it is owned at the grant, compared before writes, and swept.

Promise (I10): nothing is written, and nothing is swept, where the storage is not that of the scope. The owners are
compared at the grant and before each sweep; the marks once a ttl before a write, so an idle leader asks nobody. Orphans
of earlier leaders are swept beside the block, and once more at its end, so a service that leads for moments only is
swept, too. Not promised: that the last sweep ends; the next leader goes on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from tenure.coordination.election import after
from tenure.coordination.term import Term
from tenure.errors import OwnerMismatch, TenureError, UsageError
from tenure.housekeeping import scope_sweeper
from tenure.scope_context import ScopeContext

_LAST: Final = timedelta(seconds=2)
"""How long the last sweep begins removals."""


@contextmanager
def kept_up(context: ScopeContext, term: Term) -> Iterator[None]:
    """Own the storage under the term, and sweep it as long as the block lasts.

    Raises UsageError (the pipeline of this scope has ended), OwnerMismatch, TermLost, StoreUnavailable, StorageError,
    Corrupt: the block was not entered. At the end of the block OwnerMismatch: another store has the storage now.
    """
    _refuse_ended(context, term)
    owner = context.owner()
    owner.own(term)

    def look() -> None:
        owner.check()

    sweeper = scope_sweeper(context, term, more={}, look_first=look)
    pid = os.getpid()
    sweeper.start(ready=lambda: True)
    try:
        yield
    finally:
        sweeper.stop()
    if pid == os.getpid():  # a forked child has no part in the leadership
        sweeper.last(stop=after(_LAST, clock=context.clock))


def _refuse_ended(context: ScopeContext, term: Term) -> None:
    """A cleanup removes all handles of a pipeline that has ended, at any time."""
    result = context.results().read(term)
    if result is not None:
        raise UsageError(
            f"the pipeline of scope {context.scope!r} has {result.ending.value} for good",
            fix="use another scope; tenure result forget lets this scope begin anew",
        )


class MarksWatch:
    """Compares the marks of the storage with the store, at most once a ttl. Thread-safe."""

    def __init__(self, context: ScopeContext) -> None:
        self._owner = context.owner()
        self._every_s = context.ttl.total_seconds()
        self._clock = context.clock
        self._lock = threading.Lock()  # guards _next_s
        self._next_s = context.clock.monotonic_s() + self._every_s

    def check(self) -> None:
        """Raises OwnerMismatch, at each further call, too: another store has the storage now."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if now_s < self._next_s:
                return
        try:
            self._owner.check_marks()
        except OwnerMismatch:
            raise
        except TenureError:
            pass  # the write that follows notices a store or a storage that is away
        with self._lock:
            self._next_s = now_s + self._every_s
