"""Compares what a pipeline file declares with what the scope has recorded, and records it.

Promise: what an operator has to decide is said before the member contends, and again under each term, before anything
is planned: another member may have recorded something else meanwhile. What is run is recorded first. Of a pipeline that
has ended for good nothing is compared: it is only cleaned up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyspark

from tenure.checkpoints.store import CheckpointStore
from tenure.coordination.term import Term
from tenure.declarations.declaration import Declaration, DeclaredStream
from tenure.declarations.rules import Allowed, Judgement, changed_queries, judge
from tenure.declarations.store import DeclarationStore, Found
from tenure.driver.state_shape import shape_of
from tenure.errors import DeclaredOtherwise, StorageError
from tenure.events import DeclarationChanged, Events, FlagsNotNeeded, TableShared
from tenure.pipelines.pipeline import Stream
from tenure.sinks.sink import Shared


class Declarations(Protocol):
    """What a driver asks before it contends, and before it plans."""

    def check(self, streams: Sequence[Stream]) -> None:
        """Raise DeclaredOtherwise when they may not be run as things are now; StoreUnavailable, CorruptRecord."""
        ...

    def record(self, term: Term, streams: Sequence[Stream]) -> None:
        """Write down that they are run under the term. Raises as `check` does, and TermLost."""
        ...


class RecordedDeclarations:
    """Those of one scope, in its store."""

    def __init__(
        self,
        store: DeclarationStore,
        *,
        scope: str,
        file: str,
        allowed: Allowed,
        checkpoints: Callable[[str], CheckpointStore],
        events: Events,
    ) -> None:
        """`file`: the fingerprint of the pipeline file. `allowed`: what an operator has allowed by flags.
        `checkpoints`: query name -> its store."""
        self._store = store
        self._checkpoints = checkpoints
        self._scope = scope
        self._file = file
        self._allowed = allowed
        self._events = events

    def check(self, streams: Sequence[Stream]) -> None:
        found = self._store.read()
        if found.ended:
            return
        judged = self._judge(found, streams, None)
        if judged.needless.flags():
            self._events.emit(FlagsNotNeeded(self._scope, flags=" ".join(judged.needless.flags())))
        self._tell_of_others([one for one in streams if one.name not in found.checkpointed])

    def record(self, term: Term, streams: Sequence[Stream]) -> None:
        found = self._store.read(term)
        judged = self._judge(found, streams, term)
        if judged.record == found.declaration:
            return
        self._store.write(term, judged.record, replaces=found.record)
        if judged.news:
            self._events.emit(DeclarationChanged(self._scope, epoch=term.epoch, what="; ".join(judged.news)))

    def _judge(self, found: Found, streams: Sequence[Stream], term: Term | None) -> Judgement:
        declared = Declaration(
            self._file, pyspark.__version__, {one.name: DeclaredStream(shape_of(one)) for one in streams}
        )
        asked = sorted(changed_queries(found.declaration) & found.checkpointed)
        newest = {name: self._checkpoints(name).newest(term) for name in asked}
        judged = judge(
            found.declaration,
            declared,
            checkpointed=found.checkpointed,
            allowed=self._allowed,
            newest={name: one.epoch for name, one in newest.items() if one is not None},
            epoch=0 if term is None else term.epoch,  # nothing is written without one
        )
        if judged.refused:
            raise DeclaredOtherwise(
                f"scope {self._scope!r} has run another pipeline: {'; '.join(judged.refused)}",
                fix=f"undo that, or allow it once by {' '.join(judged.wanted.flags())}",
            )
        return judged

    def _tell_of_others(self, streams: Sequence[Stream]) -> None:
        """Say what somebody else has written to where a stream is about to write for the first time."""
        for stream in streams:
            if not isinstance(stream.sink, Shared):
                continue
            try:
                others = stream.sink.other_writers(scope=self._scope, query=stream.name)
            except StorageError:
                continue  # the first batch says it, if it still cannot be read by then
            if others:
                self._events.emit(TableShared(self._scope, query=stream.name, by="; ".join(others)))
