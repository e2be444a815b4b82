"""Which of Spark's own logs a seed needs: offsets, commits and the sources' logs. Pure: names and text in, names out.

Promise: what is returned is enough for Spark 4.3 to go on at the planned batch, and nothing that a run needs is
left out silently: a gap or a text that does not decode is CorruptRunDirectory, naming the file.
Not promised: that the layout is Spark's API. It was measured; `tests/spark/test_seeding.py` has a test for each row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NewType

from tenure.errors import CorruptRunDirectory

StateIds = NewType("StateIds", Mapping[str, list[list[str]]])
"""Operator -> partition -> store -> the unique id in the name of the state version that a commit wrote."""

_NAMED_SOURCES = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
NO_OFFSET = "-"
_FIX = "restore it; no older checkpoint is taken in its place"
_COMPACT = re.compile(r"(\d+)\.compact\Z")


class MissingFile(CorruptRunDirectory):
    """A file that is needed is not there; a damaged one is another matter where something else can stand in for it."""


def missing(where: str) -> MissingFile:
    """The error for the file `where` that is not there."""
    return MissingFile(f"{where} is missing", fix=_FIX)


def corrupt(where: str, why: str) -> CorruptRunDirectory:
    """The error for the file `where`."""
    return CorruptRunDirectory(f"{where} {why}", fix=_FIX)


def decode_json(text: str, *, where: str) -> dict[str, object]:
    """A JSON object; anything else is corrupt."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise corrupt(where, f"does not decode: {error}") from error
    if not isinstance(value, dict):
        raise corrupt(where, "does not decode: not a JSON object")
    return value


def decode_query_id(text: str, *, where: str) -> str:
    """Spark's id of the query, from the file `metadata`."""
    query_id = decode_json(text, where=where).get("id")
    if not isinstance(query_id, str) or not query_id:
        raise corrupt(where, "does not decode: no query id")
    return query_id


def decode_offsets(text: str, *, where: str) -> dict[str, str | None]:
    """The offsets of one batch: name of the source -> its offset; None: it has none yet.

    Version 1 of the log lists the offsets by position, version 2 as `name:offset`. For folders see `source_folders`.
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
    """The ids of the state that the batch wrote; None: state files are named by version only (format 1)."""
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
    """The last entry of a file source's log that `offset` covers; None: it is another kind of source."""
    value = json.loads(offset)
    if isinstance(value, dict) and set(value) == {"logOffset"} and isinstance(value["logOffset"], int):
        return int(value["logOffset"])
    return None


def source_log(names: Collection[str], last: int, *, where: str) -> tuple[str, ...]:
    """The entries of a file source's log up to `last`: the newest two compact ones, and all above.

    Spark takes the interval at which it compacts from the names of these two (`CompactibleFileStreamLog`); from one
    alone it guesses, and asks for compact entries that were never written. Newer entries are left out: a former owner
    that is still alive may be writing them.
    """
    compacts = sorted(int(found[1]) for name in names if (found := _COMPACT.match(name)) and int(found[1]) <= last)
    base = compacts[-1] if compacts else None
    wanted = [f"{entry}.compact" for entry in compacts[-2:]]
    for entry in range(0 if base is None else base + 1, last + 1):
        if str(entry) not in names:
            raise missing(f"{where}/{entry}")
        wanted.append(str(entry))
    return tuple(wanted)


def check_source_entry(text: str, *, where: str) -> None:
    """One entry of a file source's log: a version and one JSON object a line. The last line tells a torn file."""
    lines = text.rstrip("\n").split("\n")
    if lines[0] != "v1":
        raise corrupt(where, "does not decode: not a source log entry of version 1")
    if len(lines) > 1:
        decode_json(lines[-1], where=where)


def needs_start(offset: str, batch: int) -> bool:
    """Whether a source that is not a file source cannot go on rightly without its own record of where it began.

    A plain number is the rate source's: without its start time Spark shifts all event times and says nothing.
    Topic -> partition -> number is Kafka's: batch 0 would begin at whatever is the end of the topic by now.
    """
    value = json.loads(offset)
    if isinstance(value, int):
        return True
    return batch == 0 and isinstance(value, dict) and bool(value) and all(map(_is_partitions, value.values()))


def _is_partitions(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(k.isdigit() and isinstance(v, int) for k, v in value.items())


def is_log_file(name: str) -> bool:
    """Whether a file of a source is content: neither hidden, nor a checksum, nor a temporary name."""
    return not name.startswith((".", "_")) and not name.endswith((".crc", ".tmp"))


def source_folders(text: str, folders: Sequence[str], *, where: str) -> Mapping[str, str | None]:
    """What each folder below `sources/` is read up to: folder -> offset.

    `text`: an entry of the offset log. `folders`: the folder of each source of the plan, by position, as its leader's
    Spark had it; empty: a line's name is its folder. A source that a query reads twice (a self-join, a self-union) has
    one folder. In version 1 of the log it has a line, the same, for each time; in version 2 it has one, named by the
    last of its positions. Sources with names of their own (`queryEvolution.enableSourceEvolution`, which needs
    version 2) have folders of these names. `where` names the plan in an error. Raises CorruptRunDirectory.
    """
    offsets = decode_offsets(text, where=where)
    version, head = text.split("\n")[:2]
    if not folders or (version == "v2" and _has_named_sources(head)):
        return offsets
    if version == "v1" and len(folders) != len(offsets):
        raise corrupt(where, f"has {len(offsets)} lines for {len(folders)} sources")
    found: dict[str, str | None] = {}
    for name, offset in offsets.items():
        if not name.isdecimal() or int(name) >= len(folders):
            raise corrupt(where, f"has source {name}, and the query has {len(folders)}")
        folder = folders[int(name)]
        if found.setdefault(folder, offset) != offset:
            raise corrupt(where, f"has two offsets for source {folder}, which is read more than once")
    return found


def _has_named_sources(head: str) -> bool:
    settings = json.loads(head).get("conf")
    return isinstance(settings, dict) and settings.get(_NAMED_SOURCES) == "true"


def entries_between(names: Collection[str], after: int, last: int, *, where: str) -> tuple[str, ...]:
    """The files of a file source's log that have its entries after one, up to another: a compact one has all before.
    Raises MissingFile."""
    compacts = [int(found[1]) for name in names if (found := _COMPACT.match(name)) and int(found[1]) <= last]
    base = max(compacts, default=-1)
    wanted = [f"{base}.compact"] if base > after else []
    for entry in range(max(base, after) + 1, last + 1):
        if str(entry) not in names:
            raise missing(f"{where}/{entry}")
        wanted.append(str(entry))
    return tuple(wanted)


def files_in_entry(text: str, *, after: int, last: int, where: str) -> list[str]:
    """The input files that a file of a file source's log has of the entries after one, up to another."""
    lines = text.rstrip("\n").split("\n")
    if lines[0] != "v1":
        raise corrupt(where, "does not decode: not a source log entry of version 1")
    found = []
    for line in lines[1:]:
        entry = decode_json(line, where=where)
        path, batch = entry.get("path"), entry.get("batchId")
        if not isinstance(path, str) or not isinstance(batch, int):
            raise corrupt(where, "does not decode: an input without a path or a batch")
        if after < batch <= last:
            found.append(path)
    return found
