"""A sink for one table of a database: Spark's tasks copy their rows into a staging table, and the driver moves them in
one transaction with a ledger of batches.

Promise: each batch of a query is in the table once, and none is written under a lower epoch than one before it: the
database itself refuses that (I3). Nothing is visible before the batch is planned (I2). A leader that is paused inside
its transaction is thrown out by the server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

from tenure.cleanup.plan import Cleanable
from tenure.clock import Clock, SystemClock
from tenure.errors import StorageError, UsageError
from tenure.events import Events
from tenure.retry import RetryPolicy, exponential_delay, retry
from tenure.sinks.sink import Attempts, Batch, OutputMode, Written
from tenure.sinks.sql.columns import ColumnTypes, refuse_keys
from tenure.sinks.sql.ledger_rules import Claim, Staged
from tenure.sinks.sql.staged_tables import StagedTables, staging_name
from tenure.sinks.sql.table import SqlTable
from tenure.wording import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=50), maximum=timedelta(seconds=2), attempts=20)
"""About half a minute, against a server that starts anew, and a lock of a leader that was paused."""


class SqlSink(ABC):
    """The steps of each batch. A class of a database adds how its tasks copy rows."""

    delivery = "exactly once"

    package: ClassVar[str]
    extra: ClassVar[str]
    column_types: ClassVar[ColumnTypes]

    def __init__(
        self,
        url: str,
        table: str,
        *,
        mode: Literal["append", "upsert"] = "append",
        keys: Sequence[str] = (),
        retry_policy: RetryPolicy = RETRY,
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._table = table
        self._mode = mode
        self._keys = (keys,) if isinstance(keys, str) else tuple(keys)
        self._retry = retry_policy
        self._clock = clock or SystemClock()
        self._made: SqlTable | None = None  # None: not used yet
        self._columns: Mapping[str, str] | None = None  # None: the table was not made or looked at
        self._parameters: Mapping[str, Any] | None = None  # None: not asked yet

    # --- what differs ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _open(self) -> SqlTable:
        """The table. Connects to nothing. Raises UsageError."""

    @abstractmethod
    def _copier(self, columns: Mapping[str, str], name: str | None) -> Callable[..., int]:
        """What a task does with its rows: `tenure.sinks.sql.tasks.Copy`. `name`: of the staging table; None: the rows
        go into a table of a rehearsal, and with its connection."""

    @abstractmethod
    def _by_value(self) -> ModuleType:
        """The module of what a task does, which the executors do not have."""

    @abstractmethod
    def _away(self, words: str) -> str | None:
        """Why a task could not reach the server, in the words of its error; None: it is another error."""

    # --- the sink ----------------------------------------------------------------------------------------------------

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse options that do not fit together. Raises UsageError."""
        kind = type(self).__name__
        if find_spec(self.package) is None:
            raise UsageError(f"the {kind} sink needs the package {self.package}", fix=how_to_install(self.extra))
        if self._mode not in ("append", "upsert"):
            raise UsageError(f"mode {self._mode!r} of a {kind} sink is unknown", fix="give append or upsert")
        if self._mode == "upsert" and not self._keys:
            raise UsageError(f"upsert into {self._table} needs keys", fix=f"{kind}(..., keys=['column'])")
        if self._mode == "append" and self._keys:
            raise UsageError(f"append into {self._table} has keys", fix="leave them out, or use mode='upsert'")
        allowed = ("append", "update") if self._mode == "upsert" else ("append",)
        if output_mode not in allowed:
            raise UsageError(
                f"{output_mode} mode into {self._table} with mode={self._mode!r}",
                fix=f"use {' or '.join(allowed)} mode, or mode='upsert' with keys",
            )
        _ = self._database

    def check_rows(self, rows: DataFrame) -> None:
        """Refuse rows that the table cannot take, before the query starts. A server that is away is asked at the first
        batch. Raises UsageError."""
        columns = self.column_types.columns_of(rows.schema.jsonValue())
        refuse_keys(columns, self._keys)
        with suppress(StorageError):
            self._database.look(columns, keys=self._keys)

    def ask(self) -> None:
        """Connect, and ask for the right to make tables; see `Answers`."""
        self._database.ask()

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Stage, wait for the plan, move; see `Sink.write`."""
        columns, table = self.column_types.columns_of(rows.schema.jsonValue()), staging_name(batch)

        def prepare() -> None:
            if columns != self._columns:
                self._database.make(columns, keys=self._keys)
                self._columns = columns
            self._database.make_staging(table, columns, limit=batch.ttl / 2)

        self._retried(prepare)
        answers = self._copied(rows, self._copier_of(columns, table))
        staged = Staged(
            table, [(one.partition, one.attempt) for one in answers if one.rows], sum(a.rows for a in answers)
        )
        planned()
        sent = False

        def once() -> Written:
            nonlocal sent
            claim = Claim.of(batch, sent=sent)
            sent = True
            repeated = self._database.move(claim, staged, columns, keys=self._keys, limit=batch.ttl / 2)
            return Written(repeated=repeated)

        return self._retried(once)

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Copy the rows into temporary tables of the tasks, which end with their connections."""
        self._copied(rows, self._copier_of(self.column_types.columns_of(rows.schema.jsonValue()), None))

    def staged(self, attempts: Attempts) -> Cleanable:
        """The staging tables of attempts that can never be moved any more."""
        return StagedTables(self._database, attempts)

    # --- the tasks ---------------------------------------------------------------------------------------------------

    def _retried(self, call: Callable[[], T]) -> T:
        return retry(call, policy=self._retry, on=StorageError, clock=self._clock)

    @property
    def _database(self) -> SqlTable:
        if self._made is None:
            self._made = self._open()
        return self._made

    def _connection(self) -> Mapping[str, Any]:
        """How a task connects."""
        if self._parameters is None:
            self._parameters = self._retried(self._database.parameters)
        return self._parameters

    def _copier_of(self, columns: Mapping[str, str], name: str | None) -> Callable[..., int]:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(self._by_value())  # type: ignore[no-untyped-call] # untyped in pyspark
        return self._copier(columns, name)

    def _copied(self, rows: DataFrame, copy: Callable[..., int]) -> list[Any]:
        """Let the tasks copy the rows, once; return their answers. Raises StorageError: a task could not reach the
        server, or lost it."""
        from pyspark import cloudpickle
        from pyspark.errors import PySparkException

        from tenure.sinks.sql import tasks
        from tenure.spark.errors import words_of

        cloudpickle.register_pickle_by_value(tasks)  # type: ignore[no-untyped-call] # untyped in pyspark
        try:
            # By their places: PySpark takes a column `a.b` for the field `b` of a column `a` here.
            placed = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
            return placed.mapInArrow(tasks.answering(copy), tasks.ANSWER).collect()
        except PySparkException as error:
            if found := self._away(words_of(error)):
                raise StorageError(f"{self._database}: a task could not copy its rows: {found}") from error
            raise
