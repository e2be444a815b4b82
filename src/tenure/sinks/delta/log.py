"""The log of a Delta table, for the writer of one query; and the names of all its writers.

Promise: the newest batch in the table (`taken`) is read from the very snapshot that a commit is made against, and the
commit goes through only if the table has not changed since, in anything. So of two attempts at a batch, with any pauses
between their steps, at most one enters the table. Each error is a TenureError. After an error of a commit, the table
may have the batch all the same: `refresh` and look.

`writers_of` omits no application transaction that the log still keeps. delta-rs returns a transaction only by its name,
so `writers_of` reads the log itself: its newest checkpoint, and the commits since. It raises the errors of pyarrow, and
ValueError: an entry of the log does not decode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from tenure.clock import Clock, SystemClock
from tenure.errors import QueryFailed, StorageError, TenureError, UsageError
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.schema import Json
from tenure.sinks.delta.staged_files import StagedFile
from tenure.sinks.delta.table_files import TableFile
from tenure.sinks.staging.stage import PREFIX
from tenure.wording import on_one_line

_ATTEMPT = "tenure.attempt"
"""The key in a commit's information that names the attempt, for a commit whose reply was lost."""
_CLEAN_EVERY = 100
"""Commits between two clean-ups of expired log files: a listing of the log costs more than a commit."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m|↳")


def app_id_of(scope: str, query: str, query_id: str) -> str:
    """The application under which the table's log keeps the newest batch of a query."""
    return f"tenure/{scope}/{query}/{query_id}"


def open_table(location: Location, options: Mapping[str, str]) -> DeltaTable | None:
    """The present table; None: there is none."""
    try:
        return DeltaTable(location.table, storage_options=dict(options) or None)
    except TableNotFoundError:
        return None


