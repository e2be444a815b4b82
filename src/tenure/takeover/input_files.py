"""The planned input files of a batch, and whether they exist.

Spark reads a removed planned file as nothing, without an error. Promise: `planned_inputs` names the files that the logs
of the file sources name for the batch. `missing_files` asks Hadoop's file system for each, as Spark's readers do,
forty at a time. Not promised: that an existing file still has its planned content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tenure.checkpoints.source import FILES
from tenure.errors import BatchMayBeShort, InputsGone, StorageError
from tenure.spark.errors import one_line
from tenure.spark.releases import look_for
from tenure.takeover.moved_files import Move
from tenure.takeover.run_directory import RunDirectory
from tenure.takeover.seed_logs import entries_between, files_in_entry, kind_of, last_entry, source_folders

Missing = Callable[[Sequence[str]], Sequence[str]]
"""Files -> those of them that do not exist, or at least `MOST_NAMED` of those."""

MOST_NAMED = 100
"""The search for missing files ends at about so many; beyond that the number does not matter."""

_AT_ONCE = 40
_CHUNK = 10_000


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


def _logged(directory: RunDirectory, folder: str, *, after: int, last: int) -> Iterator[str]:
    if after >= last:
        return
    for name in entries_between(directory.list(folder), after, last, where=directory.where(folder)):
        path = f"{folder}/{name}"
        text = directory.read_text(path)
        yield from files_in_entry(text, after=after, last=last, where=directory.where(path))


def missing_files(spark: SparkSession, paths: Sequence[str]) -> Sequence[str]:
    """The paths that do not exist, up to about `MOST_NAMED`. Raises StorageError: the storage does not answer; the
    gateway's own error when the JVM is gone."""
    missing: list[str] = []
    for first in range(0, len(paths), _CHUNK):
        missing += _missing_of(spark, paths[first : first + _CHUNK], MOST_NAMED - len(missing))
    return missing


def _missing_of(spark: SparkSession, paths: Sequence[str], most: int) -> list[str]:
    """Search by halves: in nearly every case all files exist, and a single question shows that."""
    if most <= 0 or _all_there(spark, paths):
        return []
    if len(paths) == 1:
        return list(paths)
    half = len(paths) // 2
    missing = _missing_of(spark, paths[:half], most)
    return missing + _missing_of(spark, paths[half:], most - len(missing))


def _all_there(spark: SparkSession, paths: Sequence[str]) -> bool:
    jvm: Any = spark._jvm
    try:
        # The first step of `spark.read.load(paths)`, without the listing that follows there.
        array = jvm.org.apache.commons.lang3.StringUtils.split("\0".join(paths), "\0")
        look_for(spark, jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(array), at_once=_AT_ONCE)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise _unknown(error) from error
    except (PySparkException, Py4JJavaError) as error:
        raise _unknown(error) from error
    return True


def _unknown(error: Exception) -> StorageError:
    return StorageError(
        f"it cannot be known whether the planned input files are there: {one_line(error)}",
        fix="check the storage of the inputs and its permissions",
    )


def files_gone(missing: Sequence[str], *, query: str, batch: int, written: bool) -> InputsGone:
    """The error of a batch whose inputs are gone. `written`: its sink was called with the remaining inputs."""
    count = len(missing)
    others = "" if count == 1 else f" and {'at least ' if count >= MOST_NAMED else ''}{count - 1} more"
    what = f"input files that are planned for batch {batch} of query {query!r} are gone: {missing[0]}{others}"
    fix = "put them back and start again; a batch is done when tenure status shows a later one of its query"
    if written:
        what += "; its function was called while they went, so the target may hold a short batch"
        fix = "start again if another leader has finished it; else put them back first, and look at it in the target"
        return BatchMayBeShort(what, fix=fix)
    return InputsGone(what, fix=fix)
