"""Where a table lies, as each of its two writers spells it.

Promise: delta-rs, pyarrow and Spark are given the same place, whatever their working directories and default file
systems are. No I/O.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Location:
    """A local directory (absolute path) or the URL of one in an object store, without a trailing slash."""

    table: str
    is_local: bool

    @classmethod
    def of(cls, path_or_url: str | os.PathLike[str]) -> Location:
        text = os.fspath(path_or_url)
        if "://" not in text and not text.startswith("file:"):
            return cls(os.path.abspath(text), is_local=True)
        if text.startswith("file:"):
            return cls(os.path.abspath(unquote(urlsplit(text).path)), is_local=True)
        return cls(text.rstrip("/"), is_local=False)

    def for_spark(self, relative: str) -> str:
        """The address of a path below the table, in Hadoop's spelling."""
        if self.is_local:
            return f"file://{self.table}/{relative}"
        base = "s3a://" + self.table.removeprefix("s3://") if self.table.startswith("s3://") else self.table
        return f"{base}/{relative}"

    def filesystem(self, storage_options: dict[str, str]) -> Any:
        """A pyarrow file system whose root is the table; it has the same credentials as the commits."""
        from pyarrow import fs

        if self.is_local:
            return fs.SubTreeFileSystem(self.table, fs.LocalFileSystem())
        from deltalake.fs import DeltaStorageHandler

        return fs.PyFileSystem(DeltaStorageHandler(self.table, storage_options or None))

    def __str__(self) -> str:
        return self.table
