"""The contract of a sink.

Promise: a sink takes each batch, which is named by (query id, batch id), at most once (I3), and shows nothing before
the plan (I2). A sink that stages first overlaps staging with the plan's commit, and calls `planned()` before its own
commit. A sink does not ask for the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from tenure.errors import UsageError
from tenure.event import Events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tenure.cleanup.plan import Cleanable

OutputMode = Literal["append", "complete", "update"]


def _only_in_the_driver() -> None:
    """`check_term` of a copy of a batch."""
    raise UsageError(
        "batch.check() was called on an executor's copy of the batch: only the driver can ask the store",
        fix="call it in the sink's function itself, before the rows are evaluated",
    )


@dataclass(frozen=True, eq=False)
class Batch(int):
    """One micro-batch, and the number of it: a function that Spark's own foreachBatch called with the batch id works as
    it is (`batch % 2`, `f"{batch}"`, `F.lit(batch)`). Two batches of different queries are equal when
    their numbers are; `idempotency_key` tells them apart. Executors can receive a copy, which cannot ask the store."""

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
    short: bool = False
    """The batch runs again, and may lack records or files that an earlier attempt had."""
    ttl: timedelta = timedelta(seconds=10)
    """After how long without a renewal another member leads. A transaction of a target should not be silent for longer
    than a part of it: a leader that is paused would keep its successor waiting."""
    scratch: str = ""
    """The URL, for Spark, of a folder of this attempt alone in the pipeline's storage, where a sink can put rows before
    its target takes them. No such folder exists yet; the sweep of a later leader removes it."""
    check_term: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Asks the store whether the term stands. Raises TermLost, StoreUnavailable."""

    def __new__(cls, scope: str, query: str, query_id: str, id: int, *rest: object, **named: object) -> Batch:  # noqa: A002 - the field
        """The number is that of the batch; the fields are set by `__init__`."""
        return super().__new__(cls, id)

    def __str__(self) -> str:
        """The number, as the text of the batch id that Spark gives."""
        return str(self.id)

    def check(self) -> None:
        """Ask the store, now, whether the term stands: before a function writes something that cannot be fenced. Raises
        TermLost (let it through: it ends the query), StoreUnavailable; UsageError on an executor."""
        self.check_term()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the copy for executors."""
        named = (self.scope, self.query, self.query_id, self.id, self.epoch, self.short, self.ttl, self.scratch)
        return Batch, (*named, _only_in_the_driver)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this batch, by any leader; never the same for another batch."""
        return f"{self.query_id}/{self.id}"


@dataclass(frozen=True, slots=True)
class Written:
    """The answer of a sink, and of a function of ForeachBatch: the sink has the batch."""

    repeated: bool
    """Whether the sink had the batch before this call, which changed nothing visible then."""


class Sink(Protocol):
    """A target for the rows of one query. A class with these two methods is a sink; it inherits from nothing.

    Tenure makes no sink: the pipeline's function does, once in each term, on standbys, too. So the constructor opens no
    connection. `check` runs on all members, `write` on the leader alone. The rules of `write` make its delivery exactly
    once: it takes each (`batch.query_id`, `batch.id`) at most once, and shows nothing before `planned()` has returned.
    """

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse a combination that this sink cannot write correctly, before any query starts. `output_mode`: `append`,
        `complete` or `update`. Writes nothing. Raises UsageError."""
        ...

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Write one batch, and say whether the sink had it before. Called in the order of batch ids, by one thread.

        `rows`: the batch, a DataFrame that is not streaming, in the columns of the query. Evaluate `rows` exactly once,
        also when the sink has the batch already: a stateful query must move its state on.
        `batch`: its number, the query, and the epoch by which the target can refuse a late leader.
        `planned()` returns once the checkpoint of this batch is committed, and raises TermLost when the commit was
        refused; nothing may be visible before `planned` returned (I2). A sink that stages its output stages it first.
        `events`: takes the events of this sink, for the log.

        Raises StorageError: the target failed or does not answer, and the batch is tried again. TermLost of `planned`
        and Fenced (the target knows a higher epoch) end the term. Any other error is a failure of the batch.
        """
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    """The newest planned batch of a query; -1: no batch is planned."""

    query_id: str
    batch: int


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts at batches of one query, for the cleanup of their staged output."""

    scope: str
    query: str
    query_ids: Callable[[], Collection[str]]
    """Spark's ids of the query in all its run directories. Raises StorageError."""
    epoch: int | None = None
    """Attempts of this epoch and of later epochs are in the making. None: the pipeline has ended, and every planned
    batch is in the sink."""
    planned: Callable[[], Planned] = lambda: Planned("", -1)
    """Reads the newest plan, while the pipeline goes on. Raises StoreError, StorageError, Corrupt."""


@runtime_checkable
class Stages(Protocol):
    """A sink that stages the output of a batch before the commit."""

    def staged(self, attempts: Attempts) -> Cleanable:
        """The staged output of attempts that can never be committed any more."""
        ...


@runtime_checkable
class Shared(Protocol):
    """A sink that knows the other writers of its target."""

    def other_writers(self, *, scope: str, query: str) -> Sequence[str]:
        """The other writers, for people, before the query's first batch. Raises StorageError."""
        ...


@runtime_checkable
class ChecksRows(Protocol):
    """A sink that cannot take all types of rows."""

    def check_rows(self, rows: DataFrame) -> None:
        """Refuse rows that this sink cannot take, before any query starts. Writes nothing. Raises UsageError."""
        ...


@runtime_checkable
class Located(Protocol):
    """A sink into which Spark writes files."""

    @property
    def location(self) -> str:
        """The path or URL of its target."""
        ...


@runtime_checkable
class Answers(Protocol):
    """A sink whose target can be asked whether it takes batches."""

    def ask(self) -> None:
        """Connect as `write` does, and ask for the rights. Writes nothing. Raises StorageError, QueryFailed,
        UsageError."""
        ...


@runtime_checkable
class Rehearsable(Protocol):
    """A sink that can warm up for `write`. For any other sink, a rehearsal only evaluates the rows."""

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Evaluate the rows once, as `write` does. Write only below `directory` (a URL; no such folder exists yet),
        which is removed afterwards."""
        ...


@runtime_checkable
class Calls(Protocol):
    """A sink that calls a function of the user."""

    @property
    def timeout(self) -> timedelta | None:
        """For how long one call may last before the driver counts as hung; None: for ever."""
        ...

    def call(self, query: str) -> str | None:
        """A text for the present call for a query, different for each call; None: there is no call."""
        ...
