"""Who has written to a Delta table: the application transactions that its log keeps.

Promise: none that the table still keeps is left out. delta-rs tells of those only whose names one knows, so the log
itself is read: its newest checkpoint, and the commits since. Raises what pyarrow raises, and ValueError: an entry of
the log is none.
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
    """The same for people, of which one is about to write as `query` of `scope`."""
    told: dict[str, None] = {}
    for name in names:
        ours = _OURS.fullmatch(name)
        if ours is None:
            told[f"application {name!r}"] = None
        elif (ours["scope"], ours["query"]) == (scope, query):
            told[f"an earlier life of stream {query!r} of scope {scope!r}"] = None
        else:
            told[f"stream {ours['query']!r} of scope {ours['scope']!r}"] = None
    return list(told)


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
