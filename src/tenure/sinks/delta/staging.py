"""Staged output: the Parquet files of a batch before a table's log names them.

Promise: every path carries scope, query, Spark's id of the query, epoch and batch, and a part that is unique to the
attempt. So no two attempts share a directory, not even `_temporary`, and a pipeline of the same name in another store
has other paths. Nothing here makes a file visible in a table. Delta can read the files: timestamps in microseconds, no
marker files, only the output of tasks that succeeded. Not promised: that the files of a failed attempt go away; the
sweep removes them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tenure.errors import StorageError
from tenure.link.driver_folder import full_disk_fix
from tenure.sinks.sink import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "tenure-"
"""Names of staging directories start with it, directly below a table."""

_PATH = re.compile(
    rf"{PREFIX}(?P<scope>[^/]+)/(?P<query>[^/]+)/(?P<query_id>[^/]+)"
    r"/e(?P<epoch>\d{8,})/b(?P<batch>\d{12,})/(?P<attempt>[0-9a-f]{32})"
)
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
_WRITER_OPTIONS = {
    # Version 2 moves a task's files before the job has succeeded: a failed attempt of a task would be listed.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# The JVM's message when the storage failed, and not the query. Errors of a Python function read differently.
_STORAGE_TROUBLE = re.compile(
    r"(No space left on device|Read-only file system|Mkdirs failed to create [^\n]*|Permission denied"
    r"|Disk quota exceeded|AccessControlException|AccessDeniedException[^\n]*)"
)
_JVM_IO = re.compile(r"(java\.io\.|java\.nio\.file\.|org\.apache\.hadoop\.)")


@dataclass(frozen=True, slots=True)
class StagingPath:
    """The directory of one attempt at one batch, relative to the table."""

    scope: str
    query: str
    query_id: str
    epoch: int
    batch: int
    attempt: str

    @classmethod
    def of(cls, batch: Batch) -> StagingPath:
        """A new path, which no other attempt has."""
        return cls(batch.scope, batch.query, batch.query_id, batch.epoch, batch.id, uuid.uuid4().hex)

    @classmethod
    def parse(cls, relative: str) -> StagingPath | None:
        """The attempt of a path below the table (a directory or a file in it); None: the path is no attempt's."""
        match = _PATH.match(relative)
        if match is None or relative[match.end() : match.end() + 1] not in ("", "/"):
            return None
        scope, query, query_id = (unquote(match[name]) for name in ("scope", "query", "query_id"))
        return cls(scope, query, query_id, int(match["epoch"]), int(match["batch"]), match["attempt"])

    def __str__(self) -> str:
        return f"{folder_of(self.scope, self.query, self.query_id)}/e{self.epoch:08d}/b{self.batch:012d}/{self.attempt}"


def folder_of(scope: str, query: str, query_id: str) -> str:
    """The folder of a query's attempts, relative to the table."""
    return "/".join([f"{PREFIX}{quote(scope, safe='')}", quote(query, safe=""), quote(query_id, safe="")])


def stage(rows: DataFrame, directory: str, *, partition_by: Sequence[str]) -> None:
    """Evaluate `rows` once and write them as Parquet files below `directory`, which must not exist yet."""
    writer = rows.write.options(**_WRITER_OPTIONS)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    with _micros(rows.sparkSession):
        try:
            writer.parquet(directory)
        except (PySparkException, Py4JJavaError) as error:
            trouble = storage_trouble(str(error))
            if trouble is None:
                raise
            fix = full_disk_fix(trouble) or "free or repair the storage"
            raise StorageError(f"cannot write to {directory}: {trouble}", fix=fix) from error


def storage_trouble(message: str) -> str | None:
    """The line of a JVM error that blames the storage; None: the error has another cause."""
    found = _STORAGE_TROUBLE.search(message)
    if found is None or not _JVM_IO.search(message):
        return None
    return found[0].strip()


@contextmanager
def _micros(session: SparkSession) -> Iterator[None]:
    """Let the session write timestamps as Delta demands, and restore its setting at the end. Structured Streaming gives
    each query its own clone of the session."""
    before = session.conf.get(_TIMESTAMPS)
    if before == "TIMESTAMP_MICROS":
        yield
        return
    session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is not None:
            session.conf.set(_TIMESTAMPS, before)
