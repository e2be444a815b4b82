"""The anchor of an area: a record at the area's own key that moves with every removal and every lock of a handle.

Promise: each commit presents the anchor as its sender saw it, so every request on its way is void once the anchor has
moved. Why: after a removal the name of a handle is free again. A late request to add the handle would restore a pointer
whose blob is gone (I4), or plan a batch twice (I1). And a lock that a removal does not know of has moved the anchor, so
the removal is refused, and looks again (`anchor_rules`). With the anchor every outcome is definite while the term
lives. The anchor costs one guard, a removal or a lock one write, and a removal after a lock one listing.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from tenure.clock import Clock
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.reading import LONG, read_again, read_under
from tenure.coordination.records import Delete, Exact, Guard, Key, Put, Record, Scope, Version, Write
from tenure.coordination.settle import commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.errors import GuardFailed, HandleLocked, OutcomeUnknown, StoreUnavailable, TermLost
from tenure.handles.anchor_rules import (
    Sight,
    anchor_of,
    is_pinned,
    listed,
    lock_request,
    may_be_locked,
    move,
    moved,
    presented,
    unpin_request,
)
from tenure.retry import RetryPolicy

AGAIN: Final = RetryPolicy(
    initial=timedelta(milliseconds=5), maximum=timedelta(milliseconds=500), attempts=30, jitter=1.0
)
"""Between the attempts of a writer, or of a reader who locks, while others move the anchor: at most about 8 s."""

_LOCK_S: Final = 2.0
"""How long a lock is tried while its outcome is unknown: a lock has no term, and so no deadline."""


class Anchor:
    """The commits of one area, each under the anchor. Thread-safe."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, area: Key, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._area = area
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: Sight | None = None  # as it was last read or moved; None: not read yet; guarded by _lock

    @property
    def seen(self) -> Sight | None:
        """The anchor as it was last read or moved; None: not read yet, or known to have moved."""
        with self._lock:
            return self._seen

    def read(self, term: Term | None = None) -> Sight:
        """The present anchor: it holds until the next removal or lock. Raises like `read_under`."""
        record = read_under(term, lambda: self._store.read(self._scope, self._area), clock=self._clock)
        sight = anchor_of(self._area, record)
        with self._lock:
            if self._seen is None or self._seen.anchor != sight.anchor:
                self._seen = sight
            return self._seen

    def note_listing(self, before: Sight | None, records: Iterable[Record]) -> None:
        """Note the locks in a listing of the area; `before`: the anchor that was seen before the listing began."""
        if before is not None:
            with self._lock:
                if self._seen is not None and self._seen.anchor == before.anchor:
                    self._seen = listed(before, records)

    def commit(
        self, term: Term, *, guards: Sequence[Guard], writes: Sequence[Write], removes: Collection[Key] = ()
    ) -> tuple[Mapping[Key, Version], Sight]:
        """Commit under the term and the anchor; return the versions, and the anchor that held: the locks at the commit
        are among its locks. `removes`: the handles that the writes remove; the anchor moves.

        Raises HandleLocked (one of `removes`), GuardFailed (one of `guards`, or a write's own): definite, no earlier
        request can apply any more. TermLost, StoreUnavailable, CommitRefused like `commit_under`; OutcomeUnknown: the
        store answers the commits and not the reads.
        """
        delays = AGAIN.delays_s()
        while True:
            sight = self.seen or self.read(term)
            if may_be_locked(sight, removes):
                known = sight.locked is not None  # by a lock, which has moved the anchor perhaps
                sight = self.read(term) if known else sight
                _check_pins(sight, removes)
                sight = self._listed(term, sight)
                _check_pins(sight, removes)
                for key in removes:
                    if may_be_locked(sight, {key}):
                        raise HandleLocked(key)
            held, moves = presented(sight, self._area, _value(), moves=bool(removes))
            try:
                commit = commit_under(
                    self._store, term, guards=(*guards, *held), writes=(*writes, *moves), clock=self._clock
                )
            except GuardFailed as refused:
                self._forget(sight)
                if refused.earlier_request_may_apply:
                    self._void(term, sight)
                    applied = self._applied(writes)
                    if applied is not None:
                        return applied, replace(sight, locked=None)
                    refused.earlier_request_may_apply = False
                if refused.guard != sight.anchor or refused.guard in guards:
                    raise
                self._pause(next(delays, None), refused)
            else:
                if moves:
                    with self._lock:
                        self._seen = moved(sight, self._area, commit.versions[self._area])
                return commit.versions, sight

    def lock(self, sight: Sight, *, handle: Exact, lock: Put) -> Version | None:
        """Commit a lock while the handle stands as it was read, after `sight` was read; return the lock's version.
        None: the handle or the anchor has moved since, and no earlier request can apply any more.

        Raises SessionEnded, StoreUnavailable: nothing was written. OutcomeUnknown: a lock that was made goes with its
        session.
        """
        guards, writes = lock_request(sight, self._area, _value(), handle=handle, lock=lock)
        try:
            versions = self.settled(guards, writes)
        except GuardFailed as refused:
            return self._version_of(lock) if refused.earlier_request_may_apply else None
        finally:
            self._forget(sight)
        return versions[lock.key]

    def unpin(self, sight: Sight, pin: Delete) -> bool:
        """Commit the end of a pin, after `sight` was read. False: the pin or the anchor has moved since. Raises
        StoreUnavailable: nothing was written; OutcomeUnknown."""
        guards, writes = unpin_request(sight, self._area, _value(), pin=pin)
        try:
            self.settled(guards, writes)
        except GuardFailed:
            return False
        finally:
            self._forget(sight)
        return True

    def settled(self, guards: Sequence[Guard], writes: Sequence[Write]) -> Mapping[Key, Version]:
        """Commit without a term: what belongs to a session. Raises like `commit_settled`."""
        end_s = self._clock.monotonic_s() + _LOCK_S
        return commit_settled(
            self._store,
            self._scope,
            guards=guards,
            writes=writes,
            go_on=lambda: self._clock.monotonic_s() < end_s,
            clock=self._clock,
        ).versions

    def _listed(self, term: Term, sight: Sight) -> Sight:
        """The sight with the locks of now: the anchor was seen before the listing begins."""
        found = read_under(term, lambda: self._store.list(self._scope, self._area), clock=self._clock)
        self.note_listing(sight, found.records)
        return listed(sight, found.records)

    def _void(self, term: Term, sight: Sight) -> None:
        """Move the anchor away from `sight`, so that no request that presented it can apply any more."""
        try:
            commit_under(self._store, term, writes=(move(sight, self._area, _value()),), clock=self._clock)
        except GuardFailed:
            return  # the anchor has moved already
        except (TermLost, StoreUnavailable) as failed:
            term.liveness.end("the outcome of a write was never learnt")
            raise TermLost(scope=term.scope, epoch=term.epoch, write_is_unknown=True) from failed

    def _applied(self, writes: Sequence[Write]) -> Mapping[Key, Version] | None:
        """The versions that the writes made; None: they were not applied. Sound once their request is void."""
        versions = {}
        for write in writes:
            record = self._read_settled(write.key)
            if isinstance(write, Put):
                if record is None or record.value != write.value:
                    return None
                versions[write.key] = record.version
            elif record is not None:
                return None
        return versions

    def _version_of(self, lock: Put) -> Version | None:
        record = self._read_settled(lock.key)
        return None if record is None else record.version

    def _read_settled(self, key: Key) -> Record | None:
        try:
            return read_again(partial(self._store.read, self._scope, key), at_most=LONG, clock=self._clock)
        except StoreUnavailable as failed:
            raise OutcomeUnknown(f"commit to scope {self._scope!r} cannot be settled: {failed}") from failed

    def _pause(self, delay_s: float | None, refused: GuardFailed) -> None:
        if delay_s is None:
            raise moves_too_fast(self._area) from refused
        self._clock.sleep(delay_s)

    def _forget(self, sight: Sight) -> None:
        with self._lock:
            if self._seen is not None and self._seen.anchor == sight.anchor:
                self._seen = None


def _check_pins(sight: Sight, removes: Collection[Key]) -> None:
    """Raises HandleLocked: a handle of `removes` is pinned for as long as the anchor of the sight stands."""
    for key in removes:
        if is_pinned(sight, {key}):
            raise HandleLocked(key, pinned=True)


def moves_too_fast(area: Key) -> StoreUnavailable:
    """The error after the last attempt; nothing was written."""
    return StoreUnavailable(f"handles of area {area!r} are locked or removed faster than this can be", fix="try again")


def _value() -> bytes:
    return encode({"uid": new_uid()})
