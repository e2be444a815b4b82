"""The declaration of one scope: a permanent record, written by its leader before the first plan of a term.

Promise: the record is written only under a term, and replaces the record that was read under the same term. A reader
under a later term reads the declaration of the last leader that planned anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.store import newest_in
from tenure.clock import Clock
from tenure.coordination.encoding import new_uid
from tenure.coordination.reading import read_under
from tenure.coordination.records import Key, Put, Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.declarations.declaration import Declaration, decode_declaration, encode_declaration
from tenure.results.store import RESULTS

DECLARED: Final = Key("declared")
"""The record."""


@dataclass(frozen=True, slots=True)
class Found:
    """The declaration and the checkpoints of a scope."""

    record: Record | None
    """None: no leader has declared anything yet."""
    declaration: Declaration | None
    """The content of the record."""
    handles: Mapping[str, Record]
    """Query -> the handle of its newest checkpoint."""
    ended: bool
    """The pipeline has ended for good, and never runs again."""

    @property
    def checkpointed(self) -> frozenset[str]:
        """The queries that have a checkpoint."""
        return frozenset(self.handles)


class DeclarationStore:
    """The declaration of `scope`."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._clock = clock

    def read(self, term: Term | None = None) -> Found:
        """Read the scope, under `term` if there is one. Raises CorruptRecord, StoreUnavailable, TermLost."""
        records = read_under(term, lambda: self._store.list(self._scope, ""), clock=self._clock).records
        record = next((one for one in records if one.key == DECLARED), None)
        return Found(
            record=record,
            declaration=None if record is None else decode_declaration(record),
            handles=newest_in(records),
            ended=any(one.key.is_under(RESULTS) for one in records),
        )

    def write(self, term: Term, declaration: Declaration, *, replaces: Record | None) -> None:
        """Record what the term's holder runs. Raises TermLost, StoreUnavailable, GuardFailed (the record changed)."""
        value = encode_declaration(declaration, epoch=term.epoch, member=term.holder, uid=new_uid())
        put = Put(DECLARED, value, replaces=None if replaces is None else replaces.version)
        commit_under(self._store, term, writes=(put,), clock=self._clock)
