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
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet as pq

from tenure.errors import StorageError, UsageError
from tenure.storage.location import reach, told

_FORMAT: Final = 1
_PARTS: Final = ("files", "report", "listing")
"""The folders in that of a plan."""
_HALF: Final = re.compile(r"\.[0-9a-f]{16}-plan\.json")
"""What is left of a process that was killed when it said that the plan is whole."""
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
    """The folder of a plan, on a local disk or any storage that fsspec reaches. No I/O in the constructor."""

    def __init__(self, url: str) -> None:
        self._place = reach(url, what="plan")
        self._fs = self._place.fs
        self._root = self._place.root
        self.url = url.rstrip("/")

    def begin(self) -> None:
        """Make the folder, which must be new, or empty, or have a plan that did not become whole.

        Raises UsageError, StorageError.
        """
        with self._told():
            found = self._fs.ls(self._root, detail=False) if self._fs.exists(self._root) else []
            paths = {path.rstrip("/") for path in found} - {self._root}  # object stores list a folder's own marker
            names = {path.rsplit("/", 1)[-1] for path in paths}
            if not {name for name in names if not _HALF.fullmatch(name)} <= set(_PARTS):
                raise UsageError(f"{self.url} is not empty", fix="name a new folder for the plan")
            for name in names:
                self.remove(name)
            for name in _PARTS:
                self._fs.makedirs(f"{self._root}/{name}", exist_ok=True)

    def end(self, about: About) -> None:
        """Say that the plan is whole."""
        with self._told():
            self._put(f"{self._root}/plan.json", json.dumps({"format": _FORMAT, **asdict(about)}).encode())

    def about(self) -> About:
        """What it is a plan of. Raises UsageError: there is no plan, or none that is whole."""
        with self._told():
            try:
                found: dict[str, Any] = json.loads(self._fs.cat_file(f"{self._root}/plan.json"))
                if found.pop("format") != _FORMAT:
                    raise ValueError("it has a format that this version does not read")
                return About(**found)
            except FileNotFoundError:
                raise UsageError(f"there is no whole plan in {self.url}", fix="tenure sweep plan makes one") from None
            except (ValueError, TypeError, KeyError) as error:
                raise UsageError(f"{self.url}/plan.json is no plan: {error}", fix="make a new one") from error

    def write(self, folder: str, name: str, rows: pa.Table) -> None:
        """One part of `files` or of `listing`, or what became of one (`report`); whole, or not there."""
        path = f"{self._root}/{folder}/{name}.parquet"
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer)
        with self._told():
            try:
                self._put(path, buffer.getvalue().to_pybytes())
            except FileNotFoundError as error:
                raise StorageError(f"plan {self.url}: {error}", fix="make the plan anew, its folder is gone") from error

    def _put(self, path: str, data: bytes) -> None:
        """Write a file; it is there as a whole, or not at all."""
        folder, _, name = path.rpartition("/")
        hidden = f"{folder}/.{os.urandom(8).hex()}-{name}"  # its own: a task may run twice at a time
        if self._place.is_hdfs:
            self._fs.put_whole(hidden, path, data, overwrite=True)
            return
        if not self._place.is_local:
            self._fs.pipe_file(path, data)
            return
        try:
            with open(hidden, "xb") as file:
                file.write(data)
            os.replace(hidden, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(hidden)
            raise

    def read(self, folder: str, name: str) -> pa.Table:
        """Raises StorageError: it cannot be read, or not as what it should be."""
        path = f"{folder}/{name}.parquet"
        try:
            with self._told(), self._fs.open(f"{self._root}/{path}", "rb") as file:
                return pq.read_table(file)
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            raise StorageError(f"plan {self.url}: {path} is damaged: {error}", fix="make a new plan") from error

    def remove(self, folder: str) -> None:
        """Remove one of its folders; one that is not there is fine."""
        with self._told(), suppress(FileNotFoundError):
            self._fs.rm(f"{self._root}/{folder}", recursive=True)

    def parts(self) -> list[str]:
        """The names of the parts of the plan."""
        return self._names("files")

    def reported(self) -> list[str]:
        """Those that were applied."""
        return self._names("report")

    def _names(self, folder: str) -> list[str]:
        with self._told():
            try:
                found = self._fs.ls(f"{self._root}/{folder}", detail=False)
            except FileNotFoundError:
                return []
        names = (path.rsplit("/", 1)[-1] for path in found)
        return sorted(name.removesuffix(".parquet") for name in names if name.endswith(".parquet") and name[0] != ".")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what a file system raises into ours; a missing file stays what it is."""
        try:
            yield
        except FileNotFoundError:
            raise
        except self._place.errors as error:
            raise StorageError(f"plan {self.url}: {told(error)}", fix="check its folder and the permissions") from error
