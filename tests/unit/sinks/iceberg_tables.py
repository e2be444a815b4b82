"""An Iceberg table in a catalog of SQLite or of the REST kind, and writers that stop at each of their steps. The files
of batches are written here, as Spark's tasks write them, without Spark."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyarrow import fs
from pyarrow import parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyspark.sql import DataFrame

from tenure.errors import TenureError
from tenure.events import Event, Events
from tenure.retry import RetryPolicy
from tenure.sinks import Iceberg
from tenure.sinks.iceberg.layout import Layout
from tenure.sinks.iceberg.location import DataFolder
from tenure.sinks.sink import Attempts, Batch, OutputMode, Planned, Written
from tenure.sinks.staging.stage import PutFile, Staged, StagingPath

NAME = "n.t"
STEPS = ("look", "looked", "planned", "commit", "committed", "lost")
"""Where a writer is stopped: before and behind a look at the table, when it may commit, before its commit is sent, and
when it has arrived; `lost`: and its reply is lost."""
GAPS = ("look", "planned", "commit", "lost")
"""A step in each gap between two requests of a writer."""
QUICK = RetryPolicy(initial=timedelta(milliseconds=1), maximum=timedelta(milliseconds=5), attempts=4)
_SPARKS = {
    **{"int64": "long", "int32": "integer", "string": "string", "bool": "boolean", "date32[day]": "date"},
    **{"timestamp[us, tz=UTC]": "timestamp", "timestamp[us]": "timestamp_ntz", "decimal128(9, 2)": "decimal(9,2)"},
}


class Rows:
    """The rows of a batch, in the place of Spark's."""

    sparkSession = None  # noqa: N815 # Spark's name

    def __init__(self, **columns: Sequence[Any] | pa.Array) -> None:
        """A list has numbers, or texts."""
        self.table = pa.table(
            {name: values if isinstance(values, pa.Array) else _array(values) for name, values in columns.items()}
        )

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


def _array(values: Sequence[Any]) -> pa.Array:
    some = next((value for value in values if value is not None), 0)
    return pa.array(list(values), pa.string() if isinstance(some, str) else pa.int64())


class _Prepared:
    def __init__(self, rows: Rows, layout: Layout) -> None:
        self.rows, self.layout = rows, layout


def _stage(filesystem: Any, prepared: _Prepared, directory: str) -> Staged:
    table = prepared.rows.table
    if not table.num_rows:
        return Staged([], False)
    ids = {field["name"]: field["id"] for field in prepared.layout.columns["fields"]}
    schema = pa.schema([field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in table.schema])
    out = io.BytesIO()
    pq.write_table(table.cast(schema), out)
    content = out.getvalue()
    _, _, folder = directory.partition("://")
    if directory.startswith("file:"):  # a bucket of tables takes no such object
        filesystem.create_dir(folder, recursive=True)
    with filesystem.open_output_stream(f"{folder}/part-0.parquet") as file:
        file.write(content)
    footer = 8 + int.from_bytes(content[-8:-4], "little")
    return Staged([PutFile("part-0.parquet", len(content), 0, content[-footer:])], False)


@contextmanager
def _nothing(*_: object) -> Iterator[None]:
    yield


class _Stepping:
    """A catalog that calls `at` before and behind each of its calls."""

    at: Callable[[str], None] = staticmethod(lambda step: None)
    within = False
    twice = False
    """Whether each commit is sent twice, and the answer is that of the second."""

    def load_table(self, identifier: Any) -> Table:
        real: Any = super()
        if self.within:
            return cast(Table, real.load_table(identifier))
        self.at("look")
        try:
            return cast(Table, real.load_table(identifier))
        finally:
            self.at("looked")

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        real: Any = super()
        self.at("commit")
        self.within = True
        try:
            answer = real.commit_table(table, requirements, updates)
            if self.twice:
                answer = real.commit_table(table, requirements, updates)
        finally:
            self.within = False
        self.at("committed")
        return cast(CommitTableResponse, answer)


