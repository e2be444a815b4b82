"""Files of a source that moved as a whole: the same names and times below another path.

Spark's log of a file source has absolute paths. On it, a query that reads the files at another path fails, or reads
each file once more. Promise: a seed rewrites the log only if the newest files of the log are at the new path, with the
times of the log; else the takeover is refused. Not promised: that older files moved, too, or that their content stayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tenure.checkpoints.source import FILES, Source
from tenure.errors import DeclaredOtherwise, StorageError
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import check_source_entry, last_entry, newest_of_log, source_folders
from tenure.spark.errors import one_line

_URL: Final = re.compile(r"(?:(?P<scheme>[A-Za-z][\w+.-]*):)?(?P<slashes>//(?P<host>[^/]*))?(?P<path>/.*)\Z")
_PATTERN: Final = re.compile(r"[*?\[{]")
_COMPARED: Final = 20
"""How many of the newest files are looked at."""

Times = Callable[[Sequence[str]], Sequence[int | None]]
"""Files -> when each was changed, in milliseconds of the wall clock; None: it does not exist."""


@dataclass(frozen=True, slots=True)
class Move:
    """From one folder to another, as URLs without a pattern."""

    old: str
    new: str

    def of(self, url: str) -> str:
        """The URL of a file of the log at the new place. Files that are not below the old folder stay."""
        file, old, new = (_URL.match(text) for text in (url, self.old, self.new))
        if file is None or old is None or new is None:
            return url
        if (file["scheme"], file["host"] or "") != (old["scheme"], old["host"] or ""):
            return url
        if file["path"] != old["path"] and not file["path"].startswith(f"{old['path']}/"):
            return url
        slashes = f"//{new['host'] or ''}" if new["host"] or file["slashes"] is not None else ""
        return f"{new['scheme']}:{slashes}{new['path']}{file['path'].removeprefix(old['path'])}"


def moves_between(was: Mapping[str, str], now: Sequence[Source]) -> dict[str, Move]:
    """The moves from the paths of a checkpoint to those of a declared query: folder -> move. `was`: folder -> path."""
    found = {}
    for source in now:
        if source.kind == FILES and source.path and was.get(source.folder):
            move = Move(_root(was[source.folder]), _root(source.path))
            if move.old != move.new:
                found[source.folder] = move
    return found


def _root(path: str) -> str:
    """The path up to the first part with a pattern."""
    parts = path.split("/")
    first = next((place for place, part in enumerate(parts) if _PATTERN.search(unquote(part))), len(parts))
    return "/".join(parts[:first])


def moved_entry(text: str, move: Move) -> str:
    """An entry of a file source's log, which was checked, with the paths of the new place."""
    version, *lines = text.split("\n")
    return "\n".join([version, *(_moved_line(line, move) if line else line for line in lines)])


def _moved_line(line: str, move: Move) -> str:
    entry = json.loads(line)
    return json.dumps({**entry, "path": move.of(entry["path"])}, separators=(",", ":"), ensure_ascii=False)


def check_moved(
    directory: RunDirectory,
    moves: Mapping[str, Move],
    *,
    query: str,
    offsets: str,
    folders: Sequence[str],
    times: Times,
) -> None:
    """Check that the newest files of each moved source are at the new place as they were. Raises DeclaredOtherwise:
    they are not, or sources have changed their places; CorruptRunDirectory, StorageError."""
    by_folder = source_folders(offsets, folders, where="the newest plan")
    for folder, move in moves.items():
        _check_not_swapped(folder, moves, query=query)
        newest = _newest_files(directory, folder, by_folder.get(folder))
        at_new = times([unquote(move.of(entry["path"])) for entry in newest])
        for entry, changed in zip(newest, at_new, strict=True):
            if changed != entry["timestamp"]:
                why = "is not there" if changed is None else "has another time there"
                raise DeclaredOtherwise(
                    f"source {folder} of query {query!r} has moved from {move.old} to {move.new}, and a file of its "
                    f"last batches, {unquote(entry['path'])}, {why}: a query goes on only where its files only moved",
                    fix="link or mount them at the old path, or give the query a new name",
                )


def check_known(
    directory: RunDirectory, sources: Sequence[Source], *, query: str, offsets: str, folders: Sequence[str]
) -> None:
    """Check the sources of a checkpoint that has no paths, as an adopted one: of the newest files of the log, some have
    to be below the path that is declared, or Spark reads all files there once more. Raises DeclaredOtherwise: none is;
    CorruptRunDirectory, StorageError."""
    by_folder = source_folders(offsets, folders, where="the newest plan")
    for source in sources:
        root = _URL.match(_root(source.path)) if source.kind == FILES else None
        if root is None:
            continue
        known = _newest_files(directory, source.folder, by_folder.get(source.folder))
        files = [_URL.match(str(entry["path"])) for entry in known]
        if files and not any(file is not None and _is_below(file, root) for file in files):
            raise DeclaredOtherwise(
                f"source {source.folder} of query {query!r} reads {source.path}, and each file of its last batches "
                f"lies elsewhere, as {unquote(known[-1]['path'])}: Spark would read all files there once more",
                fix="declare the path from which the query has read, or link or mount the files there",
            )


def _is_below(file: re.Match[str], root: re.Match[str]) -> bool:
    """The host is not compared: one file system may be named in several ways. Nor does it matter which of the two has
    escapes."""
    if root["scheme"] is not None and file["scheme"] != root["scheme"]:
        return False
    path = unquote(file["path"])
    folders = {spelled.rstrip("/") for spelled in (root["path"], unquote(root["path"]))}
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _newest_files(directory: RunDirectory, folder: str, offset: str | None) -> list[dict[str, Any]]:
    """The newest files of a source's log, up to its planned offset, as the log has them."""
    where = f"sources/{folder}"
    last = last_entry(offset, where=f"the newest plan, source {folder}")
    name = newest_of_log(directory.list(where), last)
    if name is None:
        return []
    text = directory.read_text(f"{where}/{name}")
    check_source_entry(text, where=directory.where(f"{where}/{name}"))
    return [json.loads(line) for line in text.rstrip("\n").split("\n")[1:][-_COMPARED:]]


def _check_not_swapped(folder: str, moves: Mapping[str, Move], *, query: str) -> None:
    """Folders whose files have the same names and times look as if they had moved, where they were swapped."""
    move = moves[folder]
    for other, its in moves.items():
        if other != folder and its.old == move.new:
            raise DeclaredOtherwise(
                f"source {folder} of query {query!r} reads {move.new} now, which was source {other}: the sources have "
                "changed their places",
                fix="declare them in the order of before, or give the query a new name",
            )


def modification_times(spark: SparkSession, paths: Sequence[str]) -> Sequence[int | None]:
    """As `Times`, by Hadoop's file systems. Raises StorageError: the storage does not answer."""
    jvm: Any = spark._jvm
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    found: list[int | None] = []
    for path in paths:
        hadoop = jvm.org.apache.hadoop.fs.Path(path)
        try:
            found.append(int(hadoop.getFileSystem(configuration).getFileStatus(hadoop).getModificationTime()))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.io.FileNotFoundException":
                raise StorageError(
                    f"it cannot be known whether {path} is there: {one_line(error)}",
                    fix="check the storage of the inputs and its permissions",
                ) from error
            found.append(None)
    return found