class DeltaLog:
    """A snapshot of the table and the commits made against it. Used by one thread at a time."""

    def __init__(
        self,
        location: Location,
        *,
        app_id: str,
        storage_options: dict[str, str],
        adopted: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`app_id`: the application of each commit. `adopted`: of the job from which the query may have been adopted;
        Spark's own sink for Delta notes its batches under Spark's id of the query."""
        self._location = location
        self._app_id = app_id
        self._adopted = adopted
        self._options = storage_options
        self._clock = clock or SystemClock()
        self._filesystem: Any = None  # None: not used yet
        self._table: DeltaTable | None = None
        self._mark: object = None
        self.taken: int | None = None
        """The newest batch of the query in the snapshot; None: the snapshot has none."""
        self._taken_before: int | None = None
        """The newest batch of the job; None: the snapshot has none."""
        self.fresh = False
        """Whether no commit was tried since the snapshot was read. A commit needs a fresh snapshot."""

    @property
    def exists(self) -> bool:
        """Whether the snapshot has a table."""
        return self._table is not None

    @property
    def version(self) -> int:
        """The table's version in the snapshot; -1 without a table."""
        return -1 if self._table is None else self._table.version()

    @property
    def columns(self) -> Json:
        """The table's schema, in Delta's JSON."""
        assert self._table is not None
        columns: Json = json.loads(self._table.schema().to_json())
        return columns

    @property
    def partition_by(self) -> list[str]:
        assert self._table is not None
        return list(self._table.metadata().partition_columns)

    @property
    def configuration(self) -> dict[str, str]:
        assert self._table is not None
        return dict(self._table.metadata().configuration)

    @property
    def features(self) -> Collection[str]:
        """What a reader of the table must know, beyond the basics."""
        assert self._table is not None
        return self._table.protocol().reader_features or ()

    def files(self) -> pa.Table:
        """The files in the snapshot, as delta-rs lists them, with partition values and statistics."""
        assert self._table is not None
        return pa.table(self._table.get_add_actions())

    def is_there(self) -> bool:
        """Whether there is a table, without reading it. False also where that cannot be known."""
        try:
            return DeltaTable.is_deltatable(self._location.table, self._options or None)
        except (DeltaError, OSError):
            return False

    def refresh(self) -> None:
        """Read the newest snapshot, and from it the newest batch."""
        self.fresh = False
        kept, self._table = self._table, None
        try:
            if kept is None or not self._is_updated(kept):
                table = open_table(self._location, self._options)
                if table is None:
                    self._refuse_foreign()
                self._read(table)
        except (DeltaError, OSError) as error:
            raise self._failure("cannot read", error) from error
        self.fresh = True

    def _is_updated(self, kept: DeltaTable) -> bool:
        """Read the commits since the last snapshot. False: these commits were cleaned up, or another table is there."""
        try:
            if self._mark != self._mark_of(kept.version()):
                return False
            kept.update_incremental()
            self._read(kept)
        except (DeltaError, OSError):
            return False
        return True

    def _read(self, table: DeltaTable | None) -> None:
        self.taken = self._newest_batch(table, self._app_id)
        self._taken_before = self._newest_batch(table, self._adopted)
        self._mark = None if table is None else self._mark_of(table.version())
        self._table = table

    def _mark_of(self, version: int) -> object:
        """A mark of a commit, which a commit of the same number in another table does not have. The mark of a commit
        that was cleaned up, behind a checkpoint, equals no other mark."""
        if self._filesystem is None:
            self._filesystem = self._location.filesystem(self._options)
        (info,) = self._filesystem.get_file_info([f"_delta_log/{version:020d}.json"])
        return (version, info.size, info.mtime_ns) if info.is_file else object()

    @staticmethod
    def _newest_batch(table: DeltaTable | None, app_id: str | None) -> int | None:
        return None if table is None or app_id is None else table.transaction_version(app_id)

    def has(self, batch: int) -> bool:
        """Whether the snapshot has the batch: by this writer, or by the job that it was adopted from, in whose last
        batch it goes on. Raises QueryFailed: that job went on by itself, and its batch has other rows."""
        if self.taken is not None and self.taken >= batch:
            return True
        if self._taken_before is None or self._taken_before < batch:
            return False
        if self.taken is None and self._taken_before == batch:
            return True
        raise QueryFailed(
            f"{self._location} has batch {self._taken_before} of the same query by a job of plain Spark, and batch "
            f"{batch} comes only now",
            fix="stop that job, and adopt its checkpoint into a scope of a new name",
        )

    def create(self, columns: Json, *, partition_by: Sequence[str], name: str | None) -> None:
        """Create the empty table, unless another writer just did, and read it."""
        try:
            DeltaTable.create(
                self._location.table,
                Schema.from_json(json.dumps(columns)),
                mode="error",
                partition_by=list(partition_by),
                name=name,
                storage_options=self._options or None,
                # With retries a creator that lost the race would put its own metadata on top of the winner's.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError) as error:
            self.refresh()
            if not self.exists:
                raise self._failure("cannot create", error) from error
        else:
            self.refresh()

    def add(
        self,
        files: Sequence[StagedFile],
        *,
        mode: Literal["append", "overwrite"],
        batch: int,
        attempt: str,
        removed: Sequence[TableFile] = (),
    ) -> None:
        """Commit the files as the batch: beside the table's files, in the place of those that are `removed`, or in the
        place of all."""
        table = self._spend()
        now_ms = int(self._clock.now().timestamp() * 1000)
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(file.path, True, now_ms, file.size, dict(file.partition_values)) for file in removed
        ]
        actions += [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values=dict(file.partition_values),
                modification_time=file.modified_ms,
                data_change=True,
                stats=file.stats,
            )
            for file in files
        ]
        try:
            table.create_write_transaction(
                actions,
                mode,
                table.schema(),
                self.partition_by,
                commit_properties=self._properties(batch, attempt),
                post_commithook_properties=self._after_commit(table),
            )
        except (DeltaError, OSError) as error:
            raise self._failure(f"cannot commit batch {batch} to", error) from error

    def failed_merge(self, batch: int, error: Exception) -> TenureError:
        """The error of a batch whose files could not be written."""
        return self._failure(f"cannot merge batch {batch} into", error)

    def holds(self, attempt: str, *, since: int) -> bool | None:
        """Whether this attempt made a commit after version `since`. None: the log has forgotten those commits."""
        assert self._table is not None
        expected = self.version - since
        if expected <= 0:
            return False
        try:
            history = self._table.history(limit=expected)
        except (DeltaError, OSError) as error:
            raise self._failure("cannot read the history of", error) from error
        if any(commit.get(_ATTEMPT) == attempt for commit in history):
            return True
        return False if len(history) >= expected else None

    def _spend(self) -> DeltaTable:
        assert self.fresh, "a commit needs a fresh snapshot"
        assert self._table is not None
        self.fresh = False
        return self._table

    def _refuse_foreign(self) -> None:
        """Raise UsageError when the folder of a table that does not exist holds other files."""
        root = self._location.filesystem(self._options)
        for info in root.get_file_info(fs.FileSelector("", recursive=False, allow_not_found=True)):
            if not info.base_name.startswith(PREFIX) and info.base_name != "_delta_log":
                raise UsageError(
                    f"{self._location} is not a Delta table, but {info.base_name} lies there",
                    fix="name an empty or a new directory",
                )

    def _properties(self, batch: int, attempt: str) -> CommitProperties:
        return CommitProperties(
            custom_metadata={_ATTEMPT: attempt},
            # A retry inside delta-rs would commit against a snapshot in which nobody looked for the batch.
            max_commit_retries=0,
            app_transactions=[Transaction(self._app_id, batch)],
        )

    def _after_commit(self, table: DeltaTable) -> PostCommitHookProperties:
        clean = (table.version() + 1) % _CLEAN_EVERY == 0
        return PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=None if clean else False)

    def _failure(self, what: str, error: Exception) -> TenureError:
        text = on_one_line(_COLOUR.sub("", str(error)))[:400]
        if isinstance(error, CommitFailedError):
            return StorageError(f"{what} {self._location}: {text}", fix="see that other writers pause between commits")
        if isinstance(error, OSError):
            return StorageError(f"{what} {self._location}: {text}", fix="see that the storage can be written")
        return QueryFailed(f"{what} {self._location}: {text}")


