"""How the demo reads its output: as a reader who knows nothing of Tenure."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import polars
import psycopg
import pyarrow as pa
import pymysql
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import parquet as pq
from pyarrow.dataset import dataset
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from tenure.storage.engines import delta_options
from tenure.storage.reach import reach
from tenure.storage.remote import Remote

Rows = list[dict[str, Any]]

SINKS: Final = ("delta", "files", "iceberg", "kafka", "postgres", "mysql")
CATALOG: Final = "demo"
"""The catalog and the namespace of the tables in Iceberg."""
_NO_SUCH_TABLE: Final = 1146
"""The number of the error, in MySQL."""
_READ_S: Final = 10.0
"""How long a reader of a topic waits for what is in it."""


class Output(Protocol):
    """The tables `flights` and `hourly`."""

    def rows(self, table: str, columns: list[str] | None = None) -> Rows:
        """The rows of a table; none where it does not exist yet."""
        ...

    def count(self, table: str) -> int:
        """How many rows a table has, without reading them."""
        ...


def output_of(sink: str, url: str) -> Output:
    """The reader of one of `SINKS`. `url`: the pipeline's parameter `output`."""
    match sink:
        case "iceberg":
            return IcebergOutput()
        case "kafka":
            return TopicOutput(url)
        case "files":
            return FolderOutput(Path(url))
        case "postgres" | "mysql":
            return DatabaseOutput(url)
    return DeltaOutput(url)


class DeltaOutput:
    """Two Delta tables."""

    def __init__(self, url: str) -> None:
        self._url = url

    def rows(self, table: str, columns: list[str] | None = None) -> Rows:
        """See `Output`."""
        try:
            uris = self._table(table).file_uris()
        except TableNotFoundError:
            return []
        # Not by delta-rs' own reader: its threads abort a process that ends soon after a read.
        storage = reach(self._url)
        if not isinstance(storage, Remote):
            return list(dataset(uris).to_table(columns=columns).to_pylist())
        paths = [storage.fs._strip_protocol(uri) for uri in uris]
        files = PyFileSystem(FSSpecHandler(storage.fs))
        return list(dataset(paths, filesystem=files).to_table(columns=columns).to_pylist())

    def count(self, table: str) -> int:
        """See `Output`; by the table's log."""
        try:
            actions = self._table(table).get_add_actions(flatten=True)
        except TableNotFoundError:
            return 0
        return sum(int(row) for row in pa.table(actions)["num_records"].to_pylist())

    def _table(self, name: str) -> DeltaTable:
        url = f"{self._url}/{name}"
        return DeltaTable(url, storage_options=delta_options(url, {}))


class FolderOutput:
    """Two folders of Parquet files, read by a listing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counted: dict[Path, int] = {}

    def rows(self, table: str, columns: list[str] | None = None) -> Rows:
        """See `Output`."""
        folder = self._folder / table
        return list(dataset(folder).to_table(columns=columns).to_pylist()) if folder.exists() else []

    def count(self, table: str) -> int:
        """See `Output`; by the files' footers."""
        found = list((self._folder / table).glob("b*/**/*.parquet"))
        for path in found:
            if path not in self._counted:
                self._counted[path] = pq.read_metadata(path).num_rows
        return sum(self._counted[path] for path in found)


def catalog() -> Catalog:
    """The catalog of the environment, which pyiceberg itself has read when it was imported."""
    properties = {name: os.environ[f"PYICEBERG_CATALOG__DEMO__{name.upper()}"] for name in ("type", "uri", "warehouse")}
    return load_catalog(CATALOG, **properties)


class IcebergOutput:
    """Two Iceberg tables, read by polars."""

    def rows(self, table: str, columns: list[str] | None = None) -> Rows:
        """See `Output`."""
        found = self._table(table)
        if found is None:
            return []
        rows = polars.scan_iceberg(found.metadata_location)
        return (rows if columns is None else rows.select(columns)).collect().to_dicts()

    def count(self, table: str) -> int:
        """See `Output`; by the newest snapshot."""
        found = self._table(table)
        snapshot = None if found is None else found.current_snapshot()
        return 0 if snapshot is None or snapshot.summary is None else int(snapshot.summary["total-records"] or 0)

    def _table(self, name: str) -> Any:
        try:
            return catalog().load_table(f"{CATALOG}.{name}")
        except (NoSuchTableError, NoSuchNamespaceError):
            return None


class DatabaseOutput:
    """Two tables of a database."""

    def __init__(self, url: str) -> None:
        self._url = url

    def rows(self, table: str, columns: list[str] | None = None) -> Rows:
        """See `Output`."""
        names, found = self._ask(f"select {', '.join(columns or ['*'])} from {table}")
        return [dict(zip(names, map(_in_utc, row), strict=True)) for row in found]

    def count(self, table: str) -> int:
        """See `Output`."""
        _, found = self._ask(f"select count(*) from {table}")
        return int(found[0][0]) if found else 0

    def _ask(self, statement: str) -> tuple[list[str], list[Any]]:
        """The names and rows of the answer; none where the table does not exist yet."""
        with closing(self._connected()) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(statement)
            except psycopg.errors.UndefinedTable:
                return [], []
            except pymysql.err.ProgrammingError as error:
                if error.args[0] != _NO_SUCH_TABLE:
                    raise
                return [], []
            return [column[0] for column in cursor.description], list(cursor.fetchall())

    def _connected(self) -> Any:
        """The passwords are those of the environment."""
        place = urlsplit(self._url)
        if place.scheme == "postgresql":
            return psycopg.connect(self._url)
        given = {"host": place.hostname, "port": place.port, "user": place.username, "database": place.path.strip("/")}
        return pymysql.connect(**given, password=os.environ["MYSQL_PWD"])


def _in_utc(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


class TopicOutput:
    """Two topics of JSON, read as committed."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._read: dict[str, tuple[Consumer, Rows]] = {}

    def rows(self, table: str, columns: list[str] | None = None) -> Rows:
        """See `Output`."""
        rows = self._all(table, wait_s=_READ_S)
        return rows if columns is None else [{name: row[name] for name in columns} for row in rows]

    def count(self, table: str) -> int:
        """See `Output`."""
        return len(self._all(table, wait_s=0.01))

    def _all(self, topic: str, *, wait_s: float) -> Rows:
        """What was read so far, and what comes now. `wait_s`: without a record for so long, nothing comes."""
        if topic not in self._read:
            settings = {"group.id": "demo", "isolation.level": "read_committed", "enable.auto.commit": False}
            reader = Consumer({"bootstrap.servers": self._brokers, "log_level": 0, **settings})  # the broker ends first
            reader.assign([TopicPartition(topic, 0, 0)])
            self._read[topic] = reader, []
        reader, rows = self._read[topic]
        while found := reader.consume(10_000, wait_s):
            rows += [_of_json(message.value()) for message in found if message.error() is None]
        return rows


def _of_json(value: bytes | None) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(value or b"{}")
    return {name: datetime.fromisoformat(of) if name == "hour" else of for name, of in row.items()}
