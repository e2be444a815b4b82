"""The writers of a Delta table, by the application transactions in its log.

Promise: no transaction that the log still keeps is omitted. delta-rs returns a transaction only by its name, so this
module reads the log itself: its newest checkpoint, and the commits since. Raises the errors of pyarrow, and ValueError:
an entry of the log does not decode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow.parquet as pq
from pyarrow import fs

_COMMIT: Final = re.compile(r"(?P<version>\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(?P<version>\d{20})\.checkpoint\..*(?P<kind>parquet|json)")
_OURS: Final = re.compile(r"tenure/(?P<scope>[^/]+)/(?P<query>[^/]+)/(?P<id>[^/]+)")


def writers_of(filesystem: Any) -> list[str]:
    """The names of the applications that have written to a table. `filesystem`: pyarrow's, with the table as its
    root."""
    log = filesystem.get_file_info(fs.FileSelector("_delta_log", allow_not_found=True))
    checkpoints = [(found, info) for info in log if (found := _CHECKPOINT.fullmatch(info.base_name))]
    newest = max((found["version"] for found, _ in checkpoints), default="")
    names: set[str] = set()
    for found, info in checkpoints:
        if found["version"] == newest:
            names.update(_of_lines(filesystem, info) if found["kind"] == "json" else _of_parquet(filesystem, info))
    for info in log:
        commit = _COMMIT.fullmatch(info.base_name)
        if commit and commit["version"] > newest:
            names.update(_of_lines(filesystem, info))
    return sorted(names)


def in_words(names: Sequence[str], *, scope: str, query: str) -> list[str]:
    """The applications for people, when `query` of `scope` is about to write."""

    def words(name: str) -> str:
        ours = _OURS.fullmatch(name)
        if ours is None:
            return f"application {name!r}"
        earlier = "an earlier life of " if (ours["scope"], ours["query"]) == (scope, query) else ""
        return f"{earlier}stream {ours['query']!r} of scope {ours['scope']!r}"

    return list(dict.fromkeys(map(words, names)))


def _of_lines(filesystem: Any, info: Any) -> list[str]:
    lines = filesystem.open_input_stream(info.path).read().splitlines()
    actions = [json.loads(line) for line in lines if b'"txn"' in line]
    return [action["txn"]["appId"] for action in actions if "txn" in action]


def _of_parquet(filesystem: Any, info: Any) -> list[str]:
    with filesystem.open_input_file(info.path) as file:
        parquet = pq.ParquetFile(file)
        if "txn" not in parquet.schema_arrow.names:
            return []
        return [row["appId"] for row in parquet.read(["txn"])["txn"].to_pylist() if row is not None]
