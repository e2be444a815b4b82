"""The parts of Spark's own logs that a seed needs: offsets, commits and the sources' logs; and the batch that Spark
owes. Pure: names and text in, names and text out.

Promise: the selected entries are enough for Spark 4.3 to continue at the planned batch. No needed entry is left out
silently: a gap or a text that does not decode is a CorruptRunDirectory that names the file. Not promised: that the
layout is an API of Spark's. The layout was measured; `tests/spark/test_seeding.py` has a test for each fact.

Spark closes windows, and fires timers, by what batch N brought only in batch N+1. It runs N+1 at once, also without new
data, but it remembers only in memory that it must (`MicroBatchExecution`, `lastExecution`): a Spark that starts after N
waits for new data. Rows that were due would come with the next data, and not at all in a night that ends by idleness.
So a seed plans N+1 where Spark would have run it (`owed_batch`). Not promised: that N+1 has rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NewType

from tenure.checkpoints.source import ANOTHER, FILES, KAFKA, RATE
from tenure.errors import CorruptRunDirectory

StateIds = NewType("StateIds", Mapping[str, list[list[str]]])
"""Operator -> partition -> store -> the unique id in the file name of the state version that the batch wrote."""

_NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
NO_OFFSET = "-"
_FIX = "restore it; no older checkpoint is taken in its place"
_COMPACT = re.compile(r"(\d+)\.compact\Z")


class MissingFile(CorruptRunDirectory):
    """A needed file does not exist. A damaged file is a CorruptRunDirectory, but no MissingFile."""


def missing(where: str) -> MissingFile:
    """The error for the file `where` that does not exist."""
    return MissingFile(f"{where} is missing", fix=_FIX)


def corrupt(where: str, why: str) -> CorruptRunDirectory:
    """The error for the file `where`, which is damaged."""
    return CorruptRunDirectory(f"{where} {why}", fix=_FIX)


def decode_json(text: str, *, where: str) -> dict[str, object]:
    """The JSON object of a text. Raises CorruptRunDirectory."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise corrupt(where, f"does not decode: {error}") from error
    if not isinstance(value, dict):
        raise corrupt(where, "does not decode: not a JSON object")
    return value


def decode_query_id(text: str, *, where: str) -> str:
    """Spark's id of the query, from the file `metadata`. Raises CorruptRunDirectory."""
    query_id = decode_json(text, where=where).get("id")
    if not isinstance(query_id, str) or not query_id:
        raise corrupt(where, "does not decode: no query id")
    return query_id


_SINCE_4 = "spark.sql.streaming.stateStore.encodingFormat"
"""A setting that Spark 4.0 and newer keep in each entry of the offset log."""


def is_of_spark_3(offsets: str) -> bool:
    """Whether a Spark before 4.0 planned the batch with this entry of the offset log, which decodes."""
    settings = json.loads(offsets.split("\n")[1]).get("conf")
    return isinstance(settings, dict) and _SINCE_4 not in settings


def decode_offsets(text: str, *, where: str) -> dict[str, str | None]:
    """The offsets of one batch: name of the source -> its offset; None: the source has none yet.

    Version 1 of the log lists the offsets by position, version 2 as `name:offset`. For folders see `source_folders`.
    Raises CorruptRunDirectory.
    """
    lines = text.split("\n")
    if len(lines) < 3 or lines[0] not in ("v1", "v2"):
        raise corrupt(where, "does not decode: not an offset log entry of version 1 or 2")
    decode_json(lines[1], where=where)
    if lines[0] == "v1":
        named = {str(position): offset for position, offset in enumerate(lines[2:])}
    else:
        pairs = [line.partition(":") for line in lines[2:]]
        if not all(name and colon for name, colon, _ in pairs):
            raise corrupt(where, "does not decode: a source without a name")
        named = {name: offset for name, _, offset in pairs}
    for name, offset in named.items():
        try:
            if offset != NO_OFFSET:
                json.loads(offset)
        except ValueError as error:
            raise corrupt(where, f"does not decode: the offset of source {name}: {error}") from error
    return {name: None if offset == NO_OFFSET else offset for name, offset in named.items()}


