"""One scope in one store and one storage: the facts that its parts share, and the parts made from them.

Promise: a context decides nothing. Only `epoch` and `left_out` do I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from tenure.checkpoints.left_out import QUARANTINED, LeftOut, decode_left_out
from tenure.checkpoints.store import CHECKPOINTS, KEPT, CheckpointStore
from tenure.clock import Clock
from tenure.coordination.election import newest_epoch
from tenure.coordination.reading import read_again
from tenure.coordination.records import Key, Scope
from tenure.coordination.store import CoordinationStore
from tenure.declarations.store import DeclarationStore
from tenure.event import Events
from tenure.handles.pins import Pins
from tenure.handles.store import INLINE_LIMIT, MOST_INLINE, HandleStore
from tenure.ownership.owner import Owner
from tenure.results.store import RESULTS, ResultStore
from tenure.retry import RetryPolicy, exponential_delay
from tenure.storage.blobs import FileBlobs
from tenure.storage.reach import reach
from tenure.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class ScopeContext:
    """A scope, its store and its part of the storage."""

    store: CoordinationStore
    scope: Scope
    storage: str
    """URL of the scope's part of the storage, without a final `/`. Run directories are recorded relative to this URL,
    so you can mount the storage elsewhere."""
    clock: Clock
    events: Events = Events.nobody
    checkpoints_kept: int = KEPT
    inline_limit: int = INLINE_LIMIT
    """Payloads up to this many bytes stay in their records."""
    ttl: timedelta = timedelta(seconds=10)
    """After how long without a renewal another member leads."""
    cleanup: RetryPolicy = field(default_factory=exponential_delay)
    """When a cleanup tries again."""

    def handles(self, area: Key) -> HandleStore:
        """The handles of an area, with blobs in the storage."""
        return self._handles(area, inline_limit=self.inline_limit)

    def checkpoint_handles(self, query: str) -> HandleStore:
        """The handles of the checkpoints of a query."""
        return self.handles(CHECKPOINTS.child(query))

    def checkpoints(self, query: str) -> CheckpointStore:
        """The checkpoints of a query."""
        return CheckpointStore(self.checkpoint_handles(query), query=query, keep=self.checkpoints_kept)

    def pins(self, query: str) -> Pins:
        """The pins of operators on the checkpoints of a query."""
        return Pins(self.store, self.scope, area=CHECKPOINTS.child(query), clock=self.clock)

    def results(self) -> ResultStore:
        """The results of the pipeline. They are inline, so they have no blobs."""
        return ResultStore(self._handles(RESULTS, inline_limit=MOST_INLINE))

    def declarations(self) -> DeclarationStore:
        """The declarations of the last leader."""
        return DeclarationStore(self.store, self.scope, clock=self.clock)

    def owner(self) -> Owner:
        """The owner of the scope's part of the storage."""
        return Owner(self.store, self.scope, storage=self.storage, clock=self.clock)

    def folders(self) -> Storage:
        """The folders of the scope's part of the storage."""
        return reach(self.storage)

    def epoch(self) -> int:
        """The newest epoch, at a glance; 0: there is none. Raises StoreUnavailable, CorruptRecord."""
        return newest_epoch(self.store, self.scope, clock=self.clock)

    def left_out(self, query: str) -> LeftOut | None:
        """The files that an operator has taken out of a batch of a query; None: none. It does not change within a term.
        Raises StoreUnavailable, CorruptRecord."""
        key = QUARANTINED.child(query)
        record = read_again(lambda: self.store.read(self.scope, key), clock=self.clock)
        return None if record is None else decode_left_out(record)

    def _handles(self, area: Key, *, inline_limit: int) -> HandleStore:
        return HandleStore(
            self.store,
            self.scope,
            area=area,
            blobs=FileBlobs(f"{self.storage}/blobs"),
            clock=self.clock,
            events=self.events,
            inline_limit=inline_limit,
        )
