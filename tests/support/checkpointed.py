"""A scope with three kept checkpoints of a query, in run directories made by hand, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import FILES, RATE
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.scope_context import ScopeContext
from tests.unit.rundirs.made_by_hand import NEWEST, a_run_directory, offsets_of

SCOPE: Final = Scope("rows")
CLOCK: Final = SystemClock()
QUERY: Final = "copy"
KINDS: Final = {"0": FILES, "1": RATE}
RUN: Final = "runs/copy/e00000001-anna-0123456789ab"
KEPT: Final = [NEWEST - 2, NEWEST - 1, NEWEST]
"""The kept batches; all are done."""


class Checkpointed:
    """The scope `rows` in a store, and its part of a storage."""

    def __init__(self, store: CoordinationStore, storage: Path) -> None:
        self.store = store
        self.context = ScopeContext(store, SCOPE, f"file://{storage}/{SCOPE}", CLOCK)
        self.run = storage / SCOPE / RUN
        a_run_directory(f"file://{self.run}")
        with self.led() as term:
            self.context.checkpoints(QUERY).adopt(term, self.checkpoint(KEPT[0], term))
            for batch in KEPT[1:]:
                self.plan(term, batch)

    @contextmanager
    def led(self, member: str = "anna") -> Iterator[Term]:
        who = Identity(member, "here", 7)
        with held(self.store, SCOPE, who, ttl=timedelta(seconds=60), timeout=None, clock=CLOCK) as term:
            yield term

    def checkpoint(self, batch: int, term: Term, *, run: str = RUN) -> Checkpoint:
        return Checkpoint(QUERY, "the-query", batch, offsets_of(batch), run, term.epoch, "monday", kinds=KINDS)

    def plan(self, term: Term, batch: int) -> None:
        """Plan the next batch, as a leader does; what falls out of retention goes."""
        self.context.checkpoints(QUERY).plan(term, self.checkpoint(batch, term))

    @property
    def batches(self) -> list[int]:
        """The batches with a checkpoint."""
        return [one.batch for one in self.context.checkpoints(QUERY).list()]