def decode_commit(text: str, *, where: str) -> StateIds | None:
    """The ids of the state that the batch wrote; None: state files are named by version only (format 1). Raises
    CorruptRunDirectory."""
    version, _, body = text.partition("\n")
    if version not in ("v1", "v2"):
        raise corrupt(where, "does not decode: not a commit log entry of version 1 or 2")
    ids = decode_json(body, where=where).get("stateUniqueIds")
    if not ids:
        return None
    if not isinstance(ids, dict) or not all(
        isinstance(partitions, list)
        and all(isinstance(stores, list) and all(isinstance(i, str) for i in stores) for stores in partitions)
        for partitions in ids.values()
    ):
        raise corrupt(where, "does not decode: stateUniqueIds")
    return StateIds(ids)


def log_offset(offset: str) -> int | None:
    """The last entry of a file source's log that `offset` covers; None: it is no offset of a file source."""
    value = json.loads(offset)
    if isinstance(value, dict) and set(value) == {"logOffset"} and isinstance(value["logOffset"], int):
        return int(value["logOffset"])
    return None


def last_entry(offset: str | None, *, where: str) -> int:
    """The last entry of a file source's log that is read; -1: none is. Raises CorruptRunDirectory: `where` has an
    offset of another kind of source."""
    if offset is None:
        return -1
    last = log_offset(offset)
    if last is None:
        raise corrupt(where, f"has the offset {offset}, which is none of a source of files")
    return last


def source_log(names: Collection[str], last: int, *, where: str) -> tuple[str, ...]:
    """The entries of a file source's log up to `last`: the newest two compact entries, and all entries above.

    Spark derives its compaction interval from the names of two compact entries (`CompactibleFileStreamLog`). From a
    single name it guesses, and asks for compact entries that were never written. Newer entries are left out: a former
    owner that is still alive may be writing them. Raises MissingFile.
    """
    compacts = sorted(_compacts(names, last))
    above = _entries(names, compacts[-1] if compacts else -1, last, where=where)
    return *(f"{entry}.compact" for entry in compacts[-2:]), *above


def newest_of_log(names: Collection[str], last: int) -> str | None:
    """The newest file of a file source's log, up to the entry `last`; None: there is none. A compact file comes before
    the single entry of its number."""
    found = {number: f"{number}.compact" for number in _compacts(names, last)}
    single = {int(name): name for name in names if name.isdecimal() and int(name) <= last}
    newest = {**single, **found}
    return newest[max(newest)] if newest else None


def check_source_entry(text: str, *, where: str) -> None:
    """Check an entry of a file source's log: a version, then one JSON object a line. The last line shows a torn file.
    Raises CorruptRunDirectory."""
    for line in _lines(text, where=where)[-1:]:
        decode_json(line, where=where)


def kind_of(recorded: str | None, offset: str | None, names: Collection[str]) -> str:
    """The kind of a source. `recorded`: as a checkpoint has it. None: the plan was not at hand; then the source is of a
    kind only if both its offset and the `names` in its folder speak for that."""
    if recorded is not None:
        return recorded
    if offset is None:
        return ANOTHER
    if log_offset(offset) is not None:
        return FILES if any(name.removesuffix(".compact").isdecimal() for name in names) else ANOTHER
    if "0" in names and isinstance(json.loads(offset), int):
        return RATE
    return ANOTHER


def needs_start(kind: str, batch: int) -> bool:
    """Whether a source needs its own record of its start. A rate source without it shifts all event times without a
    word, and batch 0 of Kafka would begin at the topic's present end."""
    return kind == RATE or (kind == KAFKA and batch == 0)


def is_copied(name: str) -> bool:
    """Whether a file of a source with a layout of its own is copied: all but the checksums and the unfinished files of
    Hadoop's file systems."""
    return not (name.startswith(".") and name.endswith((".crc", ".tmp")))


