"""An Iceberg table in a catalog of SQLite, and writers that stop at each of their steps. The files of batches are
written here, as Spark's tasks write them, without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table
from pyspark.sql import DataFrame

from tenure.events import Event, Events
from tenure.retry import RetryPolicy
from tenure.sinks import Iceberg
from tenure.sinks.iceberg.layout import Layout
from tenure.sinks.sink import Attempts, Batch, OutputMode, Planned, Written
from tenure.sinks.staging.stage import PutFile, Staged, StagingPath

NAME = "n.t"
STEPS = ("look", "looked", "planned", "commit", "committed", "end")
"""Where a writer can be stopped: before and behind a look at the table, when it may commit, before its commit is sent,
when it has arrived, and at the end."""
QUICK = RetryPolicy(initial=timedelta(milliseconds=1), maximum=timedelta(milliseconds=5), attempts=4)
AnyCatalog = TypeVar("AnyCatalog", bound=SqlCatalog)
_SPARKS = {"int64": "long", "int32": "integer", "string": "string"}


class Rows:
    """The rows of a batch, in the place of Spark's."""

    sparkSession = None  # noqa: N815 # Spark's name

    def __init__(self, **columns: Sequence[Any]) -> None:
        self.table = pa.table({name: list(values) for name, values in columns.items()})
        if not self.table.num_rows:
            self.table = self.table.cast(pa.schema([(name, pa.int64()) for name in columns]))

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def schema(self) -> Rows:
        return self

    def jsonValue(self) -> dict[str, Any]:  # noqa: N802 # Spark's name
        fields = [
            {"name": field.name, "type": _SPARKS[str(field.type)], "nullable": True, "metadata": {}}
            for field in self.table.schema
        ]
        return {"type": "struct", "fields": fields}


class _Prepared:
    def __init__(self, rows: Rows, layout: Layout) -> None:
        self.rows, self.layout = rows, layout


def _stage(prepared: _Prepared, directory: str, *, partition_by: Sequence[str]) -> Staged:
    folder = Path(directory.removeprefix("file://"))
    table = prepared.rows.table
    if not table.num_rows:
        return Staged([], False)
    ids = {field["name"]: field["id"] for field in prepared.layout.columns["fields"]}
    schema = pa.schema([field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in table.schema])
    folder.mkdir(parents=True)
    pq.write_table(table.cast(schema), folder / "part-0.parquet")
    return Staged(puts_below(folder), False)


def puts_below(folder: Path) -> list[PutFile]:
    """The Parquet files in a folder, as their tasks tell of them."""
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        content, mtime_ns = path.read_bytes(), path.stat().st_mtime_ns
        footer = 8 + int.from_bytes(content[-8:-4], "little")
        found.append(PutFile(str(path.relative_to(folder)), len(content), mtime_ns // 1_000_000, content[-footer:]))
    return found


@contextmanager
def _nothing(*_: object) -> Iterator[None]:
    yield


class Stepping(SqlCatalog):
    """A catalog that calls `at` before and behind each of its calls."""

    at: Callable[[str], None] = staticmethod(lambda step: None)
    within = False
    twice = False
    """Whether each commit is sent twice, and the answer is that of the second."""

    def load_table(self, identifier: Any) -> Table:
        if self.within:
            return super().load_table(identifier)
        self.at("look")
        try:
            return super().load_table(identifier)
        finally:
            self.at("looked")

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        self.at("commit")
        self.within = True
        try:
            answer = super().commit_table(table, requirements, updates)
            if self.twice:
                answer = super().commit_table(table, requirements, updates)
        finally:
            self.within = False
        self.at("committed")
        return answer


def quick(catalog: AnyCatalog) -> AnyCatalog:
    """The catalog, whose file need not outlive a crash of the machine."""
    with catalog.engine.connect() as connection:
        connection.exec_driver_sql("pragma synchronous = off")
    return catalog


class Writer:
    """A leader with a sink of its own."""

    def __init__(self, lake: Lake, *, epoch: int = 1, mode: OutputMode = "append", scope: str = "rows") -> None:
        self._lake = lake
        self.epoch = epoch
        self.scope = scope
        self.events: list[Event] = []
        self.at: Callable[[str], None] = lambda step: None
        self.twice = False
        self.calls: list[str] = []
        number = str(len(lake.writers))
        lake.writers[number] = self
        self.sink = Iceberg(NAME, properties={**lake.properties, "writer": number}, retry_policy=QUICK)
        self.sink.check(output_mode=mode)

    def catalog(self, properties: Mapping[str, str]) -> Catalog:
        found = quick(Stepping("default", **properties))
        found.at = self.stopping
        found.twice = self.twice
        return found

    def stopping(self, step: str) -> None:
        self.calls.append(step)
        self.at(step)

    def write(
        self,
        batch: int,
        rows: Rows,
        *,
        short: bool = False,
        query_id: str = "id",
        planned: Callable[[], None] = lambda: None,
    ) -> Written:
        def plan() -> None:
            planned()
            self.stopping("planned")

        which = Batch(self.scope, "copy", query_id, batch, self.epoch, short=short)
        written = self.sink.write(cast(DataFrame, rows), which, planned=plan, events=Events(self.events.append))
        self.stopping("end")
        return written

    def names(self) -> list[str]:
        """Of the events."""
        return [type(event).__name__ for event in self.events]


class Lake:
    """A catalog with a namespace, on a local disk."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self.properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.writers: dict[str, Writer] = {}
        self._client = quick(SqlCatalog("default", **self.properties))
        self._client.create_namespace("n")
        patch.setattr("tenure.sinks.iceberg.sink.open_catalog", self._open)
        patch.setattr("tenure.sinks.iceberg.layout.prepared", lambda rows, layout: (_Prepared(rows, layout), []))
        patch.setattr("tenure.sinks.staging.stage.stage", _stage)
        patch.setattr("tenure.spark.block_settings.block_settings", _nothing)

    def _open(self, name: str, properties: Mapping[str, str]) -> Catalog:
        return self.writers[properties["writer"]].catalog(properties)

    def catalog(self) -> SqlCatalog:
        """A client of others, which keeps nothing of a table."""
        return self._client

    def table(self) -> Table:
        """As another client reads it."""
        return self.catalog().load_table(NAME)

    def writer(self, **named: Any) -> Writer:
        return Writer(self, **named)

    def numbers(self, column: str = "n") -> list[int]:
        """What a reader sees in a column, sorted; nothing without a table."""
        if not self.catalog().table_exists(NAME):
            return []
        found: list[int] = self.table().scan().to_arrow()[column].to_pylist()
        return sorted(found, key=lambda one: (one is None, one))

    @property
    def data(self) -> Path:
        """Below which attempts are staged."""
        return Path(self.table().location().removeprefix("file://")) / "data"

    def staged(self) -> set[str]:
        """The attempts that lie there."""
        found = (StagingPath.parse(str(path.relative_to(self.data))) for path in self.data.rglob("*.parquet"))
        return {str(path) for path in found if path is not None}

    def named(self) -> set[str]:
        """The attempts of which the newest snapshot names a file."""
        files = [task.file.file_path for task in self.table().scan().plan_files()]
        found = (StagingPath.parse(os.path.relpath(path.removeprefix("file://"), self.data)) for path in files)
        return {str(path) for path in found if path is not None}

    def attempts(self, *, epoch: int | None, planned: int, query_ids: Sequence[str] = ("id",)) -> Attempts:
        return Attempts("rows", "copy", lambda: query_ids, epoch, lambda: Planned("id", planned))


def numbers(*values: int) -> Rows:
    return Rows(n=values)
