"""The locks in the records of a scope, for operators: who reads what.

Promise: a record is taken for a lock only if it is bound to a session. A lock that does not decode is an error that
names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenure.coordination.encoding import decode
from tenure.coordination.records import Key, Record, Version
from tenure.handles.anchor_rules import locked_by
from tenure.handles.store import BY


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock that stands."""

    key: Key
    version: Version
    handle: Key
    session: str
    by: str
    """The process that reads, for people; empty: a member."""


def locks_in(records: Sequence[Record]) -> list[HeldLock]:
    """The locks among the records of a scope. Raises CorruptRecord."""
    found = []
    for record in records:
        handle = locked_by(record.key)
        if record.session is None or handle is None:
            continue
        fields = decode(record, fields={"session": str}, optional={BY: str})
        found.append(HeldLock(record.key, record.version, handle, fields["session"], fields.get(BY, "")))
    return found