_COMMIT: Final = re.compile(r"(?P<version>\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(?P<version>\d{20})\.checkpoint\..*(?P<kind>parquet|json)")
_OURS: Final = re.compile(r"tenure/(?P<scope>[^/]+)/(?P<query>[^/]+)/(?P<id>[^/]+)")


def writers_of(filesystem: Any) -> list[str]:
    """The names of the applications that have written to a table. `filesystem`: pyarrow's, with the table as its
    root."""
    log = filesystem.get_file_info(fs.FileSelector("_delta_log", allow_not_found=True))
    checkpoints = [(found, info) for info in log if (found := _CHECKPOINT.fullmatch(info.base_name))]
    newest = max((found["version"] for found, _ in checkpoints), default="")
    names: set[str] = set()
    for found, info in checkpoints:
        if found["version"] == newest:
            names.update(_of_lines(filesystem, info) if found["kind"] == "json" else _of_parquet(filesystem, info))
    for info in log:
        commit = _COMMIT.fullmatch(info.base_name)
        if commit and commit["version"] > newest:
            names.update(_of_lines(filesystem, info))
    return sorted(names)


def in_words(names: Sequence[str], *, scope: str, query: str) -> list[str]:
    """The applications for people, when `query` of `scope` is about to write."""

    def words(name: str) -> str:
        ours = _OURS.fullmatch(name)
        if ours is None:
            return f"application {name!r}"
        earlier = "an earlier life of " if (ours["scope"], ours["query"]) == (scope, query) else ""
        return f"{earlier}stream {ours['query']!r} of scope {ours['scope']!r}"

    return list(dict.fromkeys(map(words, names)))


def _of_lines(filesystem: Any, info: Any) -> list[str]:
    lines = filesystem.open_input_stream(info.path).read().splitlines()
    actions = [json.loads(line) for line in lines if b'"txn"' in line]
    return [action["txn"]["appId"] for action in actions if "txn" in action]


def _of_parquet(filesystem: Any, info: Any) -> list[str]:
    with filesystem.open_input_file(info.path) as file:
        parquet = pq.ParquetFile(file)
        if "txn" not in parquet.schema_arrow.names:
            return []
        return [row["appId"] for row in parquet.read(["txn"])["txn"].to_pylist() if row is not None]
