"""The sink for Delta tables: Spark writes the files, delta-rs commits them with an application transaction.

Promise: each batch id of a query is in the table at most once, by any writer, zombies included (I3). The table's log
keeps the newest batch of each query id, and takes a commit only on top of the snapshot in which the writer looked that
batch up. Nothing is visible before the batch is planned (I2). Files of an attempt that no log names lie under the
attempt's own path, which carries its epoch and batch. In update mode a commit that another writer overtook, or whose
reply was lost, may leave such files beside those that the log names; the table's VACUUM removes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tenure.cleanup.plan import Cleanable
from tenure.clock import Clock, SystemClock
from tenure.errors import QueryFailed, StorageError, UsageError
from tenure.events import BlobLeft, Events, WriteRefused
from tenure.retry import RetryPolicy, exponential_delay, retry
from tenure.sinks.delta import schema as delta_schema
from tenure.sinks.delta.location import Location
from tenure.sinks.sink import Attempts, Batch, OutputMode, Written
from tenure.storage.engines import delta_options
from tenure.wording import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tenure.sinks.delta.log import DeltaLog
    from tenure.sinks.delta.staged_files import StagedFile
    from tenure.sinks.delta.upsert import Upsert

T = TypeVar("T")

RETRY = exponential_delay(initial=timedelta(milliseconds=20), maximum=timedelta(seconds=1), attempts=10)
"""About four seconds, against other writers of the same table, or a storage that fails now and then."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt at a batch, with its staged files."""

    batch: Batch
    directory: str
    columns: delta_schema.Json
    files: Sequence[StagedFile]
    upsert: Upsert | None
    """Update mode: the staged rows by their keys. None in the other modes, and without rows."""
    made: list[StagedFile] = field(default_factory=list)
    """Update mode: the files that were written for commits."""


