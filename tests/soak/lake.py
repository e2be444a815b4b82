"""The Iceberg tables that a run writes to, and their reader, polars. Their catalog is a file of SQLite, or a server
that keeps the tables, too.

Promise: `rows` follows the table's metadata from the file that the catalog names, by code that is not pyiceberg's where
it comes to data. While the catalog is away, nobody reads or writes in it, and `rows` stays as it was.
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
from tests.kit.servers import SeaweedFs
from tests.kit.waiting import NEVER_S
from tests.soak.kinds import KINDS
from tests.soak.plan import CATALOG, Query
from tests.soak.targets import Away, ServerAway

_PATIENCE_S: Final = 1
"""For how long a client waits for the lock of the catalog's file."""


def environment_of(folder: Path, server: SeaweedFs | None) -> Mapping[str, str]:
    """The variables by which members know the catalog of a run."""

    def variable(name: str) -> str:
        return f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper().replace('-', '_').replace('.', '__')}"

    return {variable(name): value for name, value in _properties(folder, server).items()}


def _properties(folder: Path, server: SeaweedFs | None) -> Mapping[str, str]:
    if server is not None:
        return server.warehouse(folder.name)
    return {
        "type": "sql",
        "uri": f"sqlite:///{_file(folder)}?timeout={_PATIENCE_S}",
        "warehouse": f"file://{folder}/output",
    }


def _file(folder: Path) -> Path:
    return folder / "catalog.db"


class Lake:
    """The tables of one run. One thread reads; another one lets the catalog leave and come back."""

    def __init__(self, folder: Path, server: SeaweedFs | None) -> None:
        """`server`: of the catalog and the tables; None: they are files in the folder."""
        self._folder = folder
        self._server = server
        self._away: Away = _Locked(_file(folder)) if server is None else ServerAway(server)
        self._catalog: Catalog | None = None  # None: not used yet
        self._read: dict[str, tuple[str, list[Row]]] = {}  # query -> the metadata that was read, and its rows

    def make(self, queries: Sequence[Query]) -> None:
        """Make the catalog; the sink makes the tables."""
        if self._server is not None:
            self._server.new_warehouse(self._folder.name)
        self.catalog.create_namespace(CATALOG)

    def rows(self, query: Query) -> list[Row]:
        """What polars reads in the table of a query."""
        before, rows = self._read.get(query.name, ("", []))
        try:
            table = self.catalog.load_table(f"{CATALOG}.{query.name}")
            if table.metadata_location == before:
                return rows
            found = polars.scan_iceberg(table, reader_override="native").select(KINDS[query.kind].columns)
            rows = found.collect().rows()
        except NoSuchTableError:
            return []
        except (OperationalError, OSError):  # the catalog is away, or a member was stopped while it had the file
            return rows
        self._read[query.name] = table.metadata_location, rows
        return rows

    def leave(self) -> None:
        """Take the catalog away."""
        self._away.leave()

    def come_back(self) -> None:
        """Bring it back."""
        self._away.come_back()

    def close(self) -> None:
        """Close the connections to the catalog."""
        if self._catalog is not None:
            self._catalog.close()

    @property
    def catalog(self) -> Catalog:
        """A client of the catalog."""
        if self._catalog is None:
            self._catalog = load_catalog(CATALOG, **_properties(self._folder, self._server))
        return self._catalog


class _Locked:
    """A file of SQLite that is away while it is locked."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: sqlite3.Connection | None = None  # None: the file is there

    def leave(self) -> None:
        """Lock it."""
        self._lock = sqlite3.connect(self._file, timeout=NEVER_S, isolation_level=None, check_same_thread=False)
        self._lock.execute("begin exclusive")

    def come_back(self) -> None:
        """Unlock it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
