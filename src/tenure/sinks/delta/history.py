"""The attempts of which the log of a Delta table names a file, or named a file earlier.

Promise: a file that the table has lost counts as named as long as the log knows it, with clocks up to a minute apart.
So `young_among` returns only attempts that were never in the table. A `TableHistory` keeps 16 bytes of each named
attempt; reading takes memory for the paths of all files. Raises the errors of delta-rs and pyarrow, and ValueError: an
entry of the log does not decode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow import fs

from tenure.errors import StorageError
from tenure.sinks.delta.location import Location
from tenure.sinks.staging.stage import StagingPath

_APART_S: Final = 60
"""The largest difference between the clocks of machines."""
_PATHS = pa.large_string()
"""All paths may have more than the 2 GiB that an array of pyarrow's small strings can hold."""
_ID: Final = pa.binary(16)
_SOME: Final = 50_000
"""The number of names that are turned into bytes at once."""
_ATTEMPT = r"/b\d{12,}/(?P<attempt>[0-9a-f]{32})/"


def attempts_named(table: DeltaTable, filesystem: Any) -> pa.ChunkedArray:
    """The attempts of which the log names a file, as strings, with repetitions. A file that is no longer in the table
    counts: readers of older versions need it, until the table's VACUUM. `filesystem`: pyarrow's, with the table as its
    root."""
    # VACUUM passes over files that were lost at a time that this machine's clock has not reached.
    had = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True) + _lost_lately(filesystem)
    has = pa.table(table.get_add_actions(flatten=True))["path"]
    paths = (has.cast(_PATHS), pa.chunked_array([pa.array(had, _PATHS)]))
    found = [pc.struct_field(pc.extract_regex(some, _ATTEMPT), "attempt").drop_null() for some in paths]
    return pa.chunked_array([chunk for some in found for chunk in some.chunks], _PATHS).cast(pa.string())


def _lost_lately(filesystem: Any) -> list[str]:
    """The files that the table has lost in the log's last minute."""
    log = filesystem.get_file_info(fs.FileSelector("_delta_log", allow_not_found=True))
    commits = [info for info in log if info.path.endswith(".json")]
    newest_ns = max((info.mtime_ns or 0 for info in commits), default=0)
    lines = [
        line
        for info in commits
        if newest_ns - (info.mtime_ns or 0) <= _APART_S * 1e9
        for line in filesystem.open_input_stream(info.path).read().splitlines()
        if b'"remove"' in line
    ]
    return [action["remove"]["path"] for action in map(json.loads, lines) if "remove" in action]


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The attempts that a table's log names, and how far back the log goes, by the times of its files. Spark's tasks
    receive a copy."""

    location: Location
    options: Mapping[str, str]
    """The options of the storage for delta-rs."""
    named: pa.Array
    """The attempts of which the log names a file, as `binary(16)`."""
    newest_s: float
    """The time of the log's newest file."""
    kept_s: float
    """For how long the log names a file that the table has lost."""

    @classmethod
    def of(cls, table: DeltaTable, location: Location, options: Mapping[str, str]) -> TableHistory:
        """The history of a table up to now."""
        filesystem = location.filesystem(dict(options))
        attempts = attempts_named(table, filesystem).unique()
        some = (attempts.slice(first, _SOME).to_pylist() for first in range(0, len(attempts), _SOME))
        named = pa.concat_arrays([pa.array([], _ID), *(pa.array(map(bytes.fromhex, names), _ID) for names in some)])
        log = filesystem.get_file_info(fs.FileSelector("_delta_log", allow_not_found=True))
        newest_s = max((info.mtime_ns or 0 for info in log), default=0) / 1e9
        return cls(location, options, named, newest_s, retention(table.metadata().configuration).total_seconds())

    def named_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """The attempts of which the log names a file."""
        ids = pa.array(sorted({bytes.fromhex(path.attempt) for path in attempts}), _ID)
        named = {one.hex() for one in ids.filter(pc.is_in(ids, value_set=self.named)).to_pylist()}
        return {path for path in attempts if path.attempt in named}

    def young_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """The attempts that were staged so lately that the log would name them if the table had ever had them. The log
        forgets a file some time after the table has lost it, and readers of older versions may still need the file.
        Raises StorageError."""
        filesystem = self.location.filesystem(dict(self.options)) if attempts else None
        try:
            return {path for path in attempts if self.newest_s - self._staged_s(path, filesystem) < self.kept_s / 2}
        except OSError as error:
            raise StorageError(f"cannot look at the staged files at {self.location}: {error}") from error

    def _staged_s(self, path: StagingPath, filesystem: Any) -> float:
        inside = filesystem.get_file_info(fs.FileSelector(str(path), recursive=True, allow_not_found=True))
        return min((info.mtime_ns or 0 for info in inside if info.is_file), default=self.newest_s * 1e9) / 1e9


def retention(configuration: Mapping[str, str | None]) -> timedelta:
    """For how long the log names a file that the table has lost. A setting that does not parse counts as no time."""
    text = configuration.get("delta.deletedFileRetentionDuration") or "interval 1 week"
    parts = re.findall(r"(\d+)\s+(second|minute|hour|day|week)s?\b", text.lower())
    return sum((int(number) * timedelta(**{f"{unit}s": 1}) for number, unit in parts), timedelta())
