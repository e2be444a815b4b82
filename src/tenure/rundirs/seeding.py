"""Seeds a new run directory from another member's, so that Spark started on it continues at a recorded batch.

Promise: batch N is chosen first, then copied. Files newer than N are never read, so the former owner of `source` may be
alive and go on writing there. A needed file that is missing or does not decode is a CorruptRunDirectory, also where
Spark itself would start without an error.

A half-seeded directory does not start: `metadata` is written last, and Spark refuses a directory with offsets but
without `metadata`. `offsets/N` is written just before `metadata`, so that even a Spark that accepted this would not see
batch N planned on a part of its state. A half-seeded directory is never completed: seed another under a new name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from tenure.errors import CorruptRunDirectory, StorageError
from tenure.progress import Counter, Progress, unseen
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import decode_offsets, decode_query_id, owed_batch
from tenure.rundirs.state_copy import Operator, SeedPoint, StateCopy
from tenure.rundirs.state_files import operator_name, with_schema_paths


def seed(
    source: str, target: str, point: SeedPoint, *, query_id: str | None = None, progress: Progress = unseen
) -> int:
    """Fill the empty run directory `target` from `source` for `point`. See `seed_mirrored`."""
    counter = Counter("copies what a query needs", progress)
    mirrored = Mirrored(RunDirectory(source), RunDirectory(target), counter=counter)
    return seed_mirrored(mirrored, point, query_id=query_id)


def seed_without_tables(source: str, target: str, point: SeedPoint, *, query_id: str) -> Mapping[str, int]:
    """As `seed`, but without RocksDB's tables that have unique names. Return the bytes of each by its path in `source`.
    A query cannot load its state from the directory alone."""
    mirrored = Mirrored(RunDirectory(source), RunDirectory(target), with_tables=False)
    seed_mirrored(mirrored, point, query_id=query_id)
    return mirrored.table_sizes


def seed_mirrored(mirrored: Mirrored, point: SeedPoint, *, query_id: str | None = None) -> int:
    """Complete a mirror to a run directory on which Spark continues at `point`. Return the number of new files; files
    of the mirror are not copied again. `query_id`: Spark's id for the query; None: the id of the source. Raises
    CorruptRunDirectory, CorruptCheckpoint, StorageError, UsageError."""
    new = _Seed(mirrored, point, query_id=query_id)
    if not mirrored.files and mirrored.target.list():
        raise StorageError(
            f"run directory {mirrored.target.url} is not empty", fix="name a new directory for each attempt"
        )
    for part in new.parts:
        part()
    return new.files


def try_seed(mirrored: Mirrored, point: SeedPoint, *, on_damage: Callable[[CorruptRunDirectory], None]) -> None:
    """Try each part of a seed, and each file of the sources and of the state, also after damage. `mirrored.target`
    takes no bytes. Raises CorruptCheckpoint, StorageError."""
    new = _Seed(mirrored, point, query_id=None, on_damage=on_damage)
    for part in new.parts:
        try:
            part()
        except CorruptRunDirectory as damage:
            on_damage(damage)


class _Seed:
    """A seed in the making."""

    def __init__(
        self,
        mirrored: Mirrored,
        point: SeedPoint,
        *,
        query_id: str | None,
        on_damage: Callable[[CorruptRunDirectory], None] | None = None,
    ) -> None:
        self._state_copy = StateCopy(mirrored, point, on_damage=on_damage)
        self._source = mirrored.source
        self._target = mirrored.target
        self._point = point
        self._query_id = query_id
        self._commit = ""  # the entry of the batch that is done; empty: none is, or it was not read yet
        self._operators: list[str] = []  # their names, as far as they were read
        self.files = 0
        self.parts = (self.offsets, self.commits, self.sources, self.state, self.plan, self.metadata)
        """In this order."""

    def offsets(self) -> None:
        if self._point.batch > 0:
            path = f"offsets/{self._point.batch - 1}"
            text = self._source.read_text(path)
            decode_offsets(text, where=self._source.where(path))
            self._write(path, text)

    def commits(self) -> None:
        if self._point.last_commit >= 0:
            # Without it, format 1 starts, but silently runs the batch a second time.
            self._commit = self._state_copy.read_commit(self._point.last_commit)
            self._write(f"commits/{self._point.last_commit}", self._commit)

    def sources(self) -> None:
        self.files += self._state_copy.sources()

    def state(self) -> None:
        operators = self._state_copy.operators()
        for operator in operators:
            self._operators.append("")
            if operator.path:
                self._operators[-1] = operator_name(operator.text, where=self._source.where(operator.path))
                self._seed_operator(operator)
        self.files += self._state_copy.state(operators)
        self.files += self._state_copy.schemas(operators)
        self._target.sync()

    def _seed_operator(self, operator: Operator) -> None:
        """Write the operator's metadata and schemas."""
        folder = f"state/{operator.number}"
        schemas = dict.fromkeys(schema for store in operator.stores for schema in store.schemas)
        moved = with_schema_paths(
            operator.text,
            operator_root=lambda old: f"{self._target.uri(like=old)}/{folder}",
            where=self._source.where(operator.path),
        )
        self._write(operator.path, moved if schemas else operator.text)
        for schema in schemas:
            self._target.copy(self._source, f"{folder}/{schema}")
        self.files += len(schemas)

    def plan(self) -> None:
        point = self._point
        self._write(f"offsets/{point.batch}", point.offsets)
        if point.committed and point.owed_at_ms is not None:
            owed = owed_batch(
                point.offsets,
                self._commit,
                operators=self._operators,
                now_ms=point.owed_at_ms,
                where=self._source.where(f"offsets/{point.batch}"),
            )
            if owed is not None:
                self._write(f"offsets/{point.batch + 1}", owed)
        self._target.sync()

    def metadata(self) -> None:
        text = self._source.read_text("metadata")
        decode_query_id(text, where=self._source.where("metadata"))
        self._write("metadata", text if self._query_id is None else json.dumps({"id": self._query_id}))
        self._target.sync()

    def _write(self, path: str, text: str) -> None:
        self._target.write(path, text.encode("utf-8"))
        self.files += 1
