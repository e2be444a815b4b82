"""Seed a new run directory from another member's, so that Spark started on it goes on at a recorded batch.

Promise: batch N is chosen first, then copied; what is newer than N is never looked at, so the former owner of
`source` may be alive and go on writing there. A file that is needed and is missing or does not decode is
CorruptRunDirectory, also where Spark itself would start without a word.

A half-seeded directory does not start: `metadata` is written last, and Spark refuses a directory with offsets but
without it. `offsets/N` is written just before it, so that even a Spark that forgave this would not find batch N planned
on a part of its state. A half-seeded directory is abandoned, never completed: seed another one under a new name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from tenure.errors import CorruptCheckpoint, CorruptRunDirectory, StorageError, UsageError
from tenure.spark.run_directory import RunDirectory
from tenure.spark.seed_plan import (
    StateIds,
    check_source_entry,
    corrupt,
    decode_commit,
    decode_offsets,
    decode_query_id,
    is_log_file,
    log_offset,
    missing,
    needs_start,
    source_folders,
    source_log,
)
from tenure.spark.state_files import (
    Store,
    decode_operator,
    files_of_zip,
    newest_metadata,
    state_chain,
    with_schema_paths,
)

T = TypeVar("T")

_THREADS = 16  # requests in flight: a seed is many small files, and object stores answer in tens of milliseconds


@dataclass(frozen=True, slots=True)
class Seeded:
    """What a seed holds. `linked`: how many of the files are hard links."""

    files: int
    bytes: int
    linked: int


def seed(
    source: str,
    target: str,
    *,
    batch: int,
    offsets: str,
    committed: bool = False,
    query_id: str | None = None,
    on_part: Callable[[str], None] = lambda part: None,
) -> Seeded:
    """Fill the empty run directory `target` from `source` so that Spark on it runs `batch` with exactly `offsets`, on
    the state before it; `committed`: goes on after `batch`, on the state that it wrote. `query_id`: what Spark takes
    the query for; None: for the one that it was.

    `on_part` hears "before <part>" and "after <part>" of each part in order: offsets, commits, sources, state, plan,
    metadata.
    """
    if batch < 0:
        raise UsageError(f"batch {batch} cannot be seeded", fix="batch ids begin at 0")
    seeding = _Seeding(
        RunDirectory(source),
        RunDirectory(target),
        batch=batch,
        offsets=offsets,
        committed=committed,
        query_id=query_id,
    )
    seeding.check()
    for name, part in seeding.parts():
        on_part(f"before {name}")
        part()
        on_part(f"after {name}")
    return seeding.seeded()


class _Seeding:
    """One seed in the making. Worker threads write files and return what they did; only the caller's thread counts."""

    def __init__(
        self,
        source: RunDirectory,
        target: RunDirectory,
        *,
        batch: int,
        offsets: str,
        committed: bool,
        query_id: str | None,
    ) -> None:
        self._source = source
        self._target = target
        self._batch = batch
        self._offsets = offsets
        self._query_id = query_id
        self._state_version = batch + 1 if committed else batch
        self._last_commit = batch if committed else batch - 1
        self._commits: dict[int, StateIds | None] = {}  # reading one twice is harmless, so no lock
        self._sources: dict[str, str | None] = {}
        self._done = Seeded(0, 0, 0)

    def check(self) -> None:
        """Refuse before anything is written."""
        if self._target.list():
            raise StorageError(f"run directory {self._target.url} is not empty", fix="name a new one for each attempt")
        try:
            self._sources = decode_offsets(self._offsets, where=f"plan of batch {self._batch}")
        except CorruptRunDirectory as error:
            raise CorruptCheckpoint(error.what) from error

    def parts(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("offsets", self._seed_offsets),
            ("commits", self._seed_commits),
            ("sources", self._seed_sources),
            ("state", self._seed_state),
            ("plan", self._seed_plan),
            ("metadata", self._seed_metadata),
        ]

    def seeded(self) -> Seeded:
        return self._done

    def _seed_offsets(self) -> None:
        if self._batch > 0:
            path = f"offsets/{self._batch - 1}"
            text = self._source.read_text(path)
            decode_offsets(text, where=self._source.where(path))
            self._count(self._write(path, text))

    def _seed_commits(self) -> None:
        if self._last_commit >= 0:
            # Format 1 starts without it, but runs the batch a second time and says nothing.
            path = f"commits/{self._last_commit}"
            text = self._source.read_text(path)
            self._commits[self._last_commit] = decode_commit(text, where=self._source.where(path))
            self._count(self._write(path, text))

    def _seed_sources(self) -> None:
        paths: list[tuple[str, bool]] = []  # (path, whether it is an entry of a file source's log)
        folders = source_folders(self._source.list("sources"), self._sources, where=self._source.where("sources"))
        for name, offset in folders.items():
            folder = f"sources/{name}"
            last = None if offset is None else log_offset(offset)
            if last is not None:
                entries = source_log(self._source.list(folder), last, where=self._source.where(folder))
                paths += [(f"{folder}/{entry}", True) for entry in entries]
                continue
            files = self._files_below(folder)
            if offset is not None and f"{folder}/0" not in files and needs_start(offset, self._batch):
                raise missing(self._source.where(f"{folder}/0"))
            paths += [(path, False) for path in files]
        self._count(*self._in_threads(lambda item: self._copy_source_file(*item), paths))

    def _copy_source_file(self, path: str, is_entry: bool) -> Seeded:
        data = self._source.read(path)
        if is_entry:
            check_source_entry(data.decode("utf-8", errors="replace"), where=self._source.where(path))
        elif not data:
            raise corrupt(self._source.where(path), "is empty")
        self._target.write(path, data)
        return Seeded(1, len(data), 0)

    def _files_below(self, folder: str) -> list[str]:
        """All content of a source that keeps more than we know of, in the order of names."""
        paths: list[str] = []
        for name in sorted(filter(is_log_file, self._source.list(folder))):
            below = self._files_below(f"{folder}/{name}")
            paths += below or [f"{folder}/{name}"]
        return paths

    def _seed_state(self) -> None:
        if self._state_version > 0:
            operators = {name for name in self._source.list("state") if name.isdigit()}
            operators |= set(self._ids_of_commit(self._last_commit) or {})
            stores: list[tuple[str, Store, int, int]] = []
            for operator in sorted(operators, key=int):
                for position, store in enumerate(self._seed_operator(operator)):
                    stores += [(operator, store, position, partition) for partition in range(store.partitions)]
            self._count(*self._in_threads(lambda item: self._seed_store(*item), stores))
        self._target.sync()

    def _seed_operator(self, operator: str) -> tuple[Store, ...]:
        """Write the operator's metadata and schemas; return its stores."""
        folder = f"state/{operator}"
        path = f"{folder}/_metadata/metadata"
        if "v2" in self._source.list(f"{folder}/_metadata"):
            path = f"{folder}/_metadata/v2"
            names = self._source.list(path)
            path += "/" + newest_metadata(names, version=self._state_version, where=self._source.where(path))
        text = self._source.read_text(path)
        stores = decode_operator(text, where=self._source.where(path))
        moved = with_schema_paths(
            text,
            operator_root=lambda old: f"{self._target.uri(like=old)}/{folder}",
            where=self._source.where(path),
        )
        self._count(self._write(path, moved if any(store.schemas for store in stores) else text))
        for schema in dict.fromkeys(schema for store in stores for schema in store.schemas):
            self._count(self._copy(f"{folder}/{schema}"))
        return stores

    def _seed_store(self, operator: str, store: Store, position: int, partition: int) -> Seeded:
        folder = f"state/{operator}/{store.folder(partition)}"
        chain = state_chain(
            self._source.list(folder),
            self._state_version,
            id_of=lambda version: self._id_of(version, operator=operator, partition=partition, position=position),
            where=self._source.where(folder),
        )
        done = [self._take(f"{folder}/{name}") for name in chain]
        for name in chain:
            if name.endswith(".zip"):
                # Read from the target: what the zip refers to fits the zip that was taken, whatever replaces it now.
                files = files_of_zip(
                    self._target.read(f"{folder}/{name}"), where=self._source.where(f"{folder}/{name}")
                )
                done += [self._take(f"{folder}/{file}", size=size) for file, size in files.items()]
        if "schema" in self._source.list(f"{folder}/_metadata"):
            done.append(self._copy(f"{folder}/_metadata/schema"))
        return _sum(done)

    def _seed_plan(self) -> None:
        self._count(self._write(f"offsets/{self._batch}", self._offsets))
        self._target.sync()

    def _seed_metadata(self) -> None:
        text = self._source.read_text("metadata")
        decode_query_id(text, where=self._source.where("metadata"))
        self._count(self._write("metadata", text if self._query_id is None else json.dumps({"id": self._query_id})))
        self._target.sync()

    def _ids_of_commit(self, batch: int) -> StateIds | None:
        if batch not in self._commits:
            path = f"commits/{batch}"
            self._commits[batch] = decode_commit(self._source.read_text(path), where=self._source.where(path))
        return self._commits[batch]

    def _id_of(self, version: int, *, operator: str, partition: int, position: int) -> str | None:
        """The id of the state that batch `version - 1` wrote; None: format 1."""
        ids = self._ids_of_commit(version - 1)
        if ids is None:
            return None
        try:
            return ids[operator][partition][position]
        except (KeyError, IndexError) as error:
            where = self._source.where(f"commits/{version - 1}")
            raise corrupt(where, f"has no id for state/{operator}/{partition}, store {position}") from error

    def _write(self, path: str, text: str) -> Seeded:
        data = text.encode("utf-8")
        self._target.write(path, data)
        return Seeded(1, len(data), 0)

    def _copy(self, path: str) -> Seeded:
        data = self._source.read(path)
        if not data:
            raise corrupt(self._source.where(path), "is empty")
        self._target.write(path, data)
        return Seeded(1, len(data), 0)

    def _take(self, path: str, *, size: int | None = None) -> Seeded:
        taken, linked = self._target.take(self._source, path, size=size)
        return Seeded(1, taken, int(linked))

    def _count(self, *done: Seeded) -> None:
        self._done = _sum([self._done, *done])

    def _in_threads(self, work: Callable[[T], Seeded], items: list[T]) -> list[Seeded]:
        pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="tenure-seed")
        try:
            return list(pool.map(work, items))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _sum(done: list[Seeded]) -> Seeded:
    return Seeded(sum(part.files for part in done), sum(part.bytes for part in done), sum(part.linked for part in done))
