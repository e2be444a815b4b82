"""The attempts of which an Iceberg table names a file, or named a file earlier.

Promise: the summaries of the table's snapshots name the attempts. A snapshot that has expired is missed by its sequence
number, so that `young_among` returns only attempts that were staged after the last missing snapshot, with clocks up to
a minute apart: those were never in the table. No manifest is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from tenure.errors import StorageError
from tenure.sinks.iceberg.ledger import attempts_in
from tenure.sinks.iceberg.location import DataFolder
from tenure.sinks.iceberg.table import IcebergTable
from tenure.sinks.staging.stage import StagingPath

_APART_S: Final = 60
"""The largest difference between the clocks of machines."""


@dataclass(frozen=True, slots=True)
class SnapshotHistory:
    """The attempts that a table's snapshots name, and since when it has all its snapshots."""

    location: DataFolder
    io_properties: Mapping[str, str]
    named: Collection[str]
    """The folders of the attempts."""
    since_s: float
    """The time of the oldest snapshot after which none is missing."""

    @classmethod
    def of(cls, table: IcebergTable) -> SnapshotHistory:
        """The history of a table up to now."""
        named = attempts_in(table.properties, table.summaries)
        return cls(table.layout.location, table.io_properties, named, table.complete_since_s)

    def named_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """The attempts of which a snapshot, or the ledger, names a file."""
        return {path for path in attempts if str(path) in self.named}

    def young_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """The attempts that were staged so lately that a snapshot would name them if the table had ever had them.
        Raises StorageError."""
        if not attempts:
            return set()
        try:
            filesystem = self.location.filesystem(self.io_properties)
            return {path for path in attempts if self._staged_s(path, filesystem) > self.since_s + _APART_S}
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot look at the staged files at {self.location}: {error}") from error

    @staticmethod
    def _staged_s(path: StagingPath, filesystem: fs.FileSystem) -> float:
        inside = filesystem.get_file_info(fs.FileSelector(str(path), recursive=True, allow_not_found=True))
        return min(((info.mtime_ns or 0) / 1e9 for info in inside if info.is_file), default=float("inf"))
