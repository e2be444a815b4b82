"""The Iceberg tables that a run writes to, in a catalog of SQLite, and their reader: polars.

Promise: `rows` follows the table's metadata from the file that the catalog names, by code that is not pyiceberg's where
it comes to data. While the catalog is away, nobody reads or writes its file, and `rows` stays as it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import polars
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import OperationalError

from tests.crash.truth import Row
from tests.kit.waiting import NEVER_S
from tests.soak.kinds import KINDS
from tests.soak.plan import CATALOG, Query

_PATIENCE_S: Final = 1
"""For how long a client waits for the lock of the catalog's file."""


def environment_of(folder: Path) -> Mapping[str, str]:
    """The variables by which members know the catalog of a run."""
    return {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}": of for name, of in _properties(folder).items()}


def _properties(folder: Path) -> Mapping[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{_file(folder)}?timeout={_PATIENCE_S}",
        "warehouse": f"file://{folder}/output",
    }


def _file(folder: Path) -> Path:
    return folder / "catalog.db"


class Lake:
    """The tables of one run. One thread reads; another one lets the catalog leave and come back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._catalog: Catalog | None = None  # None: not used yet
        self._lock: sqlite3.Connection | None = None  # None: the catalog is there
        self._read: dict[str, tuple[str, list[Row]]] = {}  # query -> the metadata that was read, and its rows

    def make(self, queries: Sequence[Query]) -> None:
        """Make the catalog; the sink makes the tables."""
        self.catalog.create_namespace(CATALOG)

    def rows(self, query: Query) -> list[Row]:
        """What polars reads in the table of a query."""
        before, rows = self._read.get(query.name, ("", []))
        try:
            metadata = self.catalog.load_table(f"{CATALOG}.{query.name}").metadata_location
        except NoSuchTableError:
            return []
        except OperationalError:  # the catalog is away, or a member was stopped while it had the file
            return rows
        if metadata != before:
            columns = list(KINDS[query.kind].columns)
            table = polars.scan_iceberg(metadata, reader_override="native").select(columns)
            rows = table.collect().rows()
            self._read[query.name] = metadata, rows
        return rows

    def leave(self) -> None:
        """Lock the catalog's file."""
        lock = sqlite3.connect(_file(self._folder), timeout=NEVER_S, isolation_level=None, check_same_thread=False)
        lock.execute("begin exclusive")
        self._lock = lock

    def come_back(self) -> None:
        """Unlock it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def close(self) -> None:
        """Close the connections to the catalog."""
        if self._catalog is not None:
            self._catalog.close()

    @property
    def catalog(self) -> Catalog:
        """A client of the catalog."""
        if self._catalog is None:
            self._catalog = load_catalog(CATALOG, **_properties(self._folder))
        return self._catalog
