"""The offsets of Kafka's topics that a batch is planned with, and those of them that the broker has no more.

Promise: `planned_ranges` names each range that the offset log plans for a batch, by the logs of a run directory alone.
Sources of another kind than Kafka have none. Not promised: that each offset of a range is a record. Transactions and
compaction leave gaps, of which no error comes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenure.checkpoints.source import KAFKA
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import corrupt, source_folders

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
