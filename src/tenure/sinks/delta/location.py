"""The place of a table, in the spelling of each of its two writers.

Promise: delta-rs, pyarrow and Spark get the same place, with any working directory and default file system. No I/O.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from tenure.storage.urls import hadoop_url, one_spelling, path_on_disk


@dataclass(frozen=True, slots=True)
class Location:
    """The place of a table. `table`: its absolute path or URL, without a `/` at its end."""

    table: str
    disk: str | None
    """The path of the table on a local disk, where folders exist by themselves; None: it is in an object store."""

    @classmethod
    def of(cls, path_or_url: str | os.PathLike[str]) -> Location:
        text = os.fspath(path_or_url)
        disk = path_on_disk(text)
        return cls(disk or one_spelling(text.rstrip("/")), disk)

    def for_spark(self, relative: str) -> str:
        """The address of a path below the table, in Hadoop's spelling."""
        return f"{hadoop_url(self.table)}/{relative}"

    def filesystem(self, storage_options: dict[str, str]) -> Any:
        """A pyarrow file system whose root is the table; it has the same credentials as the commits."""
        from pyarrow import fs

        if self.disk is not None:
            return fs.SubTreeFileSystem(self.disk, fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.table, storage_options or None))

    def __str__(self) -> str:
        return self.table
