"""The anchor of an area: a record at the area's own key that moves with every removal of a handle.

Promise: each commit presents the anchor as its sender read it, so every request on its way is void once the anchor has
moved. Why: after a removal the name of a handle is free again. A late request to add the handle would restore a pointer
whose blob is gone (I4), or plan a batch twice (I1). With the anchor every outcome is definite while the term lives. The
anchor costs one guard, and a removal one write.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial

from tenure.clock import Clock
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.reading import LONG, read_again, read_under
from tenure.coordination.records import Absent, Exact, Guard, Key, Put, Scope, Version, Write
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.errors import GuardFailed, OutcomeUnknown, StoreUnavailable, TermLost


class Anchor:
    """The commits of one area, each under the anchor. Thread-safe."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, area: Key, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._area = area
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: Guard | None = None  # the anchor as it was last read; None: not read yet; guarded by _lock

    def read(self, term: Term | None = None) -> Guard:
        """The present anchor: a guard that holds until the next removal. Raises like `read_under`."""
        record = read_under(term, lambda: self._store.read(self._scope, self._area), clock=self._clock)
        return self._note(None if record is None else record.version)

    def commit(
        self, term: Term, *, guards: Sequence[Guard], writes: Sequence[Write], moves: bool
    ) -> tuple[Mapping[Key, Version], frozenset[Key]]:
        """Commit under the term and the anchor; return the versions, and the keys that are `alone` (see `Commit`).
        `moves`: the writes remove a handle, so the anchor moves.

        Raises GuardFailed (one of `guards`, or a write's own): definite, no earlier request can apply any more.
        TermLost, StoreUnavailable, CommitRefused like `commit_under`; OutcomeUnknown: the store answers the commits
        and not the reads.
        """
        while True:
            with self._lock:
                seen = self._seen
            seen = seen or self.read(term)
            held = (seen,) if isinstance(seen, Exact) and not moves else ()
            moved = () if held else (self._move(seen),)
            try:
                commit = commit_under(
                    self._store, term, guards=(*guards, *held), writes=(*writes, *moved), clock=self._clock
                )
            except GuardFailed as refused:
                with self._lock:
                    self._seen = None
                if refused.earlier_request_may_apply:
                    self._void(term, seen)
                    applied = self._applied(writes)
                    if applied is not None:
                        return applied, frozenset()
                    refused.earlier_request_may_apply = False
                if refused.guard != seen or refused.guard in guards:
                    raise
            else:
                if moved:
                    self._note(commit.versions[self._area])
                return commit.versions, commit.alone

    def _void(self, term: Term, seen: Guard) -> None:
        """Move the anchor away from `seen`, so that no request that presented `seen` can apply any more."""
        try:
            commit_under(self._store, term, writes=(self._move(seen),), clock=self._clock)
        except GuardFailed:
            return  # the anchor has moved already
        except (TermLost, StoreUnavailable) as failed:
            term.liveness.end("the outcome of a write was never learnt")
            raise TermLost(scope=term.scope, epoch=term.epoch, write_is_unknown=True) from failed

    def _applied(self, writes: Sequence[Write]) -> Mapping[Key, Version] | None:
        """The versions that the writes made; None: they were not applied. Sound once their request is void."""
        versions = {}
        try:
            for write in writes:
                read = partial(self._store.read, self._scope, write.key)
                record = read_again(read, at_most=LONG, clock=self._clock)
                if isinstance(write, Put):
                    if record is None or record.value != write.value:
                        return None
                    versions[write.key] = record.version
                elif record is not None:
                    return None
        except StoreUnavailable as failed:
            raise OutcomeUnknown(f"commit to scope {self._scope!r} cannot be settled: {failed}") from failed
        return versions

    def _move(self, seen: Guard) -> Put:
        replaces = seen.version if isinstance(seen, Exact) else None
        return Put(self._area, encode({"uid": new_uid()}), replaces=replaces)

    def _note(self, version: Version | None) -> Guard:
        seen = Absent(self._area) if version is None else Exact(self._area, version)
        with self._lock:
            self._seen = seen
        return seen
