"""A run directory that is filled from another: the files that were copied, and those that a load of its state replays.

Promise: a file whose copy failed, so that nobody knows whether it is there, is dropped before it is copied again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tenure.progress import Counter
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import StateIds
from tenure.rundirs.state_files import checksums_of, files_of_zip, is_unique_table


@dataclass(frozen=True, slots=True)
class Replay:
    """What a load of the newest version of a state store replays."""

    version: int
    unique: str
    """The version's id."""
    changes: int
    """Bytes of the changelogs above the newest snapshot."""
    tables: int
    """Bytes of the tables of the newest snapshot."""


@dataclass(slots=True)
class Mirrored:
    """A run directory that nobody runs on yet, and its files from `source`. Used by one copy at a time."""

    source: RunDirectory
    target: RunDirectory
    files: set[str] = field(default_factory=set)
    """The paths of the copied files."""
    begun: set[str] = field(default_factory=set)
    """The paths of files whose copy failed: they may be there, or in part."""
    tables: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Copied RocksDB zip -> the files that it refers to, with their bytes."""
    commits: dict[int, StateIds | None] = field(default_factory=dict)
    """The entries of the source's commit log that were read."""
    replays: dict[str, Replay] = field(default_factory=dict)
    """Folder of a state store without column families -> what its load replays. The other stores have none."""
    snapshots: dict[str, str] = field(default_factory=dict)
    """Folder of a state store -> the zip of a snapshot that was made in `target`."""
    with_tables: bool = True
    """Whether RocksDB's tables with unique names are copied, too."""
    counter: Counter = field(default_factory=Counter)
    """Counts what the present copy copies."""

    @property
    def table_sizes(self) -> Mapping[str, int]:
        """RocksDB's tables with unique names to which the copied files refer: path -> bytes."""
        return {
            f"{zipped.rpartition('/')[0]}/{path}": size
            for zipped, files in self.tables.items()
            for path, size in files.items()
            if is_unique_table(path)
        }

    def bring(self, path: str, copy: Callable[[], None]) -> None:
        """Let `copy` copy a new file, in the place of what an earlier copy that failed may have left. The file never
        changes, so a copy that arrives late is the same. Several threads at a time, each with files of its own."""
        if path in self.begun:
            self.target.drop(path)
        self.begun.add(path)
        copy()
        self.begun.remove(path)
        self.files.add(path)

    def change(self, path: str, data: bytes) -> None:
        """Give a file that was brought another content, in a file of its own: it may be the source's, under another
        name. If that fails, the file is brought again."""
        self.files.discard(path)
        self.begun.add(path)
        self.bring(path, partial(self.target.write, path, data))

    def add_snapshot(self, folder: str, path: str) -> None:
        """Note the zip of a snapshot that was made in `target`, and remove the older snapshot. Raises StorageError,
        CorruptRunDirectory."""
        self.drop_snapshot(folder)
        self.tables[path] = files_of_zip(self.target.read(path), where=self.target.where(path))
        self.snapshots[folder] = path
        self.replays.pop(folder, None)

    def drop_snapshot(self, folder: str) -> None:
        """Remove the zip of a snapshot that was made, if there is one, and its checksums. A newer snapshot has come, or
        the leader's of the same name. Its tables stay for Spark to remove."""
        path = self.snapshots.get(folder)
        if path is not None:
            for file in (path, *checksums_of(path)):
                self.target.drop(file)
            self.tables.pop(path, None)
            del self.snapshots[folder]  # at last: after an error of the storage, all are dropped again
