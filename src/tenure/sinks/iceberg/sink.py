"""The sink for Iceberg tables: Spark writes the files, pyiceberg commits them with a ledger of batches.

Promise: each batch id of a query is in the table at most once, by any writer, zombies included (I3). The table keeps
the newest batch of each query id in a property, which the commit of the batch sets; a commit is taken only on top of
the metadata in which the writer looked that batch up. A ledger of a higher epoch keeps a batch out. Nothing is visible
before the batch is planned (I2), but an empty table. Files of an attempt that no snapshot names lie under the
attempt's own path, which carries its epoch and batch. Not promised: the removal of the manifests of commits that were
refused, or whose reply was lost; the table's own search for orphan files removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tenure.cleanup.plan import Cleanable
from tenure.clock import Clock, SystemClock
from tenure.errors import Fenced, QueryFailed, StorageError, UsageError
from tenure.events import BlobLeft, Events, WriteRefused
from tenure.retry import RetryPolicy, exponential_delay, retry
from tenure.sinks.iceberg import schema
from tenure.sinks.iceberg.catalog import open_catalog, refuse_secrets
from tenure.sinks.iceberg.partitions import PartitionTerm, refuse_parts
from tenure.sinks.sink import Attempts, Batch, OutputMode, Written
from tenure.wording import how_to_install

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyspark.sql import DataFrame

    from tenure.sinks.iceberg.layout import Layout
    from tenure.sinks.iceberg.staged_files import Describing
    from tenure.sinks.iceberg.table import IcebergTable
    from tenure.sinks.iceberg.upsert import KeyedRows

T = TypeVar("T")

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=50), maximum=timedelta(seconds=2), attempts=20)
"""About half a minute, against other writers of the same table, or a catalog that starts anew."""


@dataclass(frozen=True, slots=True)
class _StagedBatch:
    """An attempt at a batch, with its staged files."""

    batch: Batch
    directory: str
    columns: schema.Json
    layout: Layout
    files: Sequence[DataFile]
    describing: Describing
    upsert: KeyedRows | None
    """Update mode: the staged rows by their keys. None in the other modes, and without rows."""
    made: list[DataFile] = field(default_factory=list)
    """Update mode: the copies that were written for commits."""


class Iceberg:
    """Write each batch to the Iceberg table `table`, NAMESPACE.TABLE, which is created when there is none.

    `append`: the rows are added. `complete`: they replace the whole table, in one snapshot. `update`: each row replaces
    the row with the same `key` columns, or is added; null equals null there.
    `catalog`: its name in pyiceberg's configuration, ~/.pyiceberg.yaml or PYICEBERG_CATALOG__NAME__URI and so on.
    `properties`: of the catalog, beside those of the configuration; secrets are refused here.
    `partition_by`: of a new table, such as "day(at)", "carrier", "truncate(3, code)" or "bucket(16, id)". A table
    that is there must have the same partitions, and keeps its own where `partition_by` is left out.

    A batch without rows makes no commit in append and update mode. The columns of the rows must be the table's, by name
    and type: no column is added, omitted or cast.
    """

    delivery = "exactly once"

    def __init__(
        self,
        table: str,
        *,
        catalog: str = "default",
        properties: Mapping[str, str] | None = None,
        key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        retry_policy: RetryPolicy = RETRY,
        clock: Clock | None = None,
    ) -> None:
        self._name = table
        self._catalog = catalog
        self._properties = dict(properties or {})
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self._retry = retry_policy
        self._clock = clock or SystemClock()
        self._where = f"Iceberg table {table} of catalog {catalog}"
        self._mode: OutputMode | None = None
        # One table a query (by Spark's id of it), each used by its query's thread alone.
        self._tables: dict[str, IcebergTable] = {}

    def check(self, *, output_mode: OutputMode) -> None:
        """Refuse options that do not fit together, and remember the mode. Raises UsageError."""
        if find_spec("pyiceberg") is None:
            raise UsageError("the Iceberg sink needs the package pyiceberg", fix=how_to_install("iceberg"))
        if not all(self._name.rpartition(".")[::2]):
            raise UsageError(f"table {self._name!r} is not the name of a table", fix="write NAMESPACE.TABLE")
        if output_mode == "update" and not self._key:
            raise UsageError(f"update mode into {self._where} needs a key", fix="Iceberg(..., key=['column'])")
        if output_mode != "update" and self._key:
            raise UsageError(
                f"{output_mode} mode into {self._where} has the key {', '.join(self._key)}",
                fix="leave key out, or use update mode",
            )
        if self._mode not in (None, output_mode):
            raise UsageError(
                f"one Iceberg sink for {self._mode} and {output_mode} mode",
                fix="give each query an Iceberg sink of its own",
            )
        refuse_secrets(self._catalog, self._properties)
        _ = self._parts
        self._mode = output_mode

    def check_rows(self, rows: DataFrame) -> None:
        """Refuse rows that the table cannot take, before the query starts. A catalog that is away is asked at the first
        batch. Raises UsageError."""
        columns = schema.columns_of(rows.schema.jsonValue())
        refuse_parts(self._parts, columns)
        schema.refuse_key(columns, self._key)
        with suppress(StorageError, QueryFailed):
            table = self._opened()
            table.refresh()
            self._refuse(columns, table)
            if table.exists:
                self._check_classes(rows, table)

    def ask(self) -> None:
        """Read the table, and whether it can be created where there is none; see `Answers`."""
        table = self._opened()
        table.refresh()
        table.ask()
        if table.exists:
            schema.refuse_table(table.version, table.properties, where=self._where)

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Stage, wait for the plan, commit; see `Sink.write`."""
        if self._mode is None:
            raise UsageError(f"the sink for {self._where} was not checked", fix="call check() first")
        if batch.query_id not in self._tables:
            self._tables[batch.query_id] = self._opened()
        table = self._tables[batch.query_id]
        attempt = self._stage(rows, batch, table, events)
        planned()
        return self._commit(attempt, table, events)

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        """Read the table, and stage the rows below `directory` instead of the table's folder."""
        from tenure.sinks.iceberg import layout, upsert  # noqa: F401 - `write` imports them
        from tenure.sinks.staging import stage
        from tenure.spark.block_settings import block_settings

        table = self._opened()
        table.refresh()
        columns = schema.columns_of(rows.schema.jsonValue())
        self._refuse(columns, table)
        now = table.layout if table.exists else layout.rehearsed(columns, self._parts)
        prepared, derived = layout.prepared(rows, now)
        with block_settings(rows.sparkSession, layout.parquet_settings(now)):
            stage.stage(prepared, directory, partition_by=derived)

    def other_writers(self, *, scope: str, query: str) -> Sequence[str]:
        """The writers of the table before the query's first batch; see `Shared.other_writers`."""
        from tenure.sinks.iceberg.ledger import in_words

        table = self._opened()
        try:
            table.refresh()
        except QueryFailed as error:
            raise StorageError(error.what, fix=error.fix) from error
        return in_words(table.properties, scope=scope, query=query) if table.exists else []

    def staged(self, attempts: Attempts) -> Cleanable:
        """The staged output of attempts that no snapshot names, nor ever will."""
        from tenure.sinks.iceberg.staged_rule import StagedBeside

        return StagedBeside(self._opened, attempts)

    @property
    def _parts(self) -> list[PartitionTerm]:
        return [PartitionTerm.parse(text) for text in self._partition_by]

    def _opened(self) -> IcebergTable:
        from tenure.sinks.iceberg.table import IcebergTable

        return IcebergTable(
            self._name, where=self._where, catalog=lambda: open_catalog(self._catalog, self._properties)
        )

    def _check_classes(self, rows: DataFrame, table: IcebergTable) -> None:
        from tenure.spark.hadoop import check_classes

        check_classes(rows.sparkSession, table.layout.location.data, what=self._where)

    # --- staging ----------------------------------------------------------------------------------------------------

    def _stage(self, rows: DataFrame, batch: Batch, table: IcebergTable, events: Events) -> _StagedBatch:
        """Evaluate the rows, once, into files that nothing names. A batch that the table has already is staged all the
        same, which evaluates it; this happens to a leader's first batch only."""
        from tenure.sinks.iceberg import layout
        from tenure.sinks.staging import stage
        from tenure.spark.block_settings import block_settings

        columns = schema.columns_of(rows.schema.jsonValue())
        self._prepare(rows, columns, table)
        now = table.layout
        describing = table.describing(now)
        prepared, derived = layout.prepared(rows, now)
        directory = str(stage.StagingPath.of(batch))
        with ThreadPoolExecutor(1, thread_name_prefix="tenure-iceberg") as pool:
            # The table is read while Spark works. When that fails, it is not fresh, and is read again below.
            pool.submit(table.refresh)
            with block_settings(rows.sparkSession, layout.parquet_settings(now)):
                staged = stage.stage(prepared, now.location.for_spark(directory), partition_by=derived)
        if not table.exists:
            self._retried(table.refresh)
        filesystem = now.location.filesystem(table.io_properties if table.exists else {})
        files = describing.staged(filesystem, directory, staged.puts, columns=rows.columns, derived=derived)
        if staged.again:
            named = {f"{directory}/{put.path}" for put in staged.puts}
            for path in stage.strays(filesystem, directory, named):
                self._delete(path, now, table, batch, events)
        by_key = None
        if self._mode == "update" and files and table.exists:
            by_key = table.by_key(files, self._key)
            by_key.refuse_duplicates(batch=batch.id, where=self._where)
        return _StagedBatch(batch, directory, columns, now, files, describing, by_key)

    def _prepare(self, rows: DataFrame, columns: schema.Json, table: IcebergTable) -> None:
        """Read the table, or create it: the ids of its columns stand in the files."""
        is_known = table.exists
        if not is_known:
            self._retried(table.refresh)
        self._refuse(columns, table)
        if not table.exists:
            self._retried(lambda: table.create(columns, self._parts))
            self._refuse(columns, table)
        if not is_known:
            self._check_classes(rows, table)

    def _refuse(self, columns: schema.Json, table: IcebergTable) -> None:
        """Raise UsageError when rows of these columns do not fit into the table."""
        refuse_parts(self._parts, columns)
        schema.refuse_key(columns, self._key)
        if not table.exists:
            return
        where = self._where
        schema.refuse_table(table.version, table.properties, where=where)
        now = table.layout
        schema.refuse_difference(columns, now.columns, where=where)
        refuse_parts(now.parts, columns)
        if self._partition_by and list(now.parts) != self._parts:
            raise UsageError(
                f"{where} is partitioned by {[str(part) for part in now.parts]}, the sink by "
                f"{list(self._partition_by)}",
                fix="leave partition_by out to follow the table, or name its own",
            )
        if not now.has_ids and schema.NAME_MAPPING in table.properties:
            schema.refuse_mapping(now.columns, table.properties[schema.NAME_MAPPING], where=where)

    # --- the commit -------------------------------------------------------------------------------------------------

    def _commit(self, attempt: _StagedBatch, table: IcebergTable, events: Events) -> Written:
        """Commit against metadata without the batch, until a commit succeeds."""
        sent = False

        def once() -> Written:
            nonlocal sent
            if not table.fresh:
                table.refresh()
            # A short batch is noted also without rows: an earlier attempt may have rows, and must be refused then.
            is_needed = bool(attempt.files) or self._mode == "complete" or attempt.batch.short
            if not table.exists:
                raise QueryFailed(f"{self._where} has gone", fix="the batch runs again")
            if is_needed and not table.begun:
                table.begin()
            if table.has(attempt.batch):
                return self._settled(attempt, table, events, sent=sent)
            if not is_needed:
                return Written(repeated=False)
            self._refuse(attempt.columns, table)
            if not attempt.layout.fits(table.layout):
                raise QueryFailed(
                    f"{self._where} has changed since batch {attempt.batch.id} was staged", fix="the batch runs again"
                )
            before = list(attempt.made)
            files, removed = self._merged(attempt, table)
            sent = True
            table.add(files, batch=attempt.batch, attempt=attempt.directory, removed=removed)
            for file in before:  # of commits that another writer overtook: they cannot arrive any more
                path = file.file_path.removeprefix(f"{attempt.layout.location}/")
                self._delete(path, attempt.layout, table, attempt.batch, events)
            return Written(repeated=False)

        try:
            return self._retried(once)
        except Fenced:
            if not sent or table.holds(attempt.batch, attempt.directory) is False:
                self._delete(attempt.directory, attempt.layout, table, attempt.batch, events)
            raise
        except (StorageError, QueryFailed):
            # The last commit may have succeeded although its reply, or a later step, failed.
            table.refresh()
            if table.exists and table.has(attempt.batch):
                return self._settled(attempt, table, events, sent=sent)
            raise

    def _merged(
        self, attempt: _StagedBatch, table: IcebergTable
    ) -> tuple[Sequence[DataFile], Sequence[DataFile] | None]:
        """The files that a commit adds, and those that it removes; None: it only adds."""
        if self._mode == "append" or (self._mode == "update" and attempt.upsert is None):
            return attempt.files, None
        table.refuse_deletions()
        if attempt.upsert is None:
            return attempt.files, table.files()
        merged = table.merge(attempt.upsert, attempt.layout, attempt.describing, directory=attempt.directory)
        attempt.made.extend(merged.added)
        return [*attempt.files, *merged.added], merged.removed

    def _settled(self, attempt: _StagedBatch, table: IcebergTable, events: Events, *, sent: bool) -> Written:
        """Decide whether the table has the batch by a commit of this attempt, whose reply was lost, or by another."""
        batch = attempt.batch
        ours = table.holds(batch, attempt.directory) if sent else False
        if ours:
            return Written(repeated=False)
        if sent:
            what = f"batch {batch.id} of {batch.query} to {self._where}"
            events.emit(WriteRefused(batch.scope, epoch=batch.epoch, by="sink", what=what))
        if ours is None:
            address = attempt.layout.location.named(attempt.directory)
            events.emit(BlobLeft(batch.scope, address=address, why="the table no longer tells who committed it"))
        else:
            self._delete(attempt.directory, attempt.layout, table, batch, events)
        return Written(repeated=True)

    def _delete(self, path: str, layout: Layout, table: IcebergTable, batch: Batch, events: Events) -> None:
        """Delete a staged file or folder that no snapshot names."""
        try:
            filesystem = layout.location.filesystem(table.io_properties if table.exists else {})
            self._remove(filesystem, path)
        except FileNotFoundError:
            return
        except OSError as error:
            events.emit(BlobLeft(batch.scope, address=layout.location.named(path), why=str(error)))

    def _retried(self, call: Callable[[], T]) -> T:
        return retry(call, policy=self._retry, on=StorageError, clock=self._clock)

    @staticmethod
    def _remove(filesystem: Any, path: str) -> None:
        if path.endswith(".parquet"):
            filesystem.delete_file(path)
        else:
            filesystem.delete_dir(path)
