"""What attempts have staged beside one Delta table, and no log names.

Promise (I8, when a pipeline has ended: each of its batches is in the table): what is there is listed first, and then
looked for in the table's log, among the files that it has and those that it had. A batch that the table has is taken
from nobody else any more, so what was not named then never will be. Only directories that Tenure itself named are
touched. Not promised: anything about what delta-rs wrote by itself (a refused merge): the table's VACUUM removes that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from tenure.blobs.folders import Folders
from tenure.coordination.term import Term
from tenure.errors import StorageError
from tenure.spark.sinks.location import Location
from tenure.spark.sinks.staging import StagingPath, folder_of


class DeltaLeavings:
    """The attempts of one query beside one table. Its names are paths below the table; those of folders without an
    attempt in them end with `/`."""

    def __init__(self, location: Location, *, storage_options: Mapping[str, str], scope: str, query: str) -> None:
        self._location = location
        self._options = dict(storage_options)
        self._folder = folder_of(scope, query)
        self._own = re.compile(rf"{re.escape(self._folder)}(/e\d{{8,}}(/b\d{{12,}})?)?")

    def find(self) -> Sequence[str]:
        """The attempts that no log names, and empty folders. Raises StorageError."""
        try:
            found = self._listed()
            attempts = sorted({path for path in map(StagingPath.parse, found) if path is not None}, key=str)
            named = self._named() if attempts else frozenset()
        except (DeltaError, OSError) as error:
            raise StorageError(f"cannot look for staged files at {self._location}: {error}") from error
        filled = {path.rpartition("/")[0] for path in found}
        empty = [f"{path}/" for path in sorted(found) if path not in filled and self._own.fullmatch(path)]
        return [*(str(path) for path in attempts if path.attempt not in named), *empty]

    def remove(self, term: Term, name: str) -> None:
        """Remove an attempt, or an empty folder, and the folders above it that are empty then. Raises StorageError."""
        path = name.rstrip("/")
        if path == name:
            try:
                self._location.filesystem(self._options).delete_dir(path)
            except FileNotFoundError:
                pass  # it is gone
            except OSError as error:
                raise StorageError(f"cannot remove {self._location}/{name}: {error}") from error
        if self._location.is_local:  # an object store has no empty folders
            for folder in [path, *_parents(path)]:
                Folders(self._location.table).remove_empty(folder)

    def _listed(self) -> set[str]:
        """The folder of the query and all that is in it, by paths; empty: there is no such folder."""
        filesystem = self._location.filesystem(self._options)
        inside = filesystem.get_file_info(fs.FileSelector(self._folder, recursive=True, allow_not_found=True))
        own = filesystem.get_file_info([self._folder])
        return {info.path for info in [*inside, *own] if info.type is not fs.FileType.NotFound}

    def _named(self) -> frozenset[str]:
        """The attempts of which the table's log names a file, also one that is no longer in the table: who reads an
        older version needs it, until the table's VACUUM."""
        try:
            table = DeltaTable(self._location.table, storage_options=self._options or None)
        except TableNotFoundError:
            return frozenset()
        paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
        paths += table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)  # those that it had
        attempts = {StagingPath.parse(path) for path in paths}
        return frozenset(path.attempt for path in attempts if path is not None)


def _parents(name: str) -> list[str]:
    """The folders above an attempt, below the table, the nearest first."""
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1)]
