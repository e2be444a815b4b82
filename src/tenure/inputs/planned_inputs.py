"""The inputs that a batch is planned with, by the logs of its run directory alone: files, and offsets of Kafka.

Promise: `planned_inputs` names all files that the logs of the file sources have for the batch, and `planned_ranges`
each range that the offset log plans for it. Sources of another kind have none. Not promised: that each offset of a
range is a record. Transactions and compaction leave gaps, of which no error comes. No Spark is needed.

`offsets_behind` asks no source. Spark looks at the end of each topic when it plans a batch, so the figure is as old as
the newest batch, or ten seconds where there is nothing to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from tenure.checkpoints.source import FILES, KAFKA
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import corrupt, entries_between, files_in_entry, kind_of, last_entry, source_folders

if TYPE_CHECKING:
    from tenure.rundirs.moved_files import Move  # which needs Spark

Partitions = Mapping[tuple[str, int], int]
"""Topic and partition -> an offset."""

MOST_NAMED = 5
"""How many ranges a line names; it counts the others."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition that a batch reads."""

    folder: str
    """The folder of the source below `sources/`."""
    topic: str
    partition: int
    first: int
    until: int
    """The offset after the last."""

    def __str__(self) -> str:
        last = f" to {self.until - 1}" if self.until - 1 > self.first else ""
        return f"topic {self.topic!r} partition {self.partition} offset{'s' if last else ''} {self.first}{last}"


@dataclass(frozen=True, slots=True)
class Edges:
    """The offsets that a broker has, of each partition."""

    first: Partitions
    until: Partitions


def planned_ranges(
    directory: RunDirectory,
    batch: int,
    *,
    offsets: str,
    before: str | None = None,
    folders: Sequence[str],
    kinds: Mapping[str, str],
) -> tuple[OffsetRange, ...]:
    """The ranges of a batch whose `offsets/<batch>` is `offsets`. `before`: the offsets of the batch before; None: they
    are read in the run directory. `folders`, `kinds`: as in the checkpoint. Raises CorruptRunDirectory, StorageError.
    """
    if KAFKA not in kinds.values():
        return ()
    where = f"plan of batch {batch}"
    ends = {
        folder: partitions
        for folder, offset in source_folders(offsets, folders, where=where).items()
        if kinds.get(folder) == KAFKA and (partitions := kafka_partitions(offset)) is not None
    }
    if not ends:
        return ()
    begun: Mapping[str, str | None] = {}
    if batch > 0:
        path = f"offsets/{batch - 1}"
        text = directory.read_text(path) if before is None else before
        begun = source_folders(text, folders, where=directory.where(path))
    ranges: list[OffsetRange] = []
    for folder, end in ends.items():
        start = kafka_partitions(begun.get(folder))
        ranges += ranges_between(folder, _first_start(directory, folder) if start is None else start, end)
    return tuple(ranges)


def ranges_between(folder: str, start: Partitions, end: Partitions) -> list[OffsetRange]:
    """The ranges from one offset of a source to another. A partition that is new in `end` begins at 0."""
    return [
        OffsetRange(folder, topic, partition, start.get((topic, partition), 0), until)
        for (topic, partition), until in sorted(end.items())
        if until > start.get((topic, partition), 0)
    ]


