"""Whether the planned input files of a batch exist.

Spark reads a removed planned file as nothing, without an error. Promise: `missing_files` asks Hadoop's file system for
each file, as Spark's readers do, forty at a time; for names that look like patterns one by one. Not promised: that an
existing file still has its planned content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tenure.errors import BatchMayBeShort, InputsGone, StorageError
from tenure.spark.errors import one_line
from tenure.spark.releases import condition_of, look_for, sequence_of

Missing = Callable[[Sequence[str]], Sequence[str]]
"""Files -> those of them that do not exist, or at least `MOST_NAMED` of those."""

MOST_NAMED = 100
"""The search for missing files ends at about so many; beyond that the number does not matter."""

_AT_ONCE = 40
_CHUNK = 10_000

_LIKE_A_PATTERN: Final = re.compile(r"[{}\[\]*?\\]")
"""Spark's own question leaves out such paths. They are rare, so each is asked for alone."""


def missing_files(spark: SparkSession, paths: Sequence[str]) -> Sequence[str]:
    """The paths that do not exist, up to about `MOST_NAMED`. Raises StorageError: the storage does not answer; the
    gateway's own error when the JVM is gone."""
    missing: list[str] = []
    plain: list[str] = []
    for path in paths:
        if _LIKE_A_PATTERN.search(path) is None:
            plain.append(path)
        elif len(missing) < MOST_NAMED and not _is_there(spark, path):
            missing.append(path)
    for first in range(0, len(plain), _CHUNK):
        missing += _missing_of(spark, plain[first : first + _CHUNK], MOST_NAMED - len(missing))
    return missing


def _is_there(spark: SparkSession, path: str) -> bool:
    jvm: Any = spark._jvm
    hadoop = jvm.org.apache.hadoop.fs.Path(path)
    try:
        files = hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return bool(files.exists(hadoop))
    except Py4JJavaError as error:
        raise _unknown(error) from error


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
        look_for(spark, sequence_of(jvm, array), at_once=_AT_ONCE)
    except AnalysisException as error:
        if condition_of(error) == "PATH_NOT_FOUND":
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
