"""Reads that are tried again: a connection that broke is no reason to end a term, or to begin a mirror anew.

Promise: StoreUnavailable comes out when the store has refused service until the deadline that the reader has, and of a
denial at once. Nobody waits without end, also not under a term that goes on being renewed. Not promised: that what was
read is still so; only a commit under guards is proof.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.coordination.settle import QUICK
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import AccessDenied, StoreUnavailable, TermLost
from tenure.retry import retry

T = TypeVar("T")

SHORT = timedelta(seconds=5)
"""For how long a read without any deadline of its own is tried again."""

LONG = timedelta(seconds=15)
"""The same under a term or a session, which may well outlive it: about as long as commits are tried again."""

_LOOK_S = 0.2


def read_again(
    call: Callable[[], T], *, over: Callable[[], bool] = lambda: False, at_most: timedelta = SHORT, clock: Clock
) -> T:
    """What the read returns; StoreUnavailable is tried again until `over()`, and for `at_most`. One try is made in any
    case. Raises the last StoreUnavailable; AccessDenied at once."""
    end_s = clock.monotonic_s() + at_most.total_seconds()
    return retry(
        call,
        policy=QUICK,
        on=StoreUnavailable,
        unless=AccessDenied,
        go_on=lambda: clock.monotonic_s() < end_s and not over(),
        clock=clock,
    )


def read_under(term: Term | None, call: Callable[[], T], *, clock: Clock) -> T:
    """What the read returns; it is tried again until the term's deadline, and for `LONG`; without a term for `SHORT`.

    Raises StoreUnavailable while the term lives, or without one; TermLost.
    """
    if term is None:
        return read_again(call, clock=clock)
    try:
        return read_again(call, over=lambda: term.lost, at_most=LONG, clock=clock)
    except StoreUnavailable as failed:
        if not term.lost:
            raise
        raise TermLost(scope=term.scope, epoch=term.epoch) from failed


def wait_for_change(
    store: CoordinationStore, scope: Scope, *, after: Revision, timeout: timedelta, clock: Clock
) -> None:
    """Wait for a change of the scope, at most so long. A watch that breaks is a change like any other: who lists again
    learns whether the store is away. Raises AccessDenied."""
    try:
        with store.watch(scope, after=after) as changes:
            changes.wait(timeout=timeout)
    except AccessDenied:
        raise
    except StoreUnavailable:
        clock.sleep(_LOOK_S)
