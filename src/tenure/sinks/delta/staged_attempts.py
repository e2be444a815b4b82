"""What attempts have staged beside one Delta table, and no log names.

Promise (I8): what is there is listed first, and then looked for in the table's log, among the files that it has and
those that it had. A batch that the table has is taken from nobody else any more, so what was not named then never will
be; of a pipeline that has ended, the table has every batch. While one goes on, an attempt of an earlier epoch goes when
the table has its batch, or the batch was never planned under this id of the query: nobody of that epoch can plan it any
more. What is between the two stays: its leader may be paused before its commit, and wake up. Only directories that
Tenure itself named are touched. Not promised: anything about what delta-rs wrote by itself (a refused merge), nor
about what is older than the log remembers the files that a table had: the table's VACUUM removes both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from tenure.coordination.term import Term
from tenure.errors import StorageError
from tenure.sinks.delta.history import Remembered, named_among, open_table
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import app_id_of
from tenure.sinks.delta.orphans import QuerySeen, is_over, was_never_planned
from tenure.sinks.delta.staging import PREFIX, StagingPath, folder_of
from tenure.sinks.sink import Attempts, Planned
from tenure.storage.folders import Folders

_FOLDER = re.compile(rf"{PREFIX}[^/]+/[^/]+/[^/]+(/e(?P<epoch>\d{{8,}})(?P<batch>/b\d{{12,}})?)?")


class StagedAttempts:
    """The attempts of one query beside one table. Its names are paths below the table; those of folders without an
    attempt in them end with `/`. Used by one thread."""

    def __init__(self, location: Location, attempts: Attempts, *, storage_options: Mapping[str, str]) -> None:
        self._location = location
        self._attempts = attempts
        self._options = dict(storage_options)
        self._settled: dict[str, int] = {}
        """For each epoch's folder: in those of batches up to this one there is nothing but what the log names."""
        self._committed: set[StagingPath] = set()  # the log names these of the others, and will not forget them soon

    def find(self) -> Sequence[str]:
        """The attempts that no log names, nor ever will, and empty folders. Raises StorageError, StoreError,
        Corrupt."""
        try:
            found = self._listed()
            attempts = {path for path in map(StagingPath.parse, found) if path is not None}
            committed, lost = self._judged(attempts)
        except (DeltaError, OSError, ValueError) as error:
            raise StorageError(f"cannot look for staged files at {self._location}: {error}") from error
        self._settle(found, committed)
        filled = {path.rpartition("/")[0] for path in found}
        empty = [path for path in sorted(found - filled) if self._is_own(path)]
        if self._attempts.epoch is None and not found:
            empty = self._above()
        return [*sorted(map(str, lost)), *(f"{path}/" for path in empty)]

    def _judged(self, attempts: set[StagingPath]) -> tuple[set[StagingPath], set[StagingPath]]:
        """Those that the table's log names, and those that nobody can commit any more."""
        known = attempts & self._committed
        if known == attempts:
            return known, set()
        planned = None if self._attempts.epoch is None else self._attempts.planned()
        table = open_table(self._location, self._options)
        named = frozenset() if table is None else self._named(table, attempts - known)
        committed = self._committed = known | {path for path in attempts if path.attempt in named}
        seen = QuerySeen(planned, self._taken(table, planned))
        never = {path for path in attempts - committed if was_never_planned(path, seen)}
        over = {path for path in attempts - committed - never if is_over(path, seen)}
        return committed, never | (over if table is None else self._young(over, table))

    def _young(self, attempts: set[StagingPath], table: DeltaTable) -> set[StagingPath]:
        """Those which the log would name if the table had ever had them."""
        if not attempts:
            return set()
        filesystem = self._location.filesystem(self._options)
        remembered = Remembered.of(table, filesystem)
        return {path for path in attempts if remembered.is_young(path, filesystem)}

    def _named(self, table: DeltaTable, attempts: set[StagingPath]) -> frozenset[str]:
        return named_among(table, self._location.filesystem(self._options), {path.attempt for path in attempts})

    def _taken(self, table: DeltaTable | None, planned: Planned | None) -> int:
        if table is None or planned is None:
            return -1
        found = table.transaction_version(app_id_of(self._attempts.scope, self._attempts.query, planned.query_id))
        return -1 if found is None else found

    def _settle(self, found: set[str], committed: set[StagingPath]) -> None:
        """Remember which folders of batches need no second look; the newest two of an epoch do: a leader that is
        fenced may have an attempt at them in the making."""
        if self._attempts.epoch is None or not self._location.is_local:
            return
        named = set(map(str, committed))
        inside: dict[str, list[str]] = {}
        for path in found:
            inside.setdefault(path.rpartition("/")[0], []).append(path)
        for path in found:
            epoch = _FOLDER.fullmatch(path)
            if epoch is None or epoch["epoch"] is None or epoch["batch"] is not None:
                continue
            batches = sorted(folder for folder in inside.get(path, ()) if _FOLDER.fullmatch(folder))
            for folder in batches[:-2]:
                if not inside.get(folder) or not named.issuperset(inside[folder]):
                    break
                self._settled[path] = int(folder.rpartition("/b")[2])

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
        """The folders of the query and what is in them, down to the attempts of earlier epochs, by paths; without those
        that need no second look. Empty: there is no such folder."""
        filesystem = self._location.filesystem(self._options)
        found: set[str] = set()
        for query_id in self._attempts.query_ids():
            folder = folder_of(self._attempts.scope, self._attempts.query, query_id)
            if filesystem.get_file_info([folder])[0].type is fs.FileType.NotFound:
                continue
            found.add(folder)
            if self._location.is_local:
                found.update(self._below(filesystem, folder))
            else:  # a page of a thousand objects costs as much as one folder
                inside = filesystem.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
                found.update(info.path for info in inside if self._concerns(info.path))
        return found

    def _below(self, filesystem: Any, folder: str) -> Iterator[str]:
        for info in filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
            if not self._concerns(info.path) or self._is_settled(info.path):
                continue
            yield info.path
            if _FOLDER.fullmatch(info.path) and info.type is fs.FileType.Directory:
                yield from self._below(filesystem, info.path)

    def _concerns(self, path: str) -> bool:
        found = _FOLDER.match(path)
        return found is None or found["epoch"] is None or self._is_old(int(found["epoch"]))

    def _is_settled(self, path: str) -> bool:
        folder, _, batch = path.rpartition("/b")
        return folder in self._settled and batch.isdigit() and int(batch) <= self._settled[folder]

    def _above(self) -> list[str]:
        """The folder above those of the query, or the one above that, if it was left with nothing in it."""
        folders = _parents(folder_of(self._attempts.scope, self._attempts.query, "-"))
        return [folder for folder in folders if Folders(self._location.table).is_empty(folder)]


def _parents(name: str) -> list[str]:
    """The folders above an attempt, below the table, the nearest first."""
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(len(parts) - 1, 0, -1)]