def source_folders(text: str, folders: Sequence[str], *, where: str) -> Mapping[str, str | None]:
    """The offset up to which each source is read: folder below `sources/` -> offset.

    `text`: an entry of the offset log. `folders`: the folder of each source of the plan, by position, from the Spark of
    the leader that planned it; empty: a line's name is its folder. A source that a query reads twice (a self-join, a
    self-union) has one folder. Version 1 of the log has the same line for each reading of that source; version 2 has
    one line, named by the last position. Sources with names of their own (`queryEvolution.enableSourceEvolution`, which
    needs version 2) have folders of these names. `where` names the plan in an error. Raises CorruptRunDirectory.
    """
    offsets = decode_offsets(text, where=where)
    version, head = text.split("\n")[:2]
    if not folders or (version == "v2" and _has_named_sources(head)):
        return offsets
    if version == "v1" and len(folders) != len(offsets):
        raise corrupt(where, f"has {len(offsets)} lines for {len(folders)} sources")
    by_folder: dict[str, str | None] = {}
    for name, offset in offsets.items():
        if not name.isdecimal() or int(name) >= len(folders):
            raise corrupt(where, f"has source {name}, and the query has {len(folders)}")
        folder = folders[int(name)]
        if by_folder.setdefault(folder, offset) != offset:
            raise corrupt(where, f"has two offsets for source {folder}, which is read more than once")
    return by_folder


def _has_named_sources(head: str) -> bool:
    settings = json.loads(head).get("conf")
    return isinstance(settings, dict) and settings.get(_NAMED_SOURCES) == "true"


def entries_between(names: Collection[str], after: int, last: int, *, where: str) -> tuple[str, ...]:
    """The files of a file source's log with its entries above `after`, up to `last`. A compact file holds all entries
    up to its own. Raises MissingFile."""
    base = max(_compacts(names, last), default=-1)
    above = _entries(names, max(base, after), last, where=where)
    return (f"{base}.compact", *above) if base > after else above


def _entries(names: Collection[str], after: int, last: int, *, where: str) -> tuple[str, ...]:
    """The files of the single entries above `after`, up to `last`. Raises MissingFile."""
    wanted = tuple(map(str, range(after + 1, last + 1)))
    for name in wanted:
        if name not in names:
            raise missing(f"{where}/{name}")
    return wanted


def _compacts(names: Collection[str], last: int) -> list[int]:
    """The numbers of the compact entries up to `last`."""
    return [int(match[1]) for name in names if (match := _COMPACT.match(name)) and int(match[1]) <= last]


def files_in_entry(text: str, *, after: int, last: int, where: str) -> list[str]:
    """The input files in a file of a file source's log, of the entries above `after`, up to `last`. Raises
    CorruptRunDirectory."""
    files = []
    for line in _lines(text, where=where):
        entry = decode_json(line, where=where)
        path, batch = entry.get("path"), entry.get("batchId")
        if not isinstance(path, str) or not isinstance(batch, int):
            raise corrupt(where, "does not decode: an input without a path or a batch")
        if after < batch <= last:
            files.append(path)
    return files


def _lines(text: str, *, where: str) -> list[str]:
    """The JSON objects of an entry of a file source's log. Raises CorruptRunDirectory."""
    version, *lines = text.rstrip("\n").split("\n")
    if version != "v1":
        raise corrupt(where, "does not decode: not a source log entry of version 1")
    return lines


_TIMERS: Final = ("flatMapGroupsWithState", "applyInPandasWithState", "transformWithState")
"""Beginnings of the names of operators that may owe a batch although the watermark stands still."""


def owed_batch(offsets: str, commit: str, *, operators: Iterable[str], now_ms: int, where: str) -> str | None:
    """The entry of the offset log for the batch without data after a batch that is done; None: Spark owes none.

    `offsets`, `commit`: the entries of that batch, which decode. `operators`: the names of the query's operators with
    state; empty where Spark gave them none. `now_ms`: since 1970. `where`: of the offsets, for CorruptRunDirectory.
    """
    names = list(operators)
    if not names:
        return None  # what a query without state was given, it has passed on
    version, text, *sources = offsets.split("\n")
    metadata = decode_json(text, where=where)
    before = _watermark(metadata.get("batchWatermarkMs", 0), where=where)
    after = _watermark(decode_json(commit.partition("\n")[2], where=where).get("nextBatchWatermarkMs", 0), where=where)
    if after <= before and not any(name.startswith(_TIMERS) for name in names):
        return None
    metadata |= {"batchWatermarkMs": max(before, after), "batchTimestampMs": now_ms}
    return "\n".join([version, json.dumps(metadata, separators=(",", ":")), *sources])


def _watermark(value: object, *, where: str) -> int:
    if not isinstance(value, int):
        raise corrupt(where, f"does not decode: the watermark is {value!r}")
    return value
