"""Staged output: the Parquet files of a batch before its target names them.

Promise: every path carries scope, query, Spark's id of the query, epoch and batch, and a part that is unique to the
attempt. So no two attempts share a directory, and a pipeline of the same name in another store has other paths. A task
puts each file where it stays, once, also in an object store (`spark/java/StagedOutput.java`). The files of an attempt
are those that its tasks committed, and are not looked for in the storage. Nothing here makes a file visible. Other
readers of Parquet can read the files: timestamps in microseconds, days in the calendar of SQL, also before 1582. Not
promised: that the files of a failed attempt go away; the sweep removes them. Nor that a task that was lost leaves no
file in the directory of an attempt that succeeded: the sink removes the files that are there at the end of a job; later
files are the target's to remove (a table's VACUUM).
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tenure.errors import StorageError
from tenure.link.driver_folder import full_disk_fix
from tenure.sinks.sink import Batch
from tenure.spark.block_settings import block_settings
from tenure.spark.own_classes import STAGED_OUTPUT, use_own_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PREFIX = "tenure-"
"""Names of staging directories start with it, directly below a target."""

_PATH = re.compile(
    rf"{PREFIX}(?P<scope>[^/]+)/(?P<query>[^/]+)/(?P<query_id>[^/]+)"
    r"/e(?P<epoch>\d{8,})/b(?P<batch>\d{12,})/(?P<attempt>[0-9a-f]{32})"
)
_SETTINGS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.commitProtocolClass": STAGED_OUTPUT,
}
"""Spark's settings for the job that stages."""
_AGAIN: Final = "again"
_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
# The JVM's message when the storage failed, and not the query. Errors of a Python function read differently.
_STORAGE_TROUBLE = re.compile(
    r"(No space left on device|Read-only file system|Mkdirs failed to create [^\n]*|Permission denied"
    r"|Disk quota exceeded|AccessControlException|AccessDeniedException[^\n]*|fs\.s3a\.\w+Exception: [^\n]*)"
)
_JVM_IO = re.compile(r"(java\.io\.|java\.nio\.file\.|org\.apache\.hadoop\.)")


@dataclass(frozen=True, slots=True)
class StagingPath:
    """The directory of one attempt at one batch, relative to the target."""

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
        """The attempt of a path below the target (a directory or a file in it); None: the path is no attempt's."""
        match = _PATH.match(relative)
        if match is None or relative[match.end() : match.end() + 1] not in ("", "/"):
            return None
        scope, query, query_id = (unquote(match[name]) for name in ("scope", "query", "query_id"))
        return cls(scope, query, query_id, int(match["epoch"]), int(match["batch"]), match["attempt"])

    def __str__(self) -> str:
        return f"{folder_of(self.scope, self.query, self.query_id)}/e{self.epoch:08d}/b{self.batch:012d}/{self.attempt}"


def folder_of(scope: str, query: str, query_id: str) -> str:
    """The folder of a query's attempts, relative to the target."""
    return "/".join([f"{PREFIX}{quote(scope, safe='')}", quote(query, safe=""), quote(query_id, safe="")])


@dataclass(frozen=True, slots=True)
class PutFile:
    """A file that a task has put."""

    path: str
    """Relative to the attempt's directory."""
    size: int
    modified_ms: int
    end: bytes
    """The end of the file, from its footer on; empty: the footer is too long to be sent."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The output of a job."""

    puts: Sequence[PutFile]
    again: bool
    """Whether a task may have run more than once, so that the directory may hold other files, too."""


@dataclass(frozen=True, slots=True)
class Format:
    """How the rows stand in a file."""

    name: str = "parquet"
    """As Spark calls it."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Spark's options for it."""


PARQUET: Final = Format()


def stage(
    rows: DataFrame, directory: str, *, partition_by: Sequence[str], files: Format = PARQUET, prefix: str = ""
) -> Staged:
    """Evaluate `rows` once and write them as files below `directory`, a URL in Hadoop's spelling, which must not exist
    yet. Files without rows are not written. `prefix`: of each file's name; with it, the directory may exist and have
    other files, of which none is touched."""
    spark = rows.sparkSession
    use_own_classes(spark)
    scheme, separator, rest = directory.partition("://")
    assert separator, directory
    name = uuid.uuid4().hex
    options = {"tenure.staged.as": name, "tenure.staged.prefix": prefix}
    options[f"fs.tenure+{scheme}.impl"] = f"{STAGED_OUTPUT}$Once"
    writer = rows.write.format(files.name).options(**files.options).options(**options)
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    with block_settings(spark, _SETTINGS):
        try:
            writer.save(f"tenure+{scheme}://{rest}")
        except (PySparkException, Py4JJavaError) as error:
            trouble = storage_trouble(str(error))
            if trouble is None:
                raise
            fix = full_disk_fix(trouble) or "free or repair the storage"
            raise StorageError(f"cannot write to {directory}: {trouble}", fix=fix) from error
    assert spark.sparkContext._jvm is not None
    return _staged(str(spark.sparkContext._jvm.tenure.spark.StagedOutput.take(name)))


def _staged(text: str) -> Staged:
    """Decode the list of a job."""
    lines = text.splitlines()
    again = lines[:1] == [_AGAIN]
    puts = []
    for line in lines[again:]:
        size, modified_ms, end, path = line.split(" ", 3)
        puts.append(PutFile(path, int(size), int(modified_ms), base64.b64decode(end)))
    return Staged(puts, again)


def partition_values(path: str, partition_by: Sequence[str]) -> dict[str, str | None]:
    """The values in Spark's directory names. Spark writes null and the empty string alike; so do table formats."""
    values: dict[str, str | None] = {}
    for part in path.split("/")[: len(partition_by)]:
        name, _, value = part.partition("=")
        values[unquote(name)] = None if value == _NULL_PARTITION else unquote(value)
    return values


def strays(filesystem: Any, directory: str, named: Collection[str]) -> list[str]:
    """The files of tasks below `directory` that are not among `named`: of tasks that were lost, and ran again.
    `filesystem`: pyarrow's, with the target as its root."""
    from pyarrow import fs  # an executor or a rehearsal needs none

    below = filesystem.get_file_info(fs.FileSelector(directory, recursive=True, allow_not_found=True))
    return [info.path for info in below if info.is_file and info.path.endswith(".parquet") and info.path not in named]


def storage_trouble(message: str) -> str | None:
    """The line of a JVM error that blames the storage; None: the error has another cause."""
    found = _STORAGE_TROUBLE.search(message)
    if found is None or not _JVM_IO.search(message):
        return None
    return found[0].strip()
