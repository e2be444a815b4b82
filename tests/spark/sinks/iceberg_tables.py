"""An Iceberg table in a catalog of SQLite for tests with Spark, and two readers of it: pyiceberg, and polars' own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyspark.sql import DataFrame

from tenure.sinks import Iceberg
from tenure.sinks.sink import OutputMode
from tests.spark.sinks.support import QUICK

NAME = "n.t"


class Lake:
    """A catalog with a namespace, on a local disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        self.catalog = SqlCatalog("default", **self.properties)
        self.catalog.create_namespace("n")

    def sink(self, mode: OutputMode = "append", **named: Any) -> Iceberg:
        """A sink that was checked and that gives up soon."""
        sink = Iceberg(NAME, properties=self.properties, retry_policy=QUICK, **named)
        sink.check(output_mode=mode)
        return sink

    def table(self) -> Table:
        return self.catalog.load_table(NAME)

    def rows(self, *, by: str = "n") -> list[dict[str, Any]]:
        """As pyiceberg reads them, in order."""
        found: list[dict[str, Any]] = self.table().scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: (row[by] is None, row[by]))

    def rows_by_polars(self, *, by: str = "n") -> list[dict[str, Any]]:
        """As a reader of other code than the writer's reads them, in order."""
        return pl.scan_iceberg(self.table(), reader_override="native").sort(by, nulls_last=True).collect().to_dicts()

    def numbers(self) -> list[int]:
        """Of the column `n`; nothing without a table."""
        return [row["n"] for row in self.rows()] if self.catalog.table_exists(NAME) else []

    @property
    def data(self) -> Path:
        """Where attempts are staged."""
        return Path(self.table().location().removeprefix("file://")) / "data"

    def staged(self) -> set[Path]:
        """The Parquet files there."""
        return set(self.data.rglob("*.parquet"))

    def named(self) -> list[Any]:
        """The newest snapshot's files."""
        return [task.file for task in self.table().scan().plan_files()]


def collected(rows: DataFrame, *, by: str = "n") -> Sequence[dict[str, Any]]:
    """Spark's own view of rows, in order."""
    found = [row.asDict(recursive=True) for row in rows.collect()]
    return sorted(found, key=lambda row: (row[by] is None, row[by]))