class SteppingSql(_Stepping, SqlCatalog):
    """In a file that need not outlive a crash of the machine."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        with self.engine.connect() as connection:
            connection.exec_driver_sql("pragma synchronous = off")


class SteppingRest(_Stepping, RestCatalog):
    """At a server."""


class Writer:
    """A leader with a sink of its own."""

    def __init__(
        self, lake: Lake, *, epoch: int = 1, mode: OutputMode = "append", scope: str = "rows", key: Sequence[str] = ()
    ) -> None:
        self._lake = lake
        self.epoch = epoch
        self.scope = scope
        self.events: list[Event] = []
        self.at: Callable[[str], None] = lambda step: None
        self.twice = False
        self.calls: list[str] = []
        number = str(len(lake.writers))
        lake.writers[number] = self
        self.sink = Iceberg(lake.name, properties={"writer": number}, key=key, retry_policy=QUICK)
        self.sink.check(output_mode=mode)

    def catalog(self, properties: Mapping[str, str]) -> Catalog:
        found = self._lake.new_client(properties)
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
    """A catalog with a namespace: in a file, with its tables on a local disk, or at a server."""

    def __init__(self, properties: Mapping[str, str], patch: pytest.MonkeyPatch, *, namespace: str = "n") -> None:
        self.name = f"{namespace}.t"
        self._properties = properties
        self.writers: dict[str, Writer] = {}
        self._client = self.new_client({})
        self._client.create_namespace(namespace)
        disk: Any = fs.LocalFileSystem()
        files = disk if "warehouse" in properties and properties["warehouse"].startswith("file") else self._s3()
        patch.setattr("tenure.sinks.iceberg.sink.open_catalog", self._open)
        patch.setattr("tenure.sinks.iceberg.layout.prepared", lambda rows, layout: (_Prepared(rows, layout), []))
        patch.setattr("tenure.sinks.staging.stage.stage", lambda rows, place, **_: _stage(files, rows, place))
        patch.setattr("tenure.spark.block_settings.block_settings", _nothing)
        patch.setattr("tenure.spark.hadoop.check_classes", lambda *_, **__: None)

    @classmethod
    def on_disk(cls, folder: Path, patch: pytest.MonkeyPatch) -> Lake:
        """Its catalog and its tables are below the folder."""
        folder.mkdir()
        return cls({"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}, patch)

    def _s3(self) -> Any:
        properties = self._properties
        return fs.S3FileSystem(
            endpoint_override=properties["s3.endpoint"],
            region=properties["s3.region"],
            access_key=properties["s3.access-key-id"],
            secret_key=properties["s3.secret-access-key"],
        )

    def new_client(self, more: Mapping[str, str]) -> SteppingSql | SteppingRest:
        kind = SteppingRest if self._properties.get("type") == "rest" else SteppingSql
        return kind("default", **{**self._properties, **more})

    def _open(self, name: str, properties: Mapping[str, str]) -> Catalog:
        return self.writers[properties["writer"]].catalog(properties)

    def catalog(self) -> SteppingSql | SteppingRest:
        """A client of others, which keeps nothing of a table."""
        return self._client

    def table(self) -> Table:
        """As another client reads it."""
        return self.catalog().load_table(self.name)

    def writer(self, **named: Any) -> Writer:
        return Writer(self, **named)

    def numbers(self, column: str = "n") -> list[int]:
        """What a reader sees in a column, sorted; nothing without a table."""
        if not self.catalog().table_exists(self.name):
            return []
        found: list[int] = self.table().scan().to_arrow()[column].to_pylist()
        return sorted(found, key=lambda one: (one is None, one))

    @property
    def location(self) -> DataFolder:
        """Below which attempts are staged."""
        return DataFolder(self.table().location_provider().data_path)

    @property
    def data(self) -> Path:
        """The same, on a local disk."""
        assert self.location.disk is not None
        return Path(self.location.disk)

    def staged(self) -> set[str]:
        """The attempts that lie there."""
        filesystem = self.location.filesystem(self.table().io.properties)
        below = filesystem.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        found = (StagingPath.parse(one.path) for one in below if one.path.endswith(".parquet"))
        return {str(path) for path in found if path is not None}

    def named(self) -> set[str]:
        """The attempts of which the newest snapshot names a file."""
        folder = f"{self.location.data}/"
        files = [task.file.file_path for task in self.table().scan().plan_files()]
        found = (StagingPath.parse(path.removeprefix(folder)) for path in files)
        return {str(path) for path in found if path is not None}

    def attempts(self, *, epoch: int | None, planned: int, query_ids: Sequence[str] = ("id",)) -> Attempts:
        return Attempts("rows", "copy", lambda: query_ids, epoch, lambda: Planned("id", planned))


def numbers(*values: int) -> Rows:
    return Rows(n=values)


def stopped_at(writer: Writer, step: str, meanwhile: Callable[[], object], *, time: int = 1) -> None:
    """Let the others work when the writer is at the step for the n-th time."""
    times = 0

    def at(now: str) -> None:
        nonlocal times
        if now == ("committed" if step == "lost" else step):
            times += 1
            if times == time:
                meanwhile()
                if step == "lost":
                    raise OSError("connection reset")

    writer.at = at


def outcome(call: Callable[[], Written]) -> Written | type[TenureError]:
    """What a write returns, or the kind of its error."""
    try:
        return call()
    except TenureError as error:
        return type(error)


def seen(lake: Lake) -> list[int]:
    """The rows; each snapshot of the table can be read."""
    table = lake.table()
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    return lake.numbers()


def foreign_append(lake: Lake) -> None:
    """Another writer adds a row."""
    lake.table().append(Rows(n=[100]).table)


def emptied(lake: Lake) -> None:
    """As `create or replace table` leaves it: the same table without a branch; its properties stay."""
    lake.catalog().commit_table(lake.table(), (), (RemoveSnapshotRefUpdate.model_validate({"ref-name": "main"}),))
    assert lake.table().current_snapshot() is None


def rolled_back(lake: Lake, to: int) -> None:
    """An operator sets the branch back."""
    lake.table().manage_snapshots().set_current_snapshot(to).commit()


def newest(lake: Lake) -> int:
    """The newest snapshot."""
    snapshot = lake.table().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id
