"""What attempts have staged beside one Delta table, and no log names.

Promise (I8): what is there is listed first, and then looked for in the table's log, among the files that it has and
those that it had. A batch that the table has is taken from nobody else any more, so what was not named then never will
be; of a pipeline that has ended, the table has every batch. While one goes on, an attempt of an earlier epoch goes when
the table has its batch, or the batch was never planned under this id of the query: nobody of that epoch can plan it any
more. What is between the two stays: its leader may be paused before its commit, and wake up. Only directories that
Tenure itself named are touched. Not promised: anything about what delta-rs wrote by itself (a refused merge): the
table's VACUUM removes that.
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
from tenure.spark.sinks.delta_log import app_id_of
from tenure.spark.sinks.location import Location
from tenure.spark.sinks.sink import Attempts
from tenure.spark.sinks.staging import PREFIX, StagingPath, folder_of

_FOLDER = re.compile(rf"{PREFIX}[^/]+/[^/]+/[^/]+(/e(?P<epoch>\d{{8,}})(/b\d{{12,}})?)?")


class DeltaLeavings:
    """The attempts of one query beside one table. Its names are paths below the table; those of folders without an
    attempt in them end with `/`. Used by one thread."""

    def __init__(self, location: Location, attempts: Attempts, *, storage_options: Mapping[str, str]) -> None:
        self._location = location
        self._attempts = attempts
        self._options = dict(storage_options)
        self._committed: set[str] = set()  # the log has named these attempts: they need no second look

    def find(self) -> Sequence[str]:
        """The attempts that no log names, nor ever will, and empty folders. Raises StorageError, StoreError,
        Corrupt."""
        try:
            found = self._listed()
            attempts = {path for path in map(StagingPath.parse, found) if path is not None and self._is_old(path.epoch)}
            lost = self._lost({path for path in attempts if path.attempt not in self._committed})
        except (DeltaError, OSError) as error:
            raise StorageError(f"cannot look for staged files at {self._location}: {error}") from error
        filled = {path.rpartition("/")[0] for path in found}
        empty = [path for path in sorted(found - filled) if self._is_own(path)]
        if self._attempts.epoch is None and not found:
            empty = self._above()
        return [*sorted(map(str, lost)), *(f"{path}/" for path in empty)]

    def _lost(self, attempts: set[StagingPath]) -> set[StagingPath]:
        """Those of the attempts that nobody can commit any more."""
        if not attempts:
            return set()
        planned = self._attempts.planned()
        table = self._table()
        if table is not None:
            self._committed |= _named(table)
        lost = {path for path in attempts if path.attempt not in self._committed}
        if self._attempts.epoch is None:
            return lost
        app_id = app_id_of(self._attempts.scope, self._attempts.query, planned.query_id)
        taken = None if table is None else table.transaction_version(app_id)
        newest = -1 if taken is None else taken
        return {
            path
            for path in lost
            if path.query_id != planned.query_id or path.batch > planned.batch or path.batch <= newest
        }

    def _is_old(self, epoch: int) -> bool:
        return self._attempts.epoch is None or epoch < self._attempts.epoch

    def _is_own(self, path: str) -> bool:
        """Whether Tenure made this folder, and nobody puts anything there."""
        found = _FOLDER.fullmatch(path)
        if found is None:
            return False
        return self._attempts.epoch is None or (found["epoch"] is not None and self._is_old(int(found["epoch"])))

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
                if self._attempts.epoch is None or self._is_own(folder):
                    Folders(self._location.table).remove_empty(folder)

    def _listed(self) -> set[str]:
        """The folders of the query and all that is in them, by paths; empty: there is no such folder."""
        filesystem = self._location.filesystem(self._options)
        found = []
        for query_id in self._attempts.query_ids():
            folder = folder_of(self._attempts.scope, self._attempts.query, query_id)
            found += filesystem.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
            found += filesystem.get_file_info([folder])
        return {info.path for info in found if info.type is not fs.FileType.NotFound}

    def _above(self) -> list[str]:
        """The folder above those of the query, or the one above that, if it was left with nothing in it."""
        folders = _parents(folder_of(self._attempts.scope, self._attempts.query, "-"))
        return [folder for folder in folders if Folders(self._location.table).is_empty(folder)]

    def _table(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._location.table, storage_options=self._options or None)
        except TableNotFoundError:
            return None


def _named(table: DeltaTable) -> set[str]:
    """The attempts of which the table's log names a file, also one that is no longer in the table: who reads an older
    version needs it, until the table's VACUUM."""
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    paths += table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)  # those that it had
    attempts = {StagingPath.parse(path) for path in paths}
    return {path.attempt for path in attempts if path is not None}


def _parents(name: str) -> list[str]:
    """The folders above an attempt, below the table, the nearest first."""
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1)]
