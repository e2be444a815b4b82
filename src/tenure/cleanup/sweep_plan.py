"""A plan of a sweep: which files go, as Parquet that anybody can look at; and the report of what became of them.

A folder has `plan.json` (what it is a plan of), `files/*.parquet` (`path` below the storage, `size` in bytes or null,
`kind`: a row of the cleanup's plan, `unit`: the orphan that the file is part of) and, once it is applied, one
`report/*.parquet` for each of these (`path`, `outcome`: removed, gone or failed, `why`).

Promise: a plan never becomes wrong by getting old. What is in it was listed before the records were read, is of an
earlier epoch than the newest one, or of a member whose session was gone, and is named by no record: nobody can name it
ever after (`cleanup/orphans.py`). So it needs no term, and may be applied at any time, and again. Not promised: that a
plan is complete: what appears later is for the next one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

from tenure.errors import BlobNotFound, StorageError, UsageError
from tenure.storage.names import is_unfinished
from tenure.storage.reach import reach

_FORMAT: Final = 1
_PARTS: Final = ("files", "report", "listing")
"""The folders in that of a plan."""
_ABOUT: Final = "plan.json"
LISTED: Final = pa.schema(
    [("folder", pa.dictionary(pa.int32(), pa.string())), ("name", pa.string()), ("size", pa.int64())]
)
"""Files as they were listed; the size is null where the listing did not tell it."""
FILES: Final = pa.schema([("path", pa.string()), ("size", pa.int64()), ("kind", pa.string()), ("unit", pa.string())])
REPORT: Final = pa.schema([("path", pa.string()), ("outcome", pa.string()), ("why", pa.string())])


@dataclass(frozen=True, slots=True)
class About:
    """What a plan is of."""

    scope: str
    storage: str
    """URL of the scope's part of the storage, or of a table."""
    epoch: int
    """Everything in the plan is of an earlier one, or of a member that was gone."""
    holder: str
    """Who led then; empty: nobody did."""
    made_at: str
    listed: int
    """Files that were looked at."""
    files: int
    """Of these, those that go."""
    bytes: int | None
    """None: nobody has asked for their sizes."""
    table: bool = False
    """Whether `storage` is a table, and the files are staged beside it."""
    owner: str = ""
    """The newest mark in the scope's part of the storage when the files were listed; empty: nobody ever led."""
    marked: str = ""
    """URL of that part, also of a plan of a table; empty: as before."""


class Plan:
    """The folder of a plan, on any storage. No I/O in the constructor."""

    def __init__(self, url: str) -> None:
        self._storage = reach(url, what="plan")
        self.url = url.rstrip("/")

    def begin(self) -> None:
        """Make the folder, which must be new, or empty, or have a plan that did not become whole.

        Raises UsageError, StorageError.
        """
        names = [entry.name for entry in self._storage.entries()]
        if not {name for name in names if not is_unfinished(name)} <= set(_PARTS):
            raise UsageError(f"{self.url} is not empty", fix="name a new folder for the plan")
        for name in names:
            self.remove(name)
        for name in _PARTS:
            self._storage.make_folder(name)

    def end(self, about: About) -> None:
        """Say that the plan is whole."""
        self._storage.replace(_ABOUT, json.dumps({"format": _FORMAT, **asdict(about)}).encode())

    def about(self) -> About:
        """What it is a plan of. Raises UsageError: there is no plan, or none that is whole."""
        try:
            found: dict[str, Any] = json.loads(self._storage.read(_ABOUT))
            if found.pop("format") != _FORMAT:
                raise ValueError("it has a format that this version does not read")
            return About(**found)
        except BlobNotFound:
            raise UsageError(f"there is no whole plan in {self.url}", fix="tenure sweep plan makes one") from None
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{self.url}/{_ABOUT} is no plan: {error}", fix="make a new one") from error

    def write(self, folder: str, name: str, rows: pa.Table) -> None:
        """Write a part of `files` or of `listing`, or the report of a part; it is whole, or not there."""
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer)
        self._storage.replace(f"{folder}/{name}.parquet", buffer.getvalue().to_pybytes())

    def read(self, folder: str, name: str) -> pa.Table:
        """Raises StorageError: it cannot be read, or not as what it should be."""
        path = f"{folder}/{name}.parquet"
        try:
            return pq.read_table(pa.BufferReader(self._storage.read(path)))
        except (BlobNotFound, pa.ArrowInvalid) as error:
            raise StorageError(f"plan {self.url}: {path} is damaged: {error}", fix="make a new plan") from error

    def remove(self, folder: str) -> None:
        """Remove one of its folders; one that is not there is fine."""
        self._storage.remove(folder)

    def parts(self) -> list[str]:
        """The names of the parts of the plan."""
        return self._names("files")

    def reported(self) -> list[str]:
        """Those that were applied."""
        return self._names("report")

    def _names(self, folder: str) -> list[str]:
        names = [entry.name for entry in self._storage.entries(folder)]
        return [name.removesuffix(".parquet") for name in names if name.endswith(".parquet") and name[0] != "."]
