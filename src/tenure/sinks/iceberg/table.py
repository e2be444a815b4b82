"""An Iceberg table, for the writer of one query.

Promise: the newest batch in the table is read from the very metadata that a commit is made against. The commit goes
through only if the main branch, the schema, the partitions and the table itself are still the same. So of two attempts
at a batch, with any pauses between their steps, at most one enters the table. A commit is one request to the catalog,
which neither this module nor pyiceberg repeats, and nothing that a commit names is deleted after an error: the request
may have arrived twice, and the answer may be that of the second. Each error is a TenureError. After an error of a
commit, the table may have the batch all the same: `refresh` and look.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertTableUUID,
    SetPropertiesUpdate,
)
from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles
from pyiceberg.transforms import parse_transform

from tenure.errors import QueryFailed, StorageError, TenureError, UsageError
from tenure.sinks.iceberg.failures import failure
from tenure.sinks.iceberg.layout import Layout, layout_of
from tenure.sinks.iceberg.ledger import NotedBatch, entry_of, has_made, newest_of_spark, property_of
from tenure.sinks.iceberg.partitions import PartitionTerm
from tenure.sinks.iceberg.schema import NAME_MAPPING, Json, name_mapping, numbered
from tenure.sinks.iceberg.staged_files import Describing
from tenure.sinks.iceberg.upsert import CopiedFiles, KeyedRows
from tenure.sinks.sink import Batch

_OF_NEW: Final = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
}
"""The properties of a table that a sink creates: a stream makes many commits."""


class IcebergTable:
    """The metadata of the table at one time, and the commits made against it. Used by one thread at a time."""

    def __init__(self, name: str, *, where: str, catalog: Callable[[], Catalog]) -> None:
        """`name`: with its namespace. `where`: the table for people. `catalog`: opens the catalog."""
        self._name = name
        self._where = where
        self._open = catalog
        self._catalog: Catalog | None = None  # None: not used yet
        self._table: Table | None = None
        self.fresh = False
        """Whether no commit was tried since the metadata was read. A commit needs fresh metadata."""

    def __str__(self) -> str:
        return self._where

    @property
    def exists(self) -> bool:
        """Whether there was a table."""
        return self._table is not None

    @property
    def version(self) -> int:
        """The version of the format."""
        return int(self._metadata.format_version)

    @property
    def properties(self) -> Mapping[str, str]:
        return self._metadata.properties

    @property
    def io_properties(self) -> Mapping[str, str]:
        """The properties of the table's file system."""
        assert self._table is not None
        return self._table.io.properties

    @property
    def layout(self) -> Layout:
        """What files are staged for. Raises UsageError: Spark cannot compute the table's partitions."""
        assert self._table is not None
        return layout_of(self._metadata, self._table.location_provider().data_path, where=self._where)

    @property
    def summaries(self) -> Iterable[Mapping[str, Any]]:
        """Of the table's snapshots, the newest first."""
        return [one.summary.additional_properties for one in reversed(self._metadata.snapshots) if one.summary]

    @property
    def complete_since_s(self) -> float:
        """Since when the table has all its snapshots: it may have had one before that has expired. A time long ago: it
        has all."""
        if isinstance(self._metadata, TableMetadataV1):  # which counts no snapshots
            return float("inf")
        times = {one.sequence_number: one.timestamp_ms / 1000 for one in self._metadata.snapshots}
        number, since_s = self._metadata.last_sequence_number, float("inf")
        while number > 0 and number in times:
            since_s = min(since_s, times[number])
            number -= 1
        return since_s if number > 0 else float("-inf")

    @property
    def pinned(self) -> Table:
        """pyiceberg's own, for reading: it stays as it is until `refresh`."""
        assert self._table is not None
        return self._table

    @property
    def _metadata(self) -> TableMetadata:
        assert self._table is not None
        return self._table.metadata

    def describing(self, layout: Layout) -> Describing:
        """Describes files that are staged for this layout."""
        return Describing(layout, self._metadata.schema(), self.properties)

    def refresh(self) -> None:
        """Read the newest metadata."""
        self.fresh, self._table = False, None
        try:
            if self._catalog is None:
                self._catalog = self._open()
            self._table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            self._table = None
        except Exception as error:
            raise failure(f"cannot read {self._where}", error) from error
        self.fresh = True

    def ask(self) -> None:
        """Raise UsageError when there is neither a table nor a namespace for it. Needs metadata."""
        assert self._catalog is not None
        if not self.exists:
            try:
                has_namespace = self._catalog.namespace_exists(_namespace_of(self._name))
            except Exception as error:
                raise failure(f"cannot look for the namespace of {self._where}", error) from error
            if not has_namespace:
                raise self._no_namespace()

    def create(self, columns: Json, parts: Sequence[PartitionTerm]) -> None:
        """Create the empty table, unless another writer just did, and read it."""
        assert self._catalog is not None
        schema = Schema.model_validate(numbered(columns))
        ids = {field.name: field.field_id for field in schema.fields}
        fields = []
        for place, part in enumerate(parts):
            name = part.name
            while name in ids and name != part.column:
                name += "_"
            number = PARTITION_FIELD_ID_START + place
            fields.append(PartitionField(ids[part.column], number, parse_transform(part.of_spec), name))
        try:
            self._catalog.create_table(
                self._name, schema, partition_spec=PartitionSpec(*fields), properties=dict(_OF_NEW)
            )
        except NoSuchNamespaceError as error:
            raise self._no_namespace() from error
        except (TableAlreadyExistsError, NamespaceAlreadyExistsError):
            self.refresh()
        except Exception as error:
            self.refresh()
            if not self.exists:
                raise failure(f"cannot create {self._where}", error) from error
        else:
            self.refresh()

    def _no_namespace(self) -> UsageError:
        return UsageError(f"{self._where} has no namespace {_namespace_of(self._name)!r}", fix="create the namespace")

    # --- the ledger -------------------------------------------------------------------------------------------------

    def entry(self, query_id: str) -> NotedBatch | None:
        """The newest batch of a query; None: the table has none. Raises Corrupt."""
        return entry_of(self.properties, query_id, where=self._where)

    def has(self, batch: Batch) -> bool:
        """Whether the table has the batch. It may have it from the job from which the query was adopted: Spark's own
        sink notes its batches under Spark's id of the query. Raises Fenced, Corrupt; QueryFailed: the batch is another
        scope's, or that job went on by itself, and its batch has other rows."""
        entry = self.entry(batch.query_id)
        if entry is not None:
            entry.refuse(batch, where=self._where)
            if entry.batch >= batch.id:
                return True
        of_spark = newest_of_spark(self.summaries, batch.query_id)
        if of_spark is None or of_spark < batch.id:
            return False
        if entry is None and of_spark == batch.id:
            return True
        raise QueryFailed(
            f"{self._where} has batch {of_spark} of the same query by a job of plain Spark, and batch {batch.id} comes "
            "only now",
            fix="stop that job, and adopt its checkpoint into a scope of a new name",
        )

    def holds(self, batch: Batch, attempt: str) -> bool | None:
        """Whether this attempt made the commit of the batch. None: the table has forgotten that commit."""
        entry = self.entry(batch.query_id)
        if entry is not None and (entry.scope, entry.batch) == (batch.scope, batch.id):
            return entry.attempt == attempt
        return has_made(self.summaries, batch.query_id, batch.id, attempt)

    # --- commits ----------------------------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        """Whether the table has a snapshot. Iceberg keeps a late commit out by its parent, so a batch needs one: else
        a late first batch could enter a table that was emptied by a replacement of its definition."""
        return self._metadata.current_snapshot() is not None

    def begin(self) -> None:
        """Commit a snapshot without files, and read the table."""
        table = self._spend()
        self._send("begin", table, self._append(table, {}), {})
        self.refresh()

    def refuse_deletions(self) -> None:
        """Raise UsageError when the newest snapshot has files of deletions."""
        if any(one.content is ManifestContent.DELETES and _is_live(one) for one in self._manifests()):
            raise UsageError(
                f"{self._where} has files of deletions, which this mode does not read",
                fix="rewrite its data files, so that none is left",
            )

    def files(self) -> list[DataFile]:
        """The files of data in the newest snapshot."""
        try:
            io = self.pinned.io
            return [entry.data_file for one in self._manifests() for entry in one.fetch_manifest_entry(io)]
        except Exception as error:
            raise failure(f"cannot read the manifests of {self._where}", error) from error

    def _manifests(self) -> list[ManifestFile]:
        snapshot = self._metadata.current_snapshot()
        try:
            return [] if snapshot is None else snapshot.manifests(self.pinned.io)
        except Exception as error:
            raise failure(f"cannot read the manifests of {self._where}", error) from error

    def by_key(self, files: Sequence[DataFile], key: Sequence[str]) -> KeyedRows:
        """The staged rows of a batch by their keys."""
        try:
            return KeyedRows(self.pinned, files, key=key)
        except Exception as error:
            raise failure(f"cannot read the rows staged for {self._where}", error) from error

    def merge(self, upsert: KeyedRows, layout: Layout, describing: Describing, *, directory: str) -> CopiedFiles:
        """The copies of the table's files without the rows that a batch replaces. Raises UsageError."""
        try:
            return upsert.merge(self.pinned, layout, describing, directory=directory, where=self._where)
        except Exception as error:
            raise failure(f"cannot merge a batch into {self._where}", error) from error

    def add(
        self,
        files: Sequence[DataFile],
        *,
        batch: Batch,
        attempt: str,
        removed: Sequence[DataFile] | None = None,
    ) -> None:
        """Commit the files as the batch: beside the table's files, or in the place of those that are `removed`."""
        table = self._spend()
        entry = NotedBatch.of(batch, attempt)
        properties = {property_of(batch.query_id): entry.text()}
        if not self.layout.has_ids and NAME_MAPPING not in self.properties:
            properties[NAME_MAPPING] = json.dumps(name_mapping(self.layout.columns))
        summary = entry.summary(batch.query_id)
        producer = self._append(table, summary) if removed is None else _Overwrite.of(table, summary)
        for file in removed or ():
            producer.delete_data_file(file)
        for file in files:
            producer.append_data_file(file)
        self._send(f"commit batch {batch.id} to", table, producer, properties)

    def _spend(self) -> Table:
        assert self.fresh, "a commit needs fresh metadata"
        assert self._table is not None
        self.fresh = False
        return self._table

    def _append(self, table: Table, summary: dict[str, str]) -> _FastAppendFiles:
        update = _Pinned(table).update_snapshot(snapshot_properties=summary)
        merges = self.properties.get("commit.manifest-merge.enabled", "").lower() == "true"
        return update.merge_append() if merges else update.fast_append()

    def _send(
        self,
        what: str,
        table: Table,
        producer: _FastAppendFiles | _OverwriteFiles,
        properties: Mapping[str, str],
    ) -> None:
        assert self._catalog is not None
        before = table.metadata
        try:
            updates, requirements = producer._commit()  # writes the manifests
            unchanged = (
                AssertTableUUID(uuid=before.table_uuid),
                AssertCurrentSchemaId.model_validate({"current-schema-id": before.current_schema_id}),
                AssertDefaultSpecId.model_validate({"default-spec-id": before.default_spec_id}),
            )
            noted = (SetPropertiesUpdate(updates=dict(properties)),) if properties else ()
            answer = self._catalog.commit_table(table, (*requirements, *unchanged), (*updates, *noted))
        except Exception as error:
            failed = failure(f"cannot {what} {self._where}", error)
            raise self._conflict(failed, before) or failed from error
        self._forget_metadata(table, answer.metadata)

    def _conflict(self, failed: TenureError, before: TableMetadata) -> StorageError | None:
        """The error of a commit that was refused for what others have done since. A catalog that finds the branch where
        it was, and the number of the new snapshot taken, calls that the fault of the request."""
        if not isinstance(failed, QueryFailed):
            return None
        self.refresh()
        if not self.exists or self._metadata == before:
            return None
        return StorageError(failed.what, fix="see that other writers pause between commits")

    def _forget_metadata(self, table: Table, now: TableMetadata) -> None:
        """Delete the files of metadata that the table has dropped from its log by a commit that went through. A server
        of a catalog does that itself."""
        if not isinstance(self._catalog, MetastoreCatalog):
            return
        if now.properties.get("write.metadata.delete-after-commit.enabled", "").lower() != "true":
            return
        kept = {one.metadata_file for one in now.metadata_log}
        for path in {one.metadata_file for one in table.metadata.metadata_log} - kept:
            try:
                table.io.delete(path)
            except OSError:
                continue  # the next orphan search of the table finds it


class _Pinned(Transaction):
    """A transaction that stages nothing, so that its metadata is the table's: pyiceberg would copy it at each look."""

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


class _Overwrite(_OverwriteFiles):
    """A snapshot in which files take the place of others. Manifests without a file go: pyiceberg keeps them."""

    @classmethod
    def of(cls, table: Table, summary: dict[str, str]) -> _Overwrite:
        return cls(operation=Operation.OVERWRITE, transaction=_Pinned(table), io=table.io, snapshot_properties=summary)

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        return [one for one in manifests if _is_live(one) or one.added_snapshot_id == self.snapshot_id]


def _is_live(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def _namespace_of(name: str) -> str:
    return name.rpartition(".")[0]
