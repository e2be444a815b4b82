"""What Spark's progress says of a batch. Pure: `progress.py` asks Spark.

Promise: a figure that Spark does not have is None, or is left out. Not promised: a figure of this moment. Spark counts
at the end of a batch; it looks at the end of a source, and moves the watermark, when it plans a batch. Spark tells no
backlog of a source of files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tenure.coordination.term import Term
from tenure.events import BatchMeasured
from tenure.inputs.planned_inputs import KAFKA_SOURCE, Partitions, count_of, kafka_partitions, ranges_between
from tenure.rundirs.seed_logs import log_offset
from tenure.wording import masked

Progress = Mapping[str, Any]
"""A progress of Spark, as its JSON has it."""

_RAN: Final = "addBatch"
"""The duration that only a trigger with a batch has."""

_OUTSTANDING: Final = re.compile(r"num(Files|Bytes)Outstanding\Z")
"""What a source names the files and bytes that it has not read, if it says so. Delta's source does."""

_UNSET: Final = "1970-01-01T00:00:00.000Z"
"""The watermark of a query before its first row."""


def news(newest_first: Iterable[Progress], *, after: str) -> tuple[Sequence[Progress], str]:
    """The batches that Spark began after the time `after`, oldest first, and the time of the newest progress: Spark has
    a progress also of an idle query. No more is read of `newest_first` than is needed."""
    found: list[Progress] = []
    newest = after
    for progress in newest_first:
        if progress["timestamp"] <= after:
            break
        newest = max(newest, progress["timestamp"])
        if _RAN in progress.get("durationMs", {}) and all(one["batchId"] != progress["batchId"] for one in found):
            found.append(progress)
    return found[::-1], newest


def entries(progress: Progress, limits: Sequence[int | None]) -> Iterator[tuple[str, int]]:
    """The list of the files that a batch took from each source of files with a limit: its path in the run directory,
    and the limit. `limits`: of the sources, in Spark's order; None: the source has none."""
    for folder, (source, limit) in enumerate(zip(progress.get("sources") or (), limits, strict=False)):
        begin, end = (log_offset(_text(source.get(name))) for name in ("startOffset", "endOffset"))
        if limit is not None and end is not None and begin != end:
            yield f"sources/{folder}/{end}", limit


def measured(progress: Progress, *, term: Term, query: str, at_limit: bool) -> BatchMeasured:
    """The figures of a batch. `at_limit`: a source of files gave as many files as a batch may have."""
    return BatchMeasured(
        term.scope,
        term.epoch,
        query,
        int(progress["batchId"]),
        rows=int(progress.get("numInputRows") or 0),
        rows_per_s=round(float(progress.get("processedRowsPerSecond") or 0.0), 1),
        **_state(progress.get("stateOperators") or ()),
        watermark_lag_s=_watermark_lag_s(progress),
        backlog=backlog(progress.get("sources") or ()),
        at_limit=at_limit,
    )


def _state(operators: Sequence[Mapping[str, Any]]) -> dict[str, int | None]:
    """The rows and the bytes of all states. The bytes are those of RocksDB's files, elsewhere those of the memory."""
    if not operators:
        return {"state_rows": None, "state_bytes": None}
    sizes = [
        one.get("customMetrics", {}).get("rocksdbSstFileSize") or one.get("memoryUsedBytes") or 0 for one in operators
    ]
    return {"state_rows": sum(int(one["numRowsTotal"]) for one in operators), "state_bytes": sum(map(int, sizes))}


def _watermark_lag_s(progress: Progress) -> float | None:
    """How far the watermark was behind the clock when the batch began; None: the query has none yet."""
    watermark = progress.get("eventTime", {}).get("watermark", _UNSET)
    if watermark == _UNSET:
        return None
    began, reached = (datetime.fromisoformat(text) for text in (progress["timestamp"], watermark))
    return round((began - reached).total_seconds(), 3)


def backlog(sources: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Source -> unit -> how much of it no batch has taken. A source of Kafka is named by its topics, each by itself."""
    found: dict[str, dict[str, int]] = {}

    def add(source: str, unit: str, count: int) -> None:
        units = found.setdefault(source, {})
        units[unit] = units.get(unit, 0) + count

    for source in sources:
        if source["description"].startswith(KAFKA_SOURCE):
            end, latest = (_partitions(source.get(name)) for name in ("endOffset", "latestOffset"))
            if end is not None and latest is not None:
                for topic in sorted({topic for topic, _ in end}):
                    add(topic, "offsets", 0)
                for one in ranges_between("", end, latest):
                    add(one.topic, "offsets", count_of([one]))
            continue
        for name, value in (source.get("metrics") or {}).items():
            if (of := _OUTSTANDING.match(name)) is not None and str(value).isdecimal():
                add(masked(source["description"]), of[1].lower(), int(value))
    return found


def _partitions(offset: object) -> Partitions | None:
    return kafka_partitions(_text(offset))


def _text(offset: object) -> str:
    """An offset as the log of offsets has it: a progress has it as text, or as the value of the text."""
    return offset if isinstance(offset, str) else json.dumps(offset)
