"""How the demo reads its output: as a reader who knows nothing of Tenure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import parquet as pq
from pyarrow.dataset import dataset
from pyarrow.fs import FSSpecHandler, PyFileSystem

from tenure.storage.engines import delta_options
from tenure.storage.reach import reach
from tenure.storage.remote import Remote

Rows = list[dict[str, Any]]

SINKS: Final = ("delta", "files")


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
    return DeltaOutput(url) if sink == "delta" else FolderOutput(Path(url))


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
