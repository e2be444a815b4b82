"""A Delta table whose batches are staged and committed as a leader does it, without Spark."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import parquet as pq

from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import DeltaLog, app_id_of
from tenure.sinks.delta.staged_files import staged_files
from tenure.sinks.delta.staged_rule import beside
from tenure.sinks.sink import Attempts, Planned
from tenure.sinks.staging.stage import PutFile, StagingPath
from tenure.sinks.staging.staged_attempts import StagedAttempts

TERM: Any = None
COLUMNS: Any = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]}


def puts_below(folder: Path, *, sent: bool = True) -> list[PutFile]:
    """The Parquet files in a folder, as their tasks tell of them. `sent`: the footers were short enough."""
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        content, mtime_ns = path.read_bytes(), path.stat().st_mtime_ns
        footer = 8 + int.from_bytes(content[-8:-4], "little")
        end = content[-footer:] if sent else b""
        found.append(PutFile(str(path.relative_to(folder)), len(content), mtime_ns // 1_000_000, end))
    return found


class Table:
    """A table whose batches are committed as a leader does it, without Spark."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.location = Location.of(path)
        self.log = DeltaLog(self.location, app_id=app_id_of("rows", "copy", "id"), storage_options={})

    def stage(
        self, batch: int, *, epoch: int = 1, scope: str = "rows", query: str = "copy", query_id: str = "id"
    ) -> str:
        """One more attempt at a batch; its directory."""
        attempt = StagingPath(scope, query, query_id, epoch, batch, os.urandom(16).hex())
        folder = self.path / str(attempt)
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [batch]}), folder / "part-0.parquet")
        return str(attempt)

    def commit(self, attempt: str, *, mode: Any = "append") -> str:
        """Name an attempt."""
        if not self.log.exists:
            self.log.refresh()
        if not self.log.exists:
            self.log.create(COLUMNS, partition_by=[], name=None)
        self.log.refresh()
        filesystem = self.location.filesystem({})
        puts = puts_below(self.path / attempt)
        files = staged_files(filesystem, attempt, puts, columns={"n": "long"}, partition_by=())
        path = StagingPath.parse(attempt)
        assert path is not None
        self.log.add(files, mode=mode, batch=path.batch, attempt=attempt)
        return attempt

    def cleanables(
        self, *, epoch: int | None = None, planned: int = -1, query_ids: Collection[str] = ("id",)
    ) -> StagedAttempts:
        """`epoch` None: the pipeline has ended; else its batches are planned up to `planned`."""
        attempts = Attempts("rows", "copy", lambda: query_ids, epoch, lambda: Planned("id", planned))
        return StagedAttempts(beside(self.location, {}), attempts)

    def sweep(self, *, epoch: int | None = None, planned: int = -1) -> None:
        cleanables = self.cleanables(epoch=epoch, planned=planned)
        for name in cleanables.find():
            cleanables.remove(TERM, name)

    def rows(self) -> list[int]:
        return sorted(DeltaTable(str(self.path)).to_pyarrow_table()["n"].to_pylist())
