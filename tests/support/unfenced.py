"""A store whose fence is switched off, from outside.

Promise: every test of a protection that the fence gives must fail on this store. It keeps no promise of the
contract but durability and sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from tenure.coordination.records import (
    Commit,
    Delete,
    Guard,
    Key,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    Version,
    Write,
)
from tenure.coordination.store import Changes, CoordinationStore, Guarantees, Session
from tenure.errors import GuardFailed


class UnfencedStore:
    """Wraps a store and judges less than it is told to.

    `drop_guards`: the guards of a commit are not judged. `blind`: nor is what each write replaces; whatever
    is there is overwritten.
    """

    def __init__(self, store: CoordinationStore, *, drop_guards: bool = True, blind: bool = False) -> None:
        self._store = store
        self._drop_guards = drop_guards
        self._blind = blind

    @property
    def guarantees(self) -> Guarantees:
        return self._store.guarantees

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> Session:
        return self._store.open_session(ttl=ttl, purpose=purpose)

    def end_session(self, testament: str) -> None:
        self._store.end_session(testament)

    def read(self, scope: Scope, key: Key) -> Record | None:
        return self._store.read(scope, key)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self._store.list(scope, prefix)

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self._store.glance(scope, prefix)

    def scopes(self) -> Sequence[Scope]:
        return self._store.scopes()

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        kept = () if self._drop_guards else tuple(guards)
        if not self._blind:
            return self._store.commit(scope, guards=kept, writes=writes)
        while True:
            current = [found for write in writes if (found := self._as_it_is(scope, write)) is not None]
            try:
                return self._store.commit(scope, guards=kept, writes=current)
            except GuardFailed as refused:
                if refused.guard in kept:
                    raise  # a guard that was not to be dropped; else somebody wrote between read and commit

    def _as_it_is(self, scope: Scope, write: Write) -> Write | None:
        record = self._store.read(scope, write.key)
        version: Version | None = None if record is None else record.version
        if isinstance(write, Put):
            return Put(write.key, write.value, version, write.session)
        return None if version is None else Delete(write.key, version)

    def watch(self, scope: Scope, *, after: Revision) -> Changes:
        return self._store.watch(scope, after=after)

    def close(self) -> None:
        self._store.close()
