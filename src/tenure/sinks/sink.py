"""What a sink promises: each batch id of a query at most once, and nothing visible before the plan.

A sink that stages first overlaps staging with the plan's commit and calls `planned()` before its own commit.
It does not ask who leads: a batch is named by (query id, batch id), and the sink takes each once (I3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from tenure.errors import UsageError
from tenure.events import Events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tenure.cleanup.plan import Cleanable

OutputMode = Literal["append", "complete", "update"]


def _only_in_the_driver() -> None:
    """How a copy of a batch asks the store."""
    raise UsageError(
        "batch.check() of a copy of the batch, as executors have it: only the driver can ask the store",
        fix="call it in the sink's function itself, before the rows are evaluated",
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch as a sink sees it. Executors can have a copy of it, which cannot ask the store."""

    scope: str
    """The pipeline's scope."""
    query: str
    """The query's name in its pipeline."""
    query_id: str
    """Spark's id of the query: the same for every member and every takeover, new when a pipeline starts afresh."""
    id: int
    """The batch id, from 0."""
    epoch: int
    """The term under which this attempt runs: goes up with each leader, so an external system can fence by it."""
    check_term: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Asks the store whether the term stands. Raises TermLost, StoreUnavailable."""

    def check(self) -> None:
        """Ask the store, now, whether the term stands: before a function writes something that cannot be fenced. Raises
        TermLost (let it through: it ends the query), StoreUnavailable; UsageError on an executor."""
        self.check_term()

    def __reduce__(self) -> tuple[object, ...]:
        """What is sent to executors."""
        return Batch, (self.scope, self.query, self.query_id, self.id, self.epoch, _only_in_the_driver)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this batch, by whichever leader; never the same for another batch."""
        return f"{self.query_id}/{self.id}"


@dataclass(frozen=True, slots=True)
class Written:
    """The sink has the batch. `repeated`: it had it before this call, which changed nothing that is visible."""

    repeated: bool


class Sink(Protocol):
    """Where the rows of a query go."""

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse a combination that this sink cannot keep right, before anything starts. Raises UsageError."""
        ...

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Write one batch. Called in the order of batch ids, by one thread.

        `planned()` returns once the checkpoint of this batch is committed, and raises TermLost when it was
        refused; nothing may be visible before it returned (I2). `rows` is evaluated exactly once, also when
        the sink has the batch already: a stateful query must move its state on.
        """
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    """What is planned of a query. `batch`: the newest one; -1: none."""

    query_id: str
    batch: int


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts at batches of one query, for whoever looks for what is left of them."""

    scope: str
    query: str
    query_ids: Callable[[], Collection[str]]
    """Spark's ids of the query in all its run directories. Raises StorageError."""
    epoch: int | None = None
    """Those of this epoch and later ones are in the making. None: the pipeline has ended, and every batch that was
    planned is in the sink."""
    planned: Callable[[], Planned] = lambda: Planned("", -1)
    """Reads what is planned, while it goes on. Raises StoreError, StorageError, Corrupt."""


@runtime_checkable
class Stages(Protocol):
    """A sink that puts the output of a batch somewhere before it commits it."""

    def staged(self, attempts: Attempts) -> Cleanable:
        """What attempts have put there and can never be committed any more."""
        ...


@runtime_checkable
class Shared(Protocol):
    """A sink that knows who else has written to where it writes."""

    def other_writers(self, *, scope: str, query: str) -> Sequence[str]:
        """Who, for people, when the query has not written anything yet. Raises StorageError."""
        ...


@runtime_checkable
class Rehearsable(Protocol):
    """A sink that can warm up for `write`. One that cannot has its rows evaluated, and that is all."""

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Evaluate the rows once, as `write` would. What has to be written goes below `directory` (a URL; no such
        folder yet), which is removed afterwards; nothing else changes anywhere."""
        ...


@runtime_checkable
class Calls(Protocol):
    """A sink that calls a function of the user."""

    @property
    def timeout(self) -> timedelta | None:
        """For how long one call may last, until the driver is taken for hung; None: for ever."""
        ...

    def call(self, query: str) -> str | None:
        """Which call goes on for a query, another one for each; None: none."""
        ...
