"""Pure: whether the records of a retired scope may go, which, and in which order. No I/O, no clock.

Promise: a scope with a live member, a leader, a result that is not clean, a handle, a record of a user, a checkpoint or
a lock is refused. The records that say who led and how the pipeline ended go last, in one commit, so a removal that
was interrupted leaves a scope that is still known, and still refuses to run again. Where a store may give the version
of a removed record again, `epoch` stays: a leader that wakes up after years finds another version than its own there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.candidates import members_in
from tenure.coordination.election_rules import office_in
from tenure.coordination.identity import IDENTITY
from tenure.coordination.records import Absent, Exact, Guard, Record
from tenure.coordination.term import EPOCH, LEADER
from tenure.errors import CorruptRecord
from tenure.handles.areas import handles_in, records_in
from tenure.handles.store import locks_in
from tenure.results.result import Stage
from tenure.results.store import RESULTS, result_in

_END: Final = "end the pipeline: tenure run PIPELINE.py --until-idle --final"
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class RemovalRefused:
    """Why the records stay, and what to do."""

    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class ScopeRemoval:
    """The records that go. `first`: in any number of commits under `guards`; then `last`: in one commit."""

    first: tuple[Record, ...]
    last: tuple[Record, ...]
    guards: tuple[Guard, ...]
    """Hold while nobody was elected since."""

    @property
    def keys(self) -> list[str]:
        """The keys of all records that go."""
        return [record.key for record in (*self.first, *self.last)]


def removal(
    records: Sequence[Record], *, keeps_epoch: bool, storage_is_empty: bool | None = None
) -> ScopeRemoval | RemovalRefused:
    """What may be removed among the records of a scope. `keeps_epoch`: the store may give a version again.
    `storage_is_empty` None: nobody has looked. Raises CorruptHandle, CorruptRecord."""
    refused = _lives(records) or _is_needed(records) or _storage_is_used(records, storage_is_empty)
    if refused is not None:
        return refused
    known = (EPOCH, IDENTITY, RESULTS)
    last = [record for record in records if record.key in known or record.key.is_under(RESULTS)]
    first = [record for record in records if record not in last]
    epoch = next((record for record in records if record.key == EPOCH), None)
    if keeps_epoch:
        last = [record for record in last if record.key != EPOCH]
    unchanged = Absent(EPOCH) if epoch is None else Exact(EPOCH, epoch.version)
    return ScopeRemoval(tuple(first), tuple(last), (Absent(LEADER), unchanged))


def is_removed(records: Sequence[Record]) -> bool:
    """Whether the records are those that a removal leaves: none, or `epoch` alone. An `epoch` that does not decode is
    damage, and is shown."""
    try:
        office_in(records)
    except CorruptRecord:
        return False
    return all(record.key == EPOCH for record in records)


def _lives(records: Sequence[Record]) -> RemovalRefused | None:
    members = members_in(records)
    if members:
        return RemovalRefused(f"its members live: {_some(members)}", "stop them, and whatever starts them again")
    locks = locks_in(records)
    if locks:
        readers = [lock.by or f"session {lock.session}" for lock in locks]
        return RemovalRefused(f"its handles are locked by {_some(readers)}", "see tenure handles locks")
    bound = [record.key for record in records if record.session is not None]
    if bound:
        return RemovalRefused(f"a process still holds {_some(bound)}", "end that process, or wait for its ttl")
    return None


def _is_needed(records: Sequence[Record]) -> RemovalRefused | None:
    result = result_in(records)
    if result is not None and result.stage is Stage.DIRTY:
        return RemovalRefused("its cleanup is not done", "start a member, which cleans up; see tenure cleanup status")
    for what, found, fix in (
        ("checkpoints", handles_in(records, CHECKPOINTS), _END),
        ("handles", handles_in(records), "remove them in the service that keeps them (tenure.lead)"),
        ("records", records_in(records), "remove them in the service that keeps them (tenure.lead)"),
    ):
        if found:
            return RemovalRefused(f"it still has {what}: {_some([record.key for record in found])}", fix)
    return None


def _storage_is_used(records: Sequence[Record], is_empty: bool | None) -> RemovalRefused | None:
    """A scope that has led without an end may have left marks in its storage, which only its records explain."""
    has_led = any(record.key == EPOCH for record in records)
    if result_in(records) is not None or not has_led or is_empty:
        return None
    if is_empty is None:
        return RemovalRefused(
            "it has no result, and nobody has looked into its storage", f"give --storage, which is looked at; or {_END}"
        )
    return RemovalRefused("it has no result, and its storage has files", f"{_END}; or remove its folder yourself")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