def kafka_partitions(offset: str | None) -> Partitions | None:
    """The offset of a Kafka source, from a line of the offset log; None: it has no offset yet. (Sources of other kinds
    may have offsets that look alike.)"""
    value = None if offset is None else json.loads(offset)
    if not isinstance(value, dict) or not value:
        return None
    found: dict[tuple[str, int], int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return None
        for partition, number in partitions.items():
            if not partition.isdecimal() or not isinstance(number, int):
                return None
            found[topic, int(partition)] = number
    return found


def lost_of(ranges: Sequence[OffsetRange], edges: Edges) -> tuple[OffsetRange, ...]:
    """The parts of the ranges that the broker does not have: before its first offset, after its last, or of a partition
    that it does not know."""
    lost: list[OffsetRange] = []
    for one in ranges:
        place = (one.topic, one.partition)
        first = min(max(edges.first.get(place, one.until), one.first), one.until)
        until = max(min(edges.until.get(place, first), one.until), first)
        for begin, end in ((one.first, first), (until, one.until)):
            if end > begin:
                lost.append(OffsetRange(one.folder, one.topic, one.partition, begin, end))
    return tuple(lost)


def count_of(ranges: Sequence[OffsetRange]) -> int:
    """How many offsets the ranges have."""
    return sum(one.until - one.first for one in ranges)


def in_words(ranges: Sequence[OffsetRange]) -> str:
    """The ranges for people; the first few by name."""
    named = ", ".join(map(str, ranges[:MOST_NAMED]))
    others = len(ranges) - MOST_NAMED
    return named if others <= 0 else f"{named} and {others} more, {count_of(ranges)} offsets in all"


def _first_start(directory: RunDirectory, folder: str) -> Partitions:
    """The offsets at which a source began, from the record of its own."""
    path = f"sources/{folder}/0"
    _, _, text = directory.read_text(path).lstrip("\0").partition("\n")  # Spark puts a byte 0 before the version
    try:
        found = kafka_partitions(text)
    except ValueError:
        found = None
    if found is None:
        raise corrupt(directory.where(path), "does not decode: no offsets of Kafka")
    return found


def planned_inputs(
    directory: RunDirectory,
    batch: int,
    *,
    offsets: str,
    folders: Sequence[str],
    kinds: Mapping[str, str],
    moves: Mapping[str, Move],
) -> tuple[str, ...]:
    """The input files of a batch, as Hadoop names them, from the logs of the file sources in a run directory. Other
    sources have none. `offsets`, `folders`, `kinds`: as in the checkpoint. `moves`: of sources, by their folder. Raises
    CorruptRunDirectory, StorageError."""
    where = f"plan of batch {batch}"
    until = source_folders(offsets, folders, where=where)
    before: dict[str, str | None] = {}
    if batch > 0:
        path = f"offsets/{batch - 1}"
        before = dict(source_folders(directory.read_text(path), folders, where=directory.where(path)))
    inputs: list[str] = []
    for folder, offset in until.items():
        names = directory.list(f"sources/{folder}") if folder not in kinds else ()
        if kind_of(kinds.get(folder), offset, names) == FILES:
            where = f"plan of batch {batch}, source {folder}"
            after = last_entry(before.get(folder), where=where)
            logged = _logged(directory, f"sources/{folder}", after=after, last=last_entry(offset, where=where))
            move = moves.get(folder)
            inputs += [unquote(url if move is None else move.of(url)) for url in logged]
    return tuple(inputs)


def count_files(directory: RunDirectory, folder: str, *, after: int, last: int) -> int:
    """How many input files the log of a file source has in its entries above `after`, up to `last`. Raises
    CorruptRunDirectory, StorageError."""
    return sum(1 for _ in _logged(directory, f"sources/{folder}", after=after, last=last))


def _logged(directory: RunDirectory, folder: str, *, after: int, last: int) -> Iterator[str]:
    if after >= last:
        return
    for name in entries_between(directory.list(folder), after, last, where=directory.where(folder)):
        path = f"{folder}/{name}"
        text = directory.read_text(path)
        yield from files_in_entry(text, after=after, last=last, where=directory.where(path))


KAFKA_SOURCE: Final = "KafkaV2["
"""The begin of what Spark's source of Kafka calls itself."""


def offsets_behind(progress: Mapping[str, Any]) -> int | None:
    """The offsets of all Kafka sources after the end of the batch; None: no source has them, or Spark does not know the
    end of one, as in the first batch of a leader."""
    behind: int | None = None
    for source in progress["sources"]:
        if not source["description"].startswith(KAFKA_SOURCE):
            continue
        end, latest = (kafka_partitions(source[name]) for name in ("endOffset", "latestOffset"))
        if end is None:
            continue
        if latest is None:
            return None
        behind = (behind or 0) + count_of(ranges_between("", end, latest))
    return behind
