"""The sink for plain files: Spark writes the files, and the log of Spark's own file sink names them.

Promise: Spark's readers of the folder see each batch once, by any writer, zombies included (I3), and nothing before the
batch is planned (I2): the entry of a batch is put if there is none. A job that used Spark's own file sink goes on in
its folder under Tenure, and Spark's own sink goes on after Tenure: the log is Spark's. Not promised to readers that
list the folder and do not read its log: they also see files of attempts that were not committed, until the sweep of a
later leader. These files lie among the others: Spark finds only what lies directly in the folder, or in a partition's.

For these readers there is a layout of folders. The log, which is hidden then, decides as before; after that the folder
of the attempt gets its name, by one rename. A leader that finds a batch in the log whose folder has no name yet gives
it the name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from tenure.cleanup.plan import Cleanable
from tenure.clock import Clock, SystemClock
from tenure.errors import QueryFailed, StorageError, UsageError
from tenure.events import BlobLeft, Events, WriteRefused
from tenure.retry import RetryPolicy, exponential_delay, retry
from tenure.sinks.files.log import FOLDER, FileLog, LoggedFile, Query, prefix_of
from tenure.sinks.sink import Attempts, Batch, OutputMode, Written
from tenure.storage.reach import reach
from tenure.storage.storage import Storage
from tenure.storage.urls import hadoop_url, one_spelling, path_on_disk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=50), maximum=timedelta(seconds=2), attempts=10)
"""About ten seconds, against a storage that fails now and then."""

HIDDEN: Final = "_tenure"
"""The folder of attempts and of the log, where each batch has a folder; readers pass over names with an underscore."""

FORMATS: Final = ("parquet", "orc", "json", "csv")
_NESTED: Final = ("struct", "array", "map")


@dataclass(frozen=True, slots=True)
class _Placed:
    """An attempt at a batch, with its files."""

    batch: Batch
    directory: str
    """Relative to the folder; empty: the files lie beside those of other attempts."""
    files: Sequence[LoggedFile]


class Files:
    """Write each batch as files into the folder `path_or_url`, for queries in append mode.

    `format`: parquet, orc, json or csv. `partition_by`: columns whose values become folders, as `carrier=AA`.
    `options`: Spark's for the format, such as compression or header. `layout`: `log`, for readers of Spark, which read
    the log (`spark.read.parquet(folder)`, or a stream); `folders`, for readers that list folders: each batch is a
    folder `b000000000012`, which is there whole or not at all. An object store has no folders, so `log` only.

    The folder belongs to the query: each query has its own. A batch without rows adds no file.
    """

    def __init__(
        self,
        path_or_url: str | os.PathLike[str],
        *,
        format: str = "parquet",  # noqa: A002 - Spark's word
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        layout: Literal["log", "folders"] = "log",
        retry_policy: RetryPolicy = RETRY,
        clock: Clock | None = None,
    ) -> None:
        text = os.fspath(path_or_url)
        self._url = path_on_disk(text) or one_spelling(text.rstrip("/"))
        self._format = format
        self._partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self._options = dict(options or {})
        self._layout = layout
        self._retry = retry_policy
        self._clock = clock or SystemClock()
        self._kept: Storage | None = None  # None: not used yet
        self._logs: dict[Query, tuple[FileLog, int]] = {}  # of queries that have the folder, and since which batch

    @property
    def delivery(self) -> str:
        """The promise, and the readers to whom it is given."""
        return f"exactly once, for readers that {'list folders' if self._has_folders else 'are Spark'}"

    @property
    def _has_folders(self) -> bool:
        return self._layout == "folders"

    @property
    def _inside(self) -> str:
        """The path or URL below which attempts are staged, and which has the log."""
        return f"{self._url}/{HIDDEN}" if self._has_folders else self._url

    @property
    def location(self) -> str:
        """The path or URL of the folder."""
        return self._url

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse options that do not fit together. Raises UsageError."""
        if self._format not in FORMATS:
            raise UsageError(
                f"format {self._format!r} of a Files sink is unknown", fix=f"give one of {', '.join(FORMATS)}"
            )
        if self._layout not in ("log", "folders"):
            raise UsageError(f"layout {self._layout!r} of a Files sink is unknown", fix="give log or folders")
        if self._has_folders and not self._storage.keeps_folders:
            raise UsageError(
                f"{self._url} is in an object store, where no folder appears at one instant",
                fix="use layout='log' and read it with Spark, or the sink Delta",
            )
        if output_mode != "append":
            raise UsageError(
                f"{output_mode} mode into the files of {self._url}: files are added, and never changed",
                fix="use append mode with a watermark, or the sink Delta",
            )
        _ = self._storage

    def check_rows(self, rows: DataFrame) -> None:
        """Refuse rows that the format cannot hold. Raises UsageError."""
        types = {field.name: field.dataType.typeName() for field in rows.schema.fields}
        for name in self._partition_by:
            if name not in types:
                raise UsageError(
                    f"partition_by names column {name!r}, which the rows lack", fix=f"they have {', '.join(types)}"
                )
        if self._partition_by and len(self._partition_by) == len(types):
            raise UsageError("partition_by names every column of the rows", fix="leave one column out")
        for name, kind in types.items():
            if (self._format == "csv" and kind in _NESTED) or (name in self._partition_by and kind in _NESTED):
                where = "a folder's name" if name in self._partition_by else "csv"
                raise UsageError(
                    f"column {name} has type {kind}, which {where} cannot hold", fix=f"cast or drop {name}"
                )

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Stage, wait for the plan, put the entry; see `Sink.write`."""
        query = Query(batch.scope, batch.query, batch.query_id)
        log = self._logs[query][0] if query in self._logs else self._retried(lambda: self._free_log(query, batch))
        attempt = self._stage(rows, batch, events)
        planned()
        if query not in self._logs:
            self._logs[query] = log, self._retried(lambda: self._log().claim(query, batch=batch.id)).since
        if log.newest >= batch.id:  # this happens to a leader's first batch only
            return self._had(attempt, log, events)
        if self._retried(lambda: log.add(batch.id, attempt.files)):
            self._publish(batch.id, log)
            return Written(repeated=False)
        what = f"batch {batch.id} of {batch.query} to {self._url}"
        events.emit(WriteRefused(batch.scope, epoch=batch.epoch, by="sink", what=what))
        return self._had(attempt, log, events)

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Stage the rows below `directory` instead of the folder."""
        from tenure.sinks.staging import stage

        files = stage.Format(self._format, self._options)
        stage.stage(rows, directory, partition_by=self._partition_by, files=files)

    def staged(self, attempts: Attempts) -> Cleanable:
        """The staged files of attempts that no log names, nor ever will."""
        from tenure.sinks.files.staged_rule import FilesAmongOthers, beside
        from tenure.sinks.staging.staged_attempts import StagedAttempts

        if self._has_folders:
            return StagedAttempts(beside(self._storage, self._url), attempts)
        return FilesAmongOthers(self._storage, self._url, attempts)

    @property
    def _storage(self) -> Storage:
        if self._kept is None:
            self._kept = reach(self._inside, what="folder of a Files sink")
        return self._kept

    def _log(self) -> FileLog:
        return FileLog(self._storage, where=self._url)

    def _free_log(self, query: Query, batch: Batch) -> FileLog:
        """The log of a folder that the query may have. Raises QueryFailed, UsageError, StorageError."""
        log = self._log()
        log.check(query, batch=batch.id, check_new=self._refuse_foreign)
        return log

    def _refuse_foreign(self) -> None:
        """Raise UsageError when the folder without a log holds other files: Spark would no longer read them."""
        for entry in reach(self._url).entries():
            if not entry.name.startswith(("_", ".", "tenure-")):
                raise UsageError(
                    f"{self._url} has no log of Spark's file sink ({FOLDER}), but {entry.name} lies there",
                    fix="name an empty or a new folder",
                )

    def _stage(self, rows: DataFrame, batch: Batch, events: Events) -> _Placed:
        """Evaluate the rows, once, into files that nothing names."""
        from tenure.sinks.staging import stage

        path = stage.StagingPath.of(batch)
        directory, prefix = (str(path), "") if self._has_folders else ("", prefix_of(path))
        root = hadoop_url(self._inside)
        staged = stage.stage(
            rows,
            f"{root}/{directory}" if directory else root,
            partition_by=self._partition_by,
            files=stage.Format(self._format, self._options),
            prefix=prefix,
        )
        inside = f"{directory}/" if directory else ""
        files = [LoggedFile(f"{root}/{inside}{put.path}", put.size, put.modified_ms) for put in staged.puts]
        if staged.again and directory:
            self._remove_strays(directory, {put.path for put in staged.puts}, batch, events)
        return _Placed(batch, directory, files)

    def _remove_strays(self, directory: str, names: set[str], batch: Batch, events: Events) -> None:
        """Remove the files of tasks that were lost, and ran again."""
        try:
            for entry in self._storage.entries(directory):
                if entry.name not in names:
                    self._storage.delete(f"{directory}/{entry.name}")
        except StorageError as failed:
            events.emit(BlobLeft(batch.scope, address=f"{self._url}/{directory}", why=str(failed)))

    def _had(self, attempt: _Placed, log: FileLog, events: Events) -> Written:
        """The log has the batch by another attempt."""
        self._refuse_foreign_batch(attempt.batch, log)
        self._publish(attempt.batch.id, log)
        self._discard(attempt, events)
        return Written(repeated=True)

    def _publish(self, batch: int, log: FileLog) -> None:
        """Give the folder of a batch that the log has its name, unless it has, or had it. Anybody may do that, and
        again. Raises StorageError."""
        if not self._has_folders:
            return
        from tenure.sinks.staging.stage import StagingPath

        root, target = f"{hadoop_url(self._inside)}/", reach(self._url)
        for url in log.urls_of(batch):
            path = StagingPath.parse(url.removeprefix(root))
            if path is not None:
                self._retried(partial(target.move, f"{HIDDEN}/{path}", f"b{batch:012d}"))
                return

    def _refuse_foreign_batch(self, batch: Batch, log: FileLog) -> None:
        """Raise QueryFailed when the log has the batch by another job that goes on beside the pipeline."""
        since = self._logs[Query(batch.scope, batch.query, batch.query_id)][1]
        writers = log.writers_of(batch.id)
        was_adopted = batch.id <= since and None in writers  # in the last batch of a job of plain Spark
        if writers and batch.scope not in writers and not was_adopted:
            raise QueryFailed(
                f"{self._url} has batch {batch.id} of the same query by a job that is not this pipeline, and goes on "
                "there",
                fix="stop that job, and adopt its checkpoint into a scope of a new name",
            )

    def _discard(self, attempt: _Placed, events: Events) -> None:
        """Remove the files of an attempt that no log names."""
        try:
            if attempt.directory:
                self._storage.remove(attempt.directory)
            else:
                root = f"{hadoop_url(self._inside)}/"
                for file in attempt.files:
                    self._storage.delete(file.url.removeprefix(root))
        except StorageError as failed:
            address = f"{self._url}/{attempt.directory}".rstrip("/")
            events.emit(BlobLeft(attempt.batch.scope, address=address, why=str(failed)))

    def _retried(self, call: Callable[[], T]) -> T:
        return retry(call, policy=self._retry, on=StorageError, clock=self._clock)
