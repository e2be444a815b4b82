"""A plan of a sweep: which files go, as Parquet that anybody can look at; and the report of what became of them.

A folder has `plan.json` (what it is a plan of), `files/*.parquet` (`path` below the storage, `size` in bytes, `kind`: a
row of the cleanup's plan, `unit`: the orphan that the file is part of) and, once it is applied, one `report/*.parquet`
for each of these (`path`, `outcome`: removed, gone or failed, `why`).

Promise: a plan never becomes wrong by getting old. What is in it was listed before the records were read, is of an
earlier epoch than the newest one, or of a member whose session was gone, and is named by no record: nobody can name it
ever after (`cleanup/orphans.py`). So it needs no term, and may be applied at any time, and again. Not promised: that a
plan is complete: what appears later is for the next one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from pyarrow import parquet as pq

from tenure.blobs.trees import File
from tenure.checkpoints.run_name import RUNS as RUNS_FOLDER
from tenure.cleanup.orphans import BLOBS as BLOBS_FOLDER
from tenure.cleanup.orphans import REHEARSALS as REHEARSALS_FOLDER
from tenure.cleanup.orphans import Seen, is_orphan
from tenure.cleanup.plan import BLOBS, REHEARSALS, RUNS
from tenure.errors import StorageError, UsageError

_FORMAT: Final = 1
FILES: Final = pa.schema([("path", pa.string()), ("size", pa.int64()), ("kind", pa.string()), ("unit", pa.string())])
REPORT: Final = pa.schema([("path", pa.string()), ("outcome", pa.string()), ("why", pa.string())])
FOLDERS: Final[Mapping[str, str]] = {RUNS_FOLDER: RUNS, REHEARSALS_FOLDER: REHEARSALS, BLOBS_FOLDER: BLOBS}
"""The folders of a scope's storage that are swept -> the kind of what lies there."""
_UNIT = re.compile(rf"(?:{RUNS_FOLDER}|{REHEARSALS_FOLDER})/[^/]+/[^/]+")


@dataclass(frozen=True, slots=True)
class About:
    """What a plan is of."""

    scope: str
    storage: str
    """URL of the scope's part of the storage."""
    epoch: int
    """Everything in the plan is of an earlier one, or of a member that was gone."""
    holder: str
    """Who led then; empty: nobody did."""
    made_at: str
    listed: int
    """Files that were looked at."""
    files: int
    """Of these, those that go."""
    bytes: int


def unit_of(path: str) -> str:
    """The run directory or rehearsal that a file is part of; a blob is one by itself."""
    found = _UNIT.match(path)
    return path if found is None else found[0]


def orphans_among(files: Iterable[File], seen: Seen) -> Iterator[tuple[str, int, str, str]]:
    """Those that nobody needs, as rows of `FILES`."""
    unit, orphan = "", False
    for file in files:
        of = unit_of(file.path)
        if of != unit:
            unit, orphan = of, is_orphan(of, seen)
        if orphan:
            yield file.path, file.size, FOLDERS[file.path.split("/", 1)[0]], of


class Plan:
    """The folder of a plan, on a local disk or any storage that fsspec reaches. No I/O in the constructor."""

    def __init__(self, url: str) -> None:
        try:
            self._fs, found = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise UsageError(f"plan {url!r} cannot be reached: {error}", fix="name a folder or a URL") from error
        self._root: str = found.rstrip("/")
        self.url = url.rstrip("/")

    @property
    def for_spark(self) -> str:
        """The folder in Hadoop's spelling."""
        if isinstance(self._fs, LocalFileSystem):
            return f"file://{self._root}"
        return f"s3a://{self.url.removeprefix('s3://')}" if self.url.startswith("s3://") else self.url

    def begin(self) -> None:
        """Make the folder, which must be new, or empty, or have a plan that did not become whole.

        Raises UsageError, StorageError.
        """
        with _told(self.url):
            found = self._fs.ls(self._root, detail=False) if self._fs.exists(self._root) else []
            names = {path.rstrip("/").rsplit("/", 1)[-1] for path in found}
            if not names <= {"files", "report", "listing"}:
                raise UsageError(f"{self.url} is not empty", fix="name a new folder for the plan")
            for name in names:
                self.remove(name)
            self._fs.makedirs(f"{self._root}/files", exist_ok=True)
            self._fs.makedirs(f"{self._root}/report", exist_ok=True)

    def end(self, about: About) -> None:
        """Say that the plan is whole."""
        with _told(self.url):
            self._fs.pipe_file(f"{self._root}/plan.json", json.dumps({"format": _FORMAT, **asdict(about)}).encode())

    def about(self) -> About:
        """What it is a plan of. Raises UsageError: there is no plan, or none that is whole."""
        with _told(self.url):
            try:
                found: dict[str, Any] = json.loads(self._fs.cat_file(f"{self._root}/plan.json"))
                if found.pop("format") != _FORMAT:
                    raise ValueError("it has a format that this version does not read")
                return About(**found)
            except FileNotFoundError:
                raise UsageError(f"there is no whole plan in {self.url}", fix="tenure sweep plan makes one") from None
            except (ValueError, TypeError, KeyError) as error:
                raise UsageError(f"{self.url}/plan.json is no plan: {error}", fix="make a new one") from error

    def write_files(self, name: str, rows: pa.Table) -> None:
        """One part of the plan."""
        self._write(f"files/{name}.parquet", rows)

    def write_report(self, name: str, rows: pa.Table) -> None:
        """What became of that part; whole, or not there."""
        self._write(f"report/{name}.parquet", rows)

    def read_files(self, name: str) -> pa.Table:
        return self._read(f"files/{name}.parquet")

    def read_report(self, name: str) -> pa.Table:
        return self._read(f"report/{name}.parquet")

    def remove(self, folder: str) -> None:
        """Remove one of its folders; one that is not there is fine."""
        with _told(self.url), suppress(FileNotFoundError):
            self._fs.rm(f"{self._root}/{folder}", recursive=True)

    def parts(self) -> list[str]:
        """The names of the parts of the plan."""
        return self._names("files")

    def reported(self) -> list[str]:
        """Those that were applied."""
        return self._names("report")

    def _names(self, folder: str) -> list[str]:
        with _told(self.url):
            self._fs.invalidate_cache(f"{self._root}/{folder}")
            try:
                found = self._fs.ls(f"{self._root}/{folder}", detail=False)
            except FileNotFoundError:
                return []
        names = (path.rsplit("/", 1)[-1] for path in found)
        return sorted(name.removesuffix(".parquet") for name in names if name.endswith(".parquet") and name[0] != ".")

    def _write(self, path: str, rows: pa.Table) -> None:
        folder, _, name = path.rpartition("/")
        hidden = f"{self._root}/{folder}/.{name}"
        with _told(self.url):
            with self._fs.open(hidden, "wb") as file:
                pq.write_table(rows, file)
            self._fs.mv(hidden, f"{self._root}/{path}")

    def _read(self, path: str) -> pa.Table:
        with _told(self.url), self._fs.open(f"{self._root}/{path}", "rb") as file:
            return pq.read_table(file)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn what a file system raises into ours; a missing file stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"plan {url}: {error}", fix="check that folder and its permissions") from error
