"""A plan of a sweep: the files that go, as Parquet that you can query; and the report of their outcomes.

A folder has `plan.json` (an `About`), `files/*.parquet` (`path` below the storage, `size` in bytes or null, `kind`: a
row of the cleanup's plan, `unit`: the orphan that the file is part of) and, once it is applied, a `report/*.parquet`
for each of these (`path`, `outcome`: removed, gone or failed, `why`).

Promise: a plan does not become wrong with time. Its files were listed before the records were read, no record names
them, and they are of an earlier epoch, or of a member whose session was gone: nobody can name them ever after
(`cleanup/orphans.py`). So a plan needs no term, and may be applied at any time, and again. Not promised: that a plan is
complete: later files are for the next plan.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from tenure.coordination.encoding import decode_payload, encode_payload
from tenure.errors import BlobNotFound, StorageError, UsageError
from tenure.storage.names import is_unfinished
from tenure.storage.reach import reach
from tenure.storage.storage import FAILED, GONE, REMOVED

_PARTS: Final = ("files", "report", "listing")
"""The folders in the folder of a plan."""
_ABOUT: Final = "plan.json"
LISTED: Final = pa.schema(
    [("folder", pa.dictionary(pa.int32(), pa.string())), ("name", pa.string()), ("size", pa.int64())]
)
"""Listed files; the size is null where the listing lacks it."""
FILES: Final = pa.schema([("path", pa.string()), ("size", pa.int64()), ("kind", pa.string()), ("unit", pa.string())])
REPORT: Final = pa.schema([("path", pa.string()), ("outcome", pa.string()), ("why", pa.string())])


@dataclass(frozen=True, slots=True)
class About:
    """The target and the figures of a plan."""

    scope: str
    storage: str
    """URL of the scope's part of the storage, or of a table."""
    epoch: int
    """All files of the plan are of an earlier epoch, or of a member that was gone."""
    holder: str
    """The leader at that time; empty: nobody led."""
    made_at: str
    listed: int
    """The number of listed files."""
    files: int
    """The number of files that go."""
    bytes: int | None
    """Of the files that go; None: nobody asked for their sizes."""
    table: bool = False
    """Whether `storage` is a table, and the files are staged beside it."""
    owner: str = ""
    """The newest mark in the scope's part of the storage when the files were listed; empty: nobody ever led."""
    marked: str = ""
    """URL of the scope's part of the storage, also for a table; empty: nobody ever led."""


class SweepPlan:
    """The folder of a plan, on any storage. No I/O in the constructor."""

    def __init__(self, url: str) -> None:
        self._storage = reach(url, what="plan")
        self.url = url.rstrip("/")

    def begin(self) -> None:
        """Make the folder, which must be new or empty, or hold an unfinished plan. Raises UsageError, StorageError."""
        names = [entry.name for entry in self._storage.entries()]
        if not {name for name in names if not is_unfinished(name)} <= set(_PARTS):
            raise UsageError(f"{self.url} is not empty", fix="name a new folder for the plan")
        for name in names:
            self.remove(name)
        self._storage.check_writable()

    def end(self, about: About) -> None:
        """Mark the plan as whole."""
        self._storage.replace(_ABOUT, encode_payload(about))

    def about(self) -> About:
        """The target and the figures of the plan. Raises UsageError: there is no whole plan."""
        try:
            return decode_payload(About, self._storage.read(_ABOUT))
        except BlobNotFound:
            raise UsageError(f"there is no whole plan in {self.url}", fix="tenure sweep plan makes one") from None
        except ValueError as error:
            raise UsageError(f"{self.url}/{_ABOUT} is no plan: {error}", fix="make a new plan") from error

    def write(self, folder: str, name: str, rows: pa.Table) -> None:
        """Write a part of `files` or of `listing`, or the report of a part: whole, or not at all."""
        buffer = pa.BufferOutputStream()
        pq.write_table(rows, buffer)
        self._storage.replace(f"{folder}/{name}.parquet", buffer.getvalue().to_pybytes())

    def read(self, folder: str, name: str) -> pa.Table:
        """The rows of a part. Raises StorageError: it cannot be read, or does not decode.

        No thread of Arrow reads: a thread that frees Python's bytes while the process ends would abort it, after all
        work was done.
        """
        path = f"{folder}/{name}.parquet"
        try:
            return pq.ParquetFile(pa.BufferReader(self._storage.read(path))).read(use_threads=False)
        except (BlobNotFound, pa.ArrowInvalid) as error:
            raise StorageError(f"plan {self.url}: {path} is damaged: {error}", fix="make a new plan") from error

    def remove(self, folder: str) -> None:
        """Remove a folder of the plan, if it is there."""
        self._storage.remove(folder)

    def parts(self) -> list[str]:
        """The names of the parts of the plan."""
        return self._names("files")

    def reported(self) -> list[str]:
        """The names of the applied parts."""
        return self._names("report")

    def _names(self, folder: str) -> list[str]:
        names = [entry.name for entry in self._storage.entries(folder)]
        return [name.removesuffix(".parquet") for name in names if name.endswith(".parquet") and name[0] != "."]


def summary(plan: SweepPlan, *, shown: int) -> dict[str, Any]:
    """`about`: the plan; `kinds`: files, bytes (None: not known) and outcomes by kind; `failures`: the first `shown`
    files that could not be removed, with the reason. One part of the plan is in memory at a time.

    Raises UsageError, StorageError.
    """
    kinds: dict[str, dict[str, Any]] = {}
    failures: list[dict[str, str]] = []
    reported = set(plan.reported())
    for name in plan.parts():
        files = plan.read("files", name)
        for row in _grouped(files, "kind").aggregate([("path", "count"), ("size", "sum")]).to_pylist():
            kind = kinds.setdefault(
                row["kind"], {"kind": row["kind"], "files": 0, "bytes": 0, REMOVED: 0, GONE: 0, FAILED: 0}
            )
            kind["files"] += row["path_count"]
            kind["bytes"] += row["size_sum"] or 0
        if name not in reported:
            continue
        outcomes = plan.read("report", name).append_column("kind", files["kind"])
        for row in _grouped(outcomes, "kind", "outcome").aggregate([("path", "count")]).to_pylist():
            kinds[row["kind"]][row["outcome"]] += row["path_count"]
        if len(failures) < shown:
            failed = outcomes.filter(pc.equal(outcomes["outcome"], FAILED)).select(["path", "why"])
            failures += failed.slice(0, shown - len(failures)).to_pylist()
    about = asdict(plan.about())
    if about["bytes"] is None:
        for kind in kinds.values():
            kind["bytes"] = None
    return {"about": about, "kinds": [kinds[kind] for kind in sorted(kinds)], "failures": failures}


def _grouped(rows: pa.Table, *columns: str) -> pa.TableGroupBy:
    """Without threads: see `SweepPlan.read`."""
    return rows.group_by(list(columns), use_threads=False)
