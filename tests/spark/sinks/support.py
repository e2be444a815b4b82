"""Words that the tests of sinks share: batches, plans that wait, what a reader of the table sees."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tenure.events import Event, Events
from tenure.retry import RetryPolicy
from tenure.sinks.delta.sink import Delta
from tenure.sinks.sink import Batch, OutputMode, Sink, Written
from tests.kit.waiting import NEVER_S

QUICK = RetryPolicy(initial=timedelta(milliseconds=1), maximum=timedelta(milliseconds=5), attempts=4)


def a_batch(number: int, *, epoch: int = 1, query_id: str = "q-1") -> Batch:
    return Batch(scope="flights", query="hourly", query_id=query_id, id=number, epoch=epoch)


def a_sink(
    table: Path,
    mode: OutputMode = "append",
    *,
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
) -> Delta:
    """A sink that was checked and that gives up soon."""
    sink = Delta(table, key=key, partition_by=partition_by, retry_policy=QUICK)
    sink.check(output_mode=mode)
    return sink


class Seen:
    """A subscriber that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def at_once() -> None:
    """A plan that is committed already."""


def write(
    sink: Sink, rows: DataFrame, batch: Batch, *, planned: Callable[[], None] = at_once, seen: Seen | None = None
) -> Written:
    return sink.write(rows, batch, planned=planned, events=Events(seen or Seen()))


class Paused:
    """A writer on its own thread that stops where `stop` is called until `go_on`: the paused leader.
    It stops while its plan is committed, unless `planned` is changed."""

    def __init__(self, sink: Sink, rows: DataFrame, batch: Batch) -> None:
        self.seen = Seen()
        self.result: Written | None = None
        self.error: BaseException | None = None
        self._reached = threading.Event()
        self._released = threading.Event()
        self.planned: Callable[[], None] = self.stop
        self._thread = threading.Thread(target=self._write, args=(sink, rows, batch))

    def _write(self, sink: Sink, rows: DataFrame, batch: Batch) -> None:
        try:
            self.result = write(sink, rows, batch, planned=self.planned, seen=self.seen)
        except BaseException as error:  # noqa: BLE001  handed to the test's thread by `go_on`
            self.error = error
            self._reached.set()

    def stop(self) -> None:
        """Called on the writer's thread."""
        self._reached.set()
        assert self._released.wait(NEVER_S)

    def start(self) -> Paused:
        """Return when the writer is at its stop."""
        self._thread.start()
        assert self._reached.wait(NEVER_S)
        if self.error is not None:
            raise self.error
        return self

    def go_on(self) -> Written:
        """Let the writer finish."""
        self._released.set()
        self._thread.join(NEVER_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


def numbers(spark: SparkSession, values: Sequence[int]) -> DataFrame:
    """Rows with one column `n`."""
    if not values:
        return spark.sql("select cast(null as long) as n where false")
    return spark.sql(f"select cast(n as long) as n from values {', '.join(f'({value})' for value in values)} as t(n)")


def totals(spark: SparkSession, values: Mapping[str | None, int]) -> DataFrame:
    """Rows with a key `k` and a number `n`, as an aggregation gives them."""
    rows = [f"({'null' if key is None else repr(key)}, {value})" for key, value in values.items()]
    return spark.sql(f"select cast(k as string) as k, cast(n as long) as n from values {', '.join(rows)} as t(k, n)")


def visible(table: Path) -> list[int]:
    """What a reader of the table sees in its column `n`, sorted; nothing when there is no table."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    return sorted(DeltaTable(str(table)).to_pyarrow_table()["n"].to_pylist())


def rows_of(table: Path) -> list[dict[str, Any]]:
    """All rows as a reader with another engine sees them."""
    found: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return found


def staged(table: Path) -> list[Path]:
    """The Parquet files that lie in staging directories, named by the log or not."""
    return sorted(table.glob("tenure-*/**/*.parquet"))


def named(table: Path) -> set[str]:
    """The files that the table's newest version names, relative to it."""
    return {str(path) for path in pa.table(DeltaTable(str(table)).get_add_actions())["path"].to_pylist()}
