"""Settles OutcomeUnknown: commits again under the same guards.

Promise: a commit that this module returns was applied exactly once. Each write names the version that it replaces, so
of two requests for one commit at most one applies. When the second request is refused, the record's content (each value
carries a unique id) proves whether the first applied. Reading alone is no proof: the lost request may still arrive.

`commit_once` is for writes that a member may obey and remove at once, such as requests of operators: sent again, the
write would meet a free place, and apply a second time. So the write is sent once, and then only looked for.

Not promised: an answer when a guard of the caller fails after an unknown outcome (the term is gone). Two threads of one
leader must not write a key at once, or the content proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from tenure.clock import Clock
from tenure.coordination.records import Commit, Delete, Guard, Put, Record, Scope, Write
from tenure.coordination.store import CoordinationStore
from tenure.errors import AccessDenied, GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable
from tenure.retry import RetryPolicy, retry

QUICK = RetryPolicy(initial=timedelta(milliseconds=20), maximum=timedelta(seconds=1))
"""Between the attempts at one commit: the caller waits, so the first delay is small."""

UNAVAILABLE_ATTEMPTS = 20
"""After so many refusals of service in a row (about 15 s) StoreUnavailable is raised: a full disk does not heal by
waiting, and the session may well outlive that. AccessDenied is raised at once."""


def commit_settled(
    store: CoordinationStore,
    scope: Scope,
    *,
    guards: Sequence[Guard],
    writes: Sequence[Write],
    go_on: Callable[[], bool],
    clock: Clock,
) -> Commit:
    """Commit, and go on until the outcome is definite or `go_on()` is false. The commit is sent at least once.

    Raises GuardFailed: refused; if `earlier_request_may_apply`, an earlier attempt may still apply, so everything that
    the commit names is kept. StoreUnavailable, SessionEnded: nothing was written. OutcomeUnknown: the commit may have
    been written, and `go_on()` became false first, or the session of a write ended first.
    """
    unknown: OutcomeUnknown | None = None
    refusals = 0
    delays = QUICK.delays_s()
    while True:
        try:
            return store.commit(scope, guards=guards, writes=writes)
        except GuardFailed as refused:
            if unknown is None:
                raise
            applied = None if refused.guard in guards else _read_back(store, scope, writes, go_on=go_on, clock=clock)
            if applied is not None:
                return applied
            refused.earlier_request_may_apply = True
            raise
        except SessionEnded as ended:
            if unknown is not None:
                raise unknown from ended  # an earlier attempt may have been written while the session lived
            raise
        except OutcomeUnknown as failed:
            unknown, refusals = failed, 0
            if not go_on():
                raise
        except StoreUnavailable as failed:
            refusals += 1
            final = isinstance(failed, AccessDenied) or refusals == UNAVAILABLE_ATTEMPTS
            if not go_on() or (unknown is None and final):
                if unknown is not None:
                    raise unknown from failed
                raise
        clock.sleep(next(delays))


LOOK_S = 2.0
"""How long a write whose reply was lost is looked for: the write may be on its way."""


def commit_once(
    store: CoordinationStore,
    scope: Scope,
    write: Write,
    *,
    before: Record | None,
    guards: Sequence[Guard] = (),
    clock: Clock,
) -> None:
    """Commit one write; it is sent again only while nothing was sent. `before`: the record that the decision read.

    Raises GuardFailed, StoreUnavailable: nothing was written. OutcomeUnknown: the write was applied, or may still be.
    """
    try:
        retry(
            lambda: store.commit(scope, guards=guards, writes=(write,)),
            policy=replace(QUICK, attempts=UNAVAILABLE_ATTEMPTS),
            on=StoreUnavailable,
            unless=AccessDenied,
            clock=clock,
        )
    except OutcomeUnknown:
        if not _shows(store, scope, write, before=before, clock=clock):
            raise


def _shows(store: CoordinationStore, scope: Scope, write: Write, *, before: Record | None, clock: Clock) -> bool:
    """Whether the write shows within `LOOK_S`, by its unique content: a record made anew may have an old version."""
    end_s = clock.monotonic_s() + LOOK_S
    for delay in QUICK.delays_s():
        with suppress(StoreUnavailable):
            record = store.read(scope, write.key)
            value = None if record is None else record.value
            if isinstance(write, Put) and value == write.value:
                return True
            if isinstance(write, Delete) and before is not None and value != before.value:
                return True
        if clock.monotonic_s() >= end_s:
            break
        clock.sleep(delay)
    return False


def _read_back(
    store: CoordinationStore, scope: Scope, writes: Sequence[Write], *, go_on: Callable[[], bool], clock: Clock
) -> Commit | None:
    """The commit as an earlier attempt applied it; None: no attempt did. Sound only after a second attempt was refused
    by a write's own precondition: until then the first may arrive."""

    def look() -> Commit | None:
        versions = {}
        for write in writes:
            record = store.read(scope, write.key)
            if isinstance(write, Put):
                if record is None or record.value != write.value:
                    return None
                versions[write.key] = record.version
            elif record is not None and record.version == write.replaces:
                return None
        return Commit(versions=versions, revision=store.list(scope, "").revision)

    try:
        return retry(look, policy=QUICK, on=StoreUnavailable, go_on=go_on, clock=clock)
    except StoreUnavailable as failed:
        raise OutcomeUnknown(f"commit to scope {scope!r} cannot be settled: {failed}") from failed
