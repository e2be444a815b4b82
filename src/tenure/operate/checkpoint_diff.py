"""The differences between two checkpoints of a query. Pure.

Promise: of offsets only numbers are shown, and the names of topics: an offset of another kind of source may have
anything in it, and is shown as a fingerprint. Not promised: that each offset of Kafka is a record (`planned_inputs`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import FILES, KAFKA
from tenure.inputs.planned_inputs import count_of, kafka_partitions, ranges_between
from tenure.rundirs.seed_logs import decode_json, last_entry, source_folders

_FIELDS = ("epoch", "planned_at", "run_directory", "query_id", "closed")


@dataclass(frozen=True, slots=True)
class KeptDifference:
    """A fact that differs, and its value in both checkpoints."""

    what: str
    first: str
    second: str
    between: str = ""
    """What the batches after the first read, up to the second; empty: nothing to say."""


FilesBetween = Callable[[str, int, int], str]
"""A source's folder, and its log's entries after the first and up to the second -> its files, for people."""


def differences(first: Checkpoint, second: Checkpoint, *, files: FilesBetween) -> list[KeptDifference]:
    """From the older checkpoint to the newer. Raises CorruptRunDirectory: the offsets do not decode."""
    found = [KeptDifference("batch", str(first.batch), str(second.batch), f"{second.batch - first.batch} batches")]
    for name in _FIELDS:
        found.append(KeptDifference(name, str(getattr(first, name)), str(getattr(second, name))))
    found += _heads(first, second)
    found += _sources(first, second, files)
    return [one for one in found if one.first != one.second or one.between]


def _heads(first: Checkpoint, second: Checkpoint) -> Iterator[KeptDifference]:
    one, other = (_head(checkpoint) for checkpoint in (first, second))
    yield KeptDifference("watermark", _moment(one.get("batchWatermarkMs")), _moment(other.get("batchWatermarkMs")))
    settings, later = one.get("conf"), other.get("conf")
    if isinstance(settings, dict) and isinstance(later, dict):
        for name in sorted(settings.keys() | later.keys()):
            yield KeptDifference(name, str(settings.get(name, "")), str(later.get(name, "")))


def _head(checkpoint: Checkpoint) -> dict[str, object]:
    """The entry's own line: the watermark, the time, and a fixed list of Spark's settings."""
    lines = checkpoint.offsets.split("\n")
    return decode_json(lines[1] if len(lines) > 1 else "", where=f"plan of batch {checkpoint.batch}")


def _moment(milliseconds: object) -> str:
    if not isinstance(milliseconds, int) or not milliseconds:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _sources(first: Checkpoint, second: Checkpoint, files: FilesBetween) -> Iterator[KeptDifference]:
    one, other = (
        source_folders(each.offsets, each.folders, where=f"plan of batch {each.batch}") for each in (first, second)
    )
    for folder in sorted(one.keys() | other.keys()):
        kind = second.kinds.get(folder, first.kinds.get(folder, ""))
        begin, end = one.get(folder), other.get(folder)
        what = f"source {folder}" + (f" ({kind})" if kind else "")
        if begin == end:
            continue
        if kind == FILES:
            after, last = (last_entry(offset, where=what) for offset in (begin, end))
            yield KeptDifference(what, f"log entry {after}", f"log entry {last}", files(folder, after, last))
        elif kind == KAFKA and (until := kafka_partitions(end)) is not None:
            start = kafka_partitions(begin) or {}
            for one_range in ranges_between(folder, start, until):
                place = f"{what} {one_range.topic}-{one_range.partition}"
                yield KeptDifference(
                    place, str(one_range.first), str(one_range.until), f"{count_of([one_range])} offsets"
                )
        else:
            yield KeptDifference(what, _fingerprint(begin), _fingerprint(end))


def _fingerprint(offset: str | None) -> str:
    if offset is None:
        return "none"
    value = json.loads(offset)
    if isinstance(value, int):
        return str(value)
    return f"fingerprint {hashlib.sha256(offset.encode()).hexdigest()[:12]}"