class Delta:
    """Write each batch to the Delta table at `path_or_url`, which is created when there is none.

    `append`: the rows are added. `complete`: they replace the whole table, in one commit. `update`: each row replaces
    the row with the same `key` columns, or is added; null equals null there.
    `partition_by`: columns of type string, integer, date or boolean. `storage_options`: options of delta-rs, which
    override those of the environment (an object store must offer conditional puts). `name`: for a new table.

    A batch without rows makes no commit in append and update mode. The columns of the rows must be the table's, by name
    and type: no column is added, omitted or cast.
    """

    delivery = "exactly once"

    def __init__(
        self,
        path_or_url: str | os.PathLike[str],
        *,
        key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        name: str | None = None,
        retry_policy: RetryPolicy = RETRY,
        clock: Clock | None = None,
    ) -> None:
        self._location = Location.of(path_or_url)
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self._given = dict(storage_options or {})
        self._name = name
        self._retry = retry_policy
        self._clock = clock or SystemClock()
        self._mode: OutputMode | None = None
        # One log a query (by application id), each used by its query's thread alone.
        self._logs: dict[str, DeltaLog] = {}

    @property
    def location(self) -> str:
        """The path or URL of the table."""
        return str(self._location)

    @property
    def _options(self) -> dict[str, str]:
        """The options of delta-rs."""
        return delta_options(self._location.table, self._given)

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse options that do not fit together, and remember the mode. Raises UsageError."""
        if find_spec("deltalake") is None:
            raise UsageError("the Delta sink needs the package deltalake", fix=how_to_install("delta"))
        if output_mode == "update" and not self._key:
            raise UsageError(f"update mode into {self._location} needs a key", fix="Delta(..., key=['column'])")
        if output_mode != "update" and self._key:
            raise UsageError(
                f"{output_mode} mode into {self._location} has the key {', '.join(self._key)}",
                fix="leave key out, or use update mode",
            )
        if self._mode not in (None, output_mode):
            raise UsageError(
                f"one Delta sink for {self._mode} and {output_mode} mode", fix="give each query a Delta sink of its own"
            )
        for option, value in {**os.environ, **self._given}.items():
            if option.lower() in ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename") and value.lower() == "true":
                # Two writers could then commit the same version of the table, and one batch twice.
                raise UsageError(f"{option} gives up the order of commits", fix="unset it; S3 has conditional puts")
        self._mode = output_mode

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Stage, wait for the plan, commit; see `Sink.write`."""
        if self._mode is None:
            raise UsageError(f"the Delta sink for {self._location} was not checked", fix="call check() first")
        log = self._log(batch)
        if not log.exists and not log.is_there():
            self._retried(log.refresh)  # refuses a folder that holds other files, before anything is staged
        attempt = self._stage(rows, batch, log, events)
        planned()
        written = self._commit(attempt, log, events)
        if self._mode == "update":
            self._delete(_staging_of(attempt.directory, "update"), batch, events)  # the merge has copied the rows
        return written

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Read the table's log, and stage the rows below `directory` instead of the table."""
        from tenure.sinks.delta import staged_files, upsert  # noqa: F401 - `write` imports them
        from tenure.sinks.delta.log import DeltaLog
        from tenure.sinks.staging import stage

        DeltaLog(self._location, app_id="", storage_options=self._options).refresh()
        stage.stage(rows, directory, partition_by=self._partition_by)

    def other_writers(self, *, scope: str, query: str) -> Sequence[str]:
        """The writers of the table before the query's first batch; see `Shared.other_writers`."""
        from tenure.sinks.delta.log import in_words, writers_of

        try:
            return in_words(writers_of(self._location.filesystem(self._options)), scope=scope, query=query)
        except (OSError, ValueError, KeyError) as error:
            raise StorageError(f"cannot read the log of {self._location}: {error}") from error

    def staged(self, attempts: Attempts) -> Cleanable:
        """The staged output of attempts that no log names, nor ever will."""
        from tenure.sinks.delta.staged_rule import beside
        from tenure.sinks.staging.staged_attempts import StagedAttempts

        return StagedAttempts(beside(self._location, self._options), attempts)

    def _log(self, batch: Batch) -> DeltaLog:
        from tenure.sinks.delta.log import DeltaLog, app_id_of

        app_id = app_id_of(batch.scope, batch.query, batch.query_id)
        if app_id not in self._logs:
            self._logs[app_id] = DeltaLog(
                self._location,
                app_id=app_id,
                storage_options=self._options,
                adopted=batch.query_id,
                clock=self._clock,
            )
        return self._logs[app_id]

    def _stage(self, rows: DataFrame, batch: Batch, log: DeltaLog, events: Events) -> _Attempt:
        """Evaluate the rows, once, into files that nothing names. A batch that the table has already is staged all the
        same, which evaluates it; this happens to a leader's first batch only."""
        from tenure.sinks.delta import staged_files, upsert
        from tenure.sinks.staging import stage

        columns = delta_schema.columns_of(rows.schema.jsonValue())
        is_known = log.exists
        self._refuse(columns, log)
        directory = str(stage.StagingPath.of(batch))
        inside, partition_by = _staging_of(directory, self._mode), self._partition_by
        with ThreadPoolExecutor(1, thread_name_prefix="tenure-delta") as pool:
            # The snapshot is read while Spark works. When that fails, the log is not fresh, and is read again below.
            pool.submit(log.refresh)
            staged = stage.stage(rows, self._location.for_spark(inside), partition_by=partition_by)
        if not is_known:
            try:
                if not log.fresh:
                    self._retried(log.refresh)
                self._refuse(columns, log)
            except UsageError:
                self._delete(directory, batch, events)
                raise
        types = {field["name"]: field["type"] for field in columns["fields"]}
        filesystem = self._location.filesystem(self._options)
        files = staged_files.staged_files(
            filesystem, inside, staged.puts, columns=types, partition_by=partition_by, indexed=self._indexed(log)
        )
        if staged.again:
            for path in stage.strays(filesystem, inside, {file.path for file in files}):
                self._delete(path, batch, events)
        by_key = None
        if self._mode == "update" and files:
            by_key = upsert.Upsert(filesystem, files, upsert.arrow_schema(columns), key=self._key)
            by_key.refuse_duplicates(batch=batch.id, where=str(self._location))
        return _Attempt(batch, directory, columns, files, by_key)

    def _refuse(self, columns: delta_schema.Json, log: DeltaLog) -> None:
        """Raise UsageError when rows of these columns do not fit into the table in the snapshot."""
        delta_schema.refuse_layout(columns, partition_by=self._partition_by, key=self._key)
        if not log.exists:
            return
        where = str(self._location)
        if self._mode == "update":
            delta_schema.refuse_rewriting(log.features, where=where)
        delta_schema.refuse_table(log.columns, log.configuration, where=where)
        delta_schema.refuse_difference(columns, log.columns, where=where)
        if log.partition_by != list(self._partition_by):
            raise UsageError(
                f"{where} is partitioned by {log.partition_by}, the sink by {list(self._partition_by)}",
                fix="name the table's own columns in partition_by",
            )

    def _commit(self, attempt: _Attempt, log: DeltaLog, events: Events) -> Written:
        """Commit against a snapshot without the batch, until a commit succeeds."""
        sent_at: int | None = None

        def once() -> Written:
            nonlocal sent_at
            if not log.fresh:
                log.refresh()
            # A short batch is noted also without rows: an earlier attempt may have rows, and must be refused then.
            is_needed = bool(attempt.files) or self._mode == "complete" or attempt.batch.short
            if is_needed and not log.exists:
                log.create(attempt.columns, partition_by=self._partition_by, name=self._name)
            if log.has(attempt.batch.id):
                return self._settled(attempt, log, events, sent_at=sent_at)
            if not is_needed:
                return Written(repeated=False)
            self._refuse(attempt.columns, log)
            sent_at = log.version if sent_at is None else sent_at
            self._send(attempt, log, events)
            return Written(repeated=False)

        try:
            return self._retried(once)
        except (StorageError, QueryFailed):
            # The last commit may have succeeded although its reply, or a later step, failed.
            log.refresh()
            if log.has(attempt.batch.id):
                return self._settled(attempt, log, events, sent_at=sent_at)
            raise

    def _send(self, attempt: _Attempt, log: DeltaLog, events: Events) -> None:
        from tenure.sinks.delta import upsert

        batch, name = attempt.batch.id, attempt.directory
        mode: Literal["append", "overwrite"] = "overwrite" if self._mode == "complete" else "append"
        if attempt.upsert is None:
            log.add(attempt.files, mode=mode, batch=batch, attempt=name)
            return
        types = {field["name"]: field["type"] for field in attempt.columns["fields"]}
        try:
            merged = attempt.upsert.merge(
                log.files(), name, columns=types, partition_by=self._partition_by, indexed=self._indexed(log)
            )
        except upsert.FAILURES as error:
            raise log.failed_merge(batch, error) from error
        before = [file.path for file in attempt.made]
        attempt.made.extend(merged.added)
        log.add(merged.added, mode=mode, batch=batch, attempt=name, removed=merged.removed)
        for path in before:  # of commits that another writer overtook: they cannot arrive any more
            self._delete(path, attempt.batch, events)

    @staticmethod
    def _indexed(log: DeltaLog) -> int:
        from tenure.sinks.delta.staged_files import INDEXED

        return delta_schema.indexed_columns(log.configuration if log.exists else {}, usual=INDEXED)

    def _settled(self, attempt: _Attempt, log: DeltaLog, events: Events, *, sent_at: int | None) -> Written:
        """Decide whether the table has the batch by a commit of this attempt, whose reply was lost, or by another."""
        batch = attempt.batch
        ours = sent_at is not None and log.holds(attempt.directory, since=sent_at)
        if ours:
            return Written(repeated=False)
        if sent_at is not None:
            what = f"batch {batch.id} of {batch.query} to {self._location}"
            events.emit(WriteRefused(batch.scope, epoch=batch.epoch, by="sink", what=what))
        if ours is None:
            address = f"{self._location}/{attempt.directory}"
            events.emit(BlobLeft(batch.scope, address=address, why="the log no longer tells who committed it"))
        else:
            self._delete(attempt.directory, batch, events)
        return Written(repeated=True)

    def _delete(self, path: str, batch: Batch, events: Events) -> None:
        """Delete a staged file or folder that no log names."""
        try:
            self._remove(self._location.filesystem(self._options), path)
        except FileNotFoundError:
            return
        except OSError as error:
            events.emit(BlobLeft(batch.scope, address=f"{self._location}/{path}", why=str(error)))

    def _retried(self, call: Callable[[], T]) -> T:
        return retry(call, policy=self._retry, on=StorageError, clock=self._clock)

    @staticmethod
    def _remove(filesystem: Any, path: str) -> None:
        if path.endswith(".parquet"):
            filesystem.delete_file(path)
        else:
            filesystem.delete_dir(path)


def _staging_of(directory: str, mode: OutputMode | None) -> str:
    """Where the tasks of an attempt put their files: apart from the files of a merge, in update mode."""
    return f"{directory}/rows" if mode == "update" else directory
