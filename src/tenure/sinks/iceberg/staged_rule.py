"""The staged output of one query beside an Iceberg table, with the rule of `sinks/staging/rule.py`: the newest plans,
and then the table.

Not promised: the removal of files beside those that the table names of an attempt, of manifests of refused commits, and
of attempts that are older than the table's snapshots: the table's own search for orphan files removes these. Nor of the
files at a place that the table has left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenure.cleanup.engine import Listable
from tenure.coordination.term import Term
from tenure.sinks.iceberg.history import SnapshotHistory
from tenure.sinks.iceberg.location import DataFolder
from tenure.sinks.iceberg.table import IcebergTable
from tenure.sinks.sink import Attempts
from tenure.sinks.staging.rule import QueryProgress, StagedRule
from tenure.sinks.staging.staged_attempts import Beside, StagedAttempts, StagedObjects
from tenure.storage.reach import reach
from tenure.storage.storage import Entry


class StagedBeside:
    """The attempts of one query below the folder of a table's data. The table says where that is, so that the catalog
    is asked at each look. Used by one thread."""

    def __init__(self, table: Callable[[], IcebergTable], attempts: Attempts) -> None:
        """`table`: opens the table; nothing of it is read yet."""
        self._open = table
        self._attempts = attempts
        self._table: IcebergTable | None = None  # None: not used yet
        self._found: StagedAttempts | None = None  # None: there is no table
        self._location: DataFolder | None = None

    def find(self) -> Sequence[str]:
        """As `StagedAttempts.find`. Nothing is staged where there is no table."""
        self._look()
        return [] if self._found is None else self._found.find()

    def remove(self, term: Term, name: str) -> None:
        """As `StagedAttempts.remove`."""
        if self._found is None:
            self._look()
        if self._found is not None:
            self._found.remove(term, name)

    def _look(self) -> None:
        self._table = table = self._table or self._open()
        table.refresh()
        location = table.layout.location if table.exists else None
        if location != self._location:
            self._location = location
            self._found = None if location is None else StagedAttempts(beside(table, location), self._attempts)


def beside(table: IcebergTable, location: DataFolder) -> Beside:
    """Where a query stages beside a table."""
    disk = location.disk
    properties: Mapping[str, str] = table.io_properties

    def storage() -> Listable:
        if disk is not None:
            return reach(disk)
        return StagedFiles(location.filesystem(table.io_properties if table.exists else properties), str(location))

    def read(attempts: Attempts) -> StagedRule:
        return read_rule(table, attempts)

    return Beside(storage, read, on_disk=disk is not None)


class StagedFiles(StagedObjects):
    """As `StagedObjects`. The table's client leaves an empty object in the place of a folder whose last file it has
    removed: only folders with files count."""

    def entries(self, path: str = "") -> Sequence[Entry]:
        """The content of a folder. Everything below a folder of the root is listed at once: a page of a thousand
        objects costs as much as one folder."""
        if "/" not in path:
            self._inside = {}
            for info in self._below(path, recursive=True):
                inner, is_folder = info.path, False
                while info.is_file and inner != path:
                    folder, _, name = inner.rpartition("/")
                    self._inside.setdefault(folder, {}).setdefault(name, Entry(name, is_folder))
                    inner, is_folder = folder, True
        return list(self._inside.get(path, {}).values())


def read_rule(table: IcebergTable, attempts: Attempts) -> StagedRule:
    """The rule of a query's attempts. Raises StorageError, StoreError, Corrupt."""
    scope, epoch = attempts.scope, attempts.epoch
    planned = None if epoch is None else attempts.planned()
    ids = frozenset(attempts.query_ids())
    table.refresh()
    taken, history = -1, None
    if table.exists:
        entry = None if planned is None else table.entry(planned.query_id)
        taken = -1 if entry is None or entry.scope != scope else entry.batch
        history = SnapshotHistory.of(table)
    progress = QueryProgress(planned, taken)
    return StagedRule(scope, epoch, {(attempts.query, query_id): progress for query_id in ids}, history)
