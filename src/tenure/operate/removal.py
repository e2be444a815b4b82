"""Removes the records of a retired scope. `removal_rules` decides.

Promise: each commit holds only while nobody was elected since the records were read. An interruption at any step leaves
a scope that the same call goes on with. Not promised: that no member starts in that moment. A member that joins before
the last commit is refused; a member that starts after it begins a new pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenure.coordination.records import Delete, Guard, Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed, OutcomeUnknown, UsageError
from tenure.operate.removal_rules import RemovalRefused, ScopeRemoval, removal
from tenure.operate.scopes import known_records

_ROOM = 8
"""So many guards, or more, have their place beside the writes of a commit."""


@dataclass(frozen=True, slots=True)
class Retired:
    """A scope that may go. `storage_is_empty`: looks into its storage; None: no storage is given."""

    store: CoordinationStore
    scope: Scope
    storage_is_empty: Callable[[], bool] | None = None

    def look(self) -> ScopeRemoval:
        """The records that go now. Raises UsageError: no such scope, or it is still needed; StoreUnavailable,
        StorageError, Corrupt."""
        keeps_epoch = not self.store.guarantees.versions_survive_deletion
        records = known_records(self.store, self.scope)
        empty = None if self.storage_is_empty is None else self.storage_is_empty()
        found = removal(records, keeps_epoch=keeps_epoch, storage_is_empty=empty)
        if isinstance(found, RemovalRefused):
            raise UsageError(f"scope {self.scope!r} is not removed: {found.why}", fix=found.fix)
        return found

    def remove(self) -> Sequence[str]:
        """Remove the records; return their keys. Raises what `look` raises; OutcomeUnknown: the scope may be gone."""
        found = self.look()
        most = self.store.guarantees.max_writes - _ROOM
        for start in range(0, len(found.first), most):
            self._commit(found.first[start : start + most], found.guards)
        if found.last:
            now = self.look()  # members that have joined meanwhile
            if now.first:
                raise self._changed()
            self._commit(now.last, now.guards)
        return found.keys

    def _commit(self, records: Sequence[Record], guards: Sequence[Guard]) -> None:
        writes = [Delete(record.key, record.version) for record in records]
        if not writes:
            return
        keys = {write.key for write in writes}
        try:
            self.store.commit(self.scope, guards=[one for one in guards if one.key not in keys], writes=writes)
        except GuardFailed as changed:
            raise self._changed() from changed
        except OutcomeUnknown as unknown:
            what = f"it is not known whether records of scope {self.scope!r} were removed: {unknown.what}"
            raise OutcomeUnknown(what, fix="give the same command again") from unknown

    def _changed(self) -> UsageError:
        return UsageError(f"scope {self.scope!r} changed meanwhile", fix="look with tenure list, and try again")
