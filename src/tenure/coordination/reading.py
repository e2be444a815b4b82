"""Reads that are tried again: a broken connection is no reason to end a term, or to begin a mirror anew.

Promise: StoreUnavailable is raised once the store has refused service until the reader's deadline; AccessDenied is
raised at once. Every read has a deadline, also under a term that goes on being renewed. Not promised: that a record is
still as it was read; only a commit under guards is proof.
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
"""For how long a read without a term or session is tried again."""

LONG = timedelta(seconds=15)
"""For how long a read under a term or a session is tried again: about as long as commits are."""

_LOOK_S = 0.2


def read_again(
    call: Callable[[], T], *, over: Callable[[], bool] = lambda: False, at_most: timedelta = SHORT, clock: Clock
) -> T:
    """The value of the read; StoreUnavailable is tried again until `over()`, and for `at_most`. One try is made in any
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
    """The value of a read that is tried again until the term's deadline, and for `LONG`; without a term for `SHORT`.

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
    """Wait for a change of the scope, at most `timeout`. A watch that breaks counts as a change: the caller lists again
    and learns whether the store is away. Raises AccessDenied."""
    try:
        with store.watch(scope, after=after) as changes:
            changes.wait(timeout=timeout)
    except StoreUnavailable as broken:
        if isinstance(broken, AccessDenied):
            raise
        clock.sleep(_LOOK_S)
