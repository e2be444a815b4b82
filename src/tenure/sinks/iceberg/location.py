"""The folder of a table's data, in the spelling of each of its readers.

Promise: no I/O. Names are taken letter by letter, as Iceberg's readers take them: `%20` is three letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenure.storage.urls import hadoop_url

_FILE: Final = re.compile(r"file:(?://)?(?=/)")


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The folder below which the files of batches lie. `data`: as the table spells it, without a `/` at its end."""

    data: str

    @property
    def disk(self) -> str | None:
        """The folder on a local disk, where folders exist by themselves; None: it is in an object store."""
        if self.data.startswith("/"):
            return self.data
        found = _FILE.match(self.data)
        return None if found is None else self.data[found.end() :]

    def for_spark(self, relative: str) -> str:
        """The address of a path below the folder, in Hadoop's spelling."""
        return f"{hadoop_url(self.disk or self.data)}/{relative}"

    def named(self, relative: str) -> str:
        """The name of a file below the folder, in the table."""
        return f"{self.data}/{relative}"

    def filesystem(self, properties: Mapping[str, str]) -> Any:
        """A pyarrow file system whose root is the folder. `properties`: of the table's own file system, so that it has
        the same credentials."""
        from pyarrow import fs
        from pyiceberg.io.pyarrow import PyArrowFileIO

        if self.disk is not None:
            return fs.SubTreeFileSystem(self.disk, fs.LocalFileSystem())
        scheme, host, path = PyArrowFileIO.parse_location(self.data, dict(properties))
        return fs.SubTreeFileSystem(path, PyArrowFileIO(dict(properties)).fs_by_scheme(scheme, host))

    def __str__(self) -> str:
        return self.data
