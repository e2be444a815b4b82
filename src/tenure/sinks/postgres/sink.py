"""The sink for PostgreSQL: Spark's tasks copy their rows into a staging table, and the driver moves them in one
transaction with a ledger of batches.

Promise: each batch of a query is in the table once, and none is written under a lower epoch than one before it: the
database itself refuses that (I3). Nothing is visible before the batch is planned (I2). A leader that is paused inside
its transaction is thrown out by the server.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from tenure.cleanup.plan import Cleanable
from tenure.clock import Clock, SystemClock
from tenure.coordination.term import Term
from tenure.errors import StorageError, UsageError
from tenure.events import Events
from tenure.retry import RetryPolicy, exponential_delay, retry
from tenure.sinks.postgres.columns import columns_of, refuse_keys
from tenure.sinks.sink import Attempts, Batch, OutputMode, Written
from tenure.wording import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tenure.sinks.postgres.database import PostgresTable

T = TypeVar("T")

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=50), maximum=timedelta(seconds=2), attempts=20)
"""About half a minute, against a server that starts anew, and a lock of a leader that was paused."""

_DROP: Final = timedelta(seconds=1)
"""For how long the sweep waits for a staging table that is in use."""

_AWAY: Final = re.compile(r"psycopg\.OperationalError: (.*)")
"""In the words of a task whose server is away."""

_STAGING: Final = re.compile(r"tenure_[0-9a-f]{12}_e(\d+)_b(\d+)\Z")


class Postgres:
    """Write each batch to a table of PostgreSQL, which is created when there is none.

    `url`: postgresql://USER@HOST/DATABASE, without a password: it comes from PGPASSWORD, a passfile or a service.
    `table`: TABLE or SCHEMA.TABLE. `append`: the rows are added. `upsert`: each row replaces the row with the same
    `keys`, or is added; for queries in append or update mode.

    The rows' columns are columns of the table, by name. Executors need the packages psycopg and pyarrow.
    """

    delivery = "exactly once"

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
        self._made: PostgresTable | None = None  # None: not used yet
        self._columns: Mapping[str, str] | None = None  # None: the table was not made or looked at
        self._parameters: Mapping[str, Any] | None = None  # None: not asked yet

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse options that do not fit together. Raises UsageError."""
        if find_spec("psycopg") is None:
            raise UsageError("the Postgres sink needs the package psycopg", fix=how_to_install("postgres"))
        if self._mode not in ("append", "upsert"):
            raise UsageError(f"mode {self._mode!r} of a Postgres sink is unknown", fix="give append or upsert")
        if self._mode == "upsert" and not self._keys:
            raise UsageError(f"upsert into {self._table} needs keys", fix="Postgres(..., keys=['column'])")
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
        columns = columns_of(rows.schema.jsonValue())
        refuse_keys(columns, self._keys)
        with suppress(StorageError):
            self._database.look(columns, keys=self._keys)

    def ask(self) -> None:
        """Connect, and ask for the right to make tables; see `Answers`."""
        self._database.ask()

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Stage, wait for the plan, move; see `Sink.write`."""
        from tenure.sinks.postgres.database import Claim, Staged

        columns, table = columns_of(rows.schema.jsonValue()), staging_name(batch)

        def prepare() -> None:
            if columns != self._columns:
                self._database.make(columns, keys=self._keys)
                self._columns = columns
            self._database.make_staging(table, columns, limit=batch.ttl / 2)

        self._retried(prepare)
        answers = self._copied(rows, (), self._database.copy_into(table, columns), keep=True)
        staged = Staged(
            table, [(one.partition, one.attempt) for one in answers if one.rows], sum(a.rows for a in answers)
        )
        planned()
        claim = Claim(batch.scope, batch.query, batch.query_id, batch.id, batch.epoch)
        sent = False

        def once() -> Written:
            nonlocal sent
            newest = self._database.newest(batch.query_id) if sent else None
            if newest is not None and newest[:2] == (batch.id, batch.epoch):
                return Written(repeated=newest[2] >= batch.id)  # the reply was lost
            sent = True
            repeated = self._database.move(claim, staged, columns, keys=self._keys, limit=batch.ttl / 2)
            return Written(repeated=repeated)

        return self._retried(once)

    def _retried(self, call: Callable[[], T]) -> T:
        return retry(call, policy=self._retry, on=StorageError, clock=self._clock)

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Copy the rows into temporary tables of the tasks, which end with their connections."""
        columns = columns_of(rows.schema.jsonValue())
        made, copied = self._database.copy_for_practice(columns)
        self._copied(rows, (made,), copied, keep=False)

    def staged(self, attempts: Attempts) -> Cleanable:
        """The staging tables of attempts that can never be moved any more."""
        return StagedTables(self._database, attempts)

    @property
    def _database(self) -> PostgresTable:
        if self._made is None:
            from tenure.sinks.postgres.database import PostgresTable

            self._made = PostgresTable(self._url, self._table)
        return self._made

    def _copied(self, rows: DataFrame, before: Sequence[str], copy: str, *, keep: bool) -> list[Any]:
        """Let the tasks copy the rows, once; return their answers. Raises StorageError: a task could not reach the
        server, or lost it."""
        from pyspark import cloudpickle
        from pyspark.errors import PySparkException

        from tenure.sinks.postgres import copying
        from tenure.spark.errors import words_of

        cloudpickle.register_pickle_by_value(copying)  # type: ignore[no-untyped-call] # untyped in pyspark
        if self._parameters is None:
            self._parameters = self._retried(self._database.parameters)
        task = copying.copier(self._parameters, before, copy, keep=keep)
        try:
            # By their places: PySpark takes a column `a.b` for the field `b` of a column `a` here.
            placed = rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))
            return placed.mapInArrow(task, copying.ANSWER).collect()
        except PySparkException as error:
            if found := _AWAY.search(words_of(error)):
                raise StorageError(f"{self._database}: a task could not copy its rows: {found[1]}") from error
            raise


def staging_name(batch: Batch) -> str:
    """The staging table of an attempt at a batch."""
    return f"{_prefix(batch.query_id)}e{batch.epoch}_b{batch.id}"


def _prefix(query_id: str) -> str:
    return f"tenure_{hashlib.sha256(query_id.encode()).hexdigest()[:12]}_"


@dataclass(frozen=True)
class StagedTables:
    """The staging tables of one query whose attempts have ended. The names are those of the tables."""

    database: PostgresTable
    attempts: Attempts

    def find(self) -> Sequence[str]:
        """The tables of earlier epochs. Raises StorageError."""
        found = [name for one in self.attempts.query_ids() for name in self.database.staging_tables(_prefix(one))]
        return [name for name in found if self._has_ended(name)]

    def _has_ended(self, name: str) -> bool:
        match, now = _STAGING.match(name), self.attempts.epoch
        return match is not None and (now is None or int(match[1]) < now)

    def remove(self, term: Term, name: str) -> None:
        """Drop a table. Raises StorageError: somebody uses it."""
        self.database.drop(name, limit=_DROP)
