"""Copies the state and the sources' logs of a seed, at a takeover or ahead of it.

Promise: `copy_ahead` copies only files that never change: state files with the id of their writer in their names, the
tables that RocksDB's files refer to, and entries of file sources' logs. State files are linked where both directories
lie on one local file system. A standby calls `copy_ahead` again and again, and each call copies the new files; a
takeover then copies only the difference (`seeding.py`). Spark does not start on a directory that is filled like this:
it has neither `offsets` nor `metadata`. A task that runs again may replace a state file that is named by its version
alone (format 1), so only a takeover copies such files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from tenure.checkpoints.source import ANOTHER, FILES
from tenure.errors import CorruptCheckpoint, CorruptRunDirectory, UsageError
from tenure.rundirs.mirrored import Mirrored, Replay
from tenure.rundirs.moved_files import Move, moved_entry
from tenure.rundirs.seed_logs import (
    StateIds,
    check_source_entry,
    corrupt,
    decode_commit,
    is_copied,
    is_of_spark_3,
    kind_of,
    last_entry,
    missing,
    needs_start,
    source_folders,
    source_log,
)
from tenure.rundirs.state_files import (
    Store,
    change_file,
    decode_operator,
    files_of_zip,
    has_id,
    has_no_families,
    is_unique_table,
    is_without_key,
    newest_metadata,
    operator_name,
    state_chain,
    stores_found,
    version_of,
    with_metadata_of_today,
    without_nullability,
)

T = TypeVar("T")

_THREADS = 16  # requests in flight: a seed is many small files, and object stores answer in tens of milliseconds


@dataclass(frozen=True, slots=True)
class SeedPoint:
    """The batch that a run directory is to run next: `batch` with `offsets`, or, if `committed`, the batch after it."""

    batch: int
    offsets: str
    committed: bool = False
    folders: tuple[str, ...] = ()
    """The folder below `sources/` of each line of the offsets; empty: line i is folder i."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """The kind of each source, by its folder. A folder that is not there: the kind was not recorded."""
    moves: Mapping[str, Move] = field(default_factory=dict)
    """The moves of sources of files, by their folder."""
    owed_at_ms: int | None = None
    """When a batch without data that Spark owes after a `committed` batch is planned, in milliseconds since 1970; None:
    it is not planned."""
    newer: bool = False
    """Spark 4.1 or newer goes on, which reads no snapshot as Spark 4.0 wrote it."""

    @property
    def state_version(self) -> int:
        """The state to start from."""
        return self.batch + 1 if self.committed else self.batch

    @property
    def last_commit(self) -> int:
        """The newest batch that is done; -1: there is none."""
        return self.batch if self.committed else self.batch - 1


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with state: its number, its metadata (the file's path and text), and its stores. Spark before 4.0
    wrote no metadata: the path is empty."""

    number: str
    path: str
    text: str
    stores: tuple[Store, ...]


class Stopped(Exception):
    """The copy was stopped between two files."""


def copy_ahead(
    mirrored: Mirrored, point: SeedPoint, *, stop: Callable[[], bool], on_missing: Callable[[int], None]
) -> None:
    """Copy the new files for a seed of `point`, and remove the files that such a seed does not need.

    `on_missing` is called with the bytes of files that are missing, and with the negative bytes of each copied file.
    Raises Stopped: `stop` returned true; StorageError: after either, the mirror can still be used. CorruptRunDirectory,
    CorruptCheckpoint: the mirror must not be used any more.
    """
    copy = StateCopy(mirrored, point, ahead=True, stop=stop, on_missing=on_missing)
    copy.sources()
    copy.state(copy.operators())
    copy.trim()


class StateCopy:
    """A single run of copying, by several worker threads. Methods return the number of copied files."""

    def __init__(
        self,
        mirrored: Mirrored,
        point: SeedPoint,
        *,
        ahead: bool = False,
        stop: Callable[[], bool] = lambda: False,
        on_missing: Callable[[int], None] = lambda change: None,
        on_damage: Callable[[CorruptRunDirectory], None] | None = None,
    ) -> None:
        """`ahead`: copy only files that never change. `on_damage`: is called by the workers with the damage of a store
        or a file, and the others go on; None: damage ends the copying."""
        if point.batch < 0:
            raise UsageError(f"batch {point.batch} cannot be seeded", fix="batch ids begin at 0")
        self._mirrored = mirrored
        self._source = mirrored.source
        self._target = mirrored.target
        self._point = point
        self._ahead = ahead
        self._stop = stop
        self._on_missing = on_missing
        self._on_damage = on_damage
        self._lock = threading.Lock()  # guards the next two, and calls of `on_missing`
        self._needed: set[str] = set()
        self._needed_commits: set[int] = set()
        self._flat: Collection[str] = ()  # ahead: the numbers of the operators without column families
        try:
            self._folders = source_folders(point.offsets, point.folders, where=f"plan of batch {point.batch}")
        except CorruptRunDirectory as error:
            raise CorruptCheckpoint(error.what) from error

    # --- sources ----------------------------------------------------------------------------------------------------

    def sources(self) -> int:
        """Copy the logs of the sources up to the planned offsets."""
        items: list[tuple[str, str, Move | None]] = []  # path, kind of the source, its move
        for name, offset in self._folders.items():
            folder, names = f"sources/{name}", self._source.list(f"sources/{name}")
            kind = kind_of(self._point.kinds.get(name), offset, names)
            if kind == FILES:
                last = last_entry(offset, where=f"plan of batch {self._point.batch}, source {name}")
                entries = source_log(names, last, where=self._source.where(folder))
                items += [(f"{folder}/{entry}", kind, self._point.moves.get(name)) for entry in entries]
                continue
            if self._ahead:
                continue  # the source may change its files
            files = self._files_below(folder)
            if offset is not None and f"{folder}/0" not in files and needs_start(kind, self._point.batch):
                raise missing(self._source.where(f"{folder}/0"))
            items += [(path, kind, None) for path in files]
        self._mirrored.counter.found(len({path for path, _, _ in items} - self._mirrored.files))
        return self._in_threads(lambda item: self._counted(*item), items)

    def _counted(self, path: str, kind: str, move: Move | None) -> int:
        copied = self._source_file(path, kind, move)
        self._mirrored.counter.did(copied)
        return copied

    def _source_file(self, path: str, kind: str, move: Move | None) -> int:
        if kind == ANOTHER:
            self._target.write(path, self._source.read(path))  # as it is, also if it is empty
            return 1
        if kind != FILES:
            self._target.copy(self._source, path)
            return 1
        if not self._is_new(path):
            return 0
        self._check_stop()
        data = self._source.read(path)
        text = data.decode("utf-8", errors="replace")
        check_source_entry(text, where=self._source.where(path))
        self._mirrored.bring(
            path, lambda: self._target.write(path, data if move is None else moved_entry(text, move).encode())
        )
        return 1

    def _files_below(self, folder: str) -> list[str]:
        """All files of a source with a layout of its own, in the order of names."""
        paths: list[str] = []
        for entry in sorted(self._source.entries(folder), key=lambda entry: entry.name):
            if is_copied(entry.name):
                path = f"{folder}/{entry.name}"
                paths += self._files_below(path) if entry.folder else [path]  # a log that was not begun has no file
        return paths

    # --- state ------------------------------------------------------------------------------------------------------

    def operators(self) -> list[Operator]:
        """The operators with state."""
        if self._point.state_version == 0:
            return []
        names = {name for name in self._source.list("state") if name.isdigit()}
        names |= set(self.ids_of_commit(self._point.last_commit) or {})
        operators = []
        for number in sorted(names, key=int):
            folder = f"state/{number}/_metadata"
            names_of_metadata = self._source.list(folder)
            if not names_of_metadata and is_of_spark_3(self._point.offsets):
                operators.append(Operator(number, "", "", self._stores_found(f"state/{number}")))
                continue
            path = f"{folder}/metadata"
            if "v2" in names_of_metadata:
                path = f"{folder}/v2"
                where = self._source.where(path)
                path += "/" + newest_metadata(self._source.list(path), version=self._point.state_version, where=where)
            text = self._source.read_text(path)
            stores = decode_operator(text, where=self._source.where(path))
            operators.append(Operator(number, path, text, self._that_are_there(number, text, stores)))
        return operators

    def _that_are_there(self, number: str, text: str, stores: tuple[Store, ...]) -> tuple[Store, ...]:
        """The stores of an operator with their real number of partitions. Spark notes the setting for shuffles, also
        where all rows have one key, as in a total or a limit: such an operator has partition 0 alone."""
        ids_of_all = self.ids_of_commit(self._point.last_commit)
        ids = None if ids_of_all is None else ids_of_all.get(number)
        if ids is None:
            found = {name for name in self._source.list(f"state/{number}") if name.isdigit()}
            is_alone = found == {"0"} and self._has_one_key(number, text, stores)
        else:
            is_alone = len(ids) == 1
        return tuple(replace(store, partitions=1) for store in stores) if is_alone else stores

    def _has_one_key(self, number: str, text: str, stores: tuple[Store, ...]) -> bool:
        """Whether all rows of the operator have one key, by its name or by the schema of its state: without ids, a
        lost folder of a partition looks the same."""
        if operator_name(text, where=self._source.where(f"state/{number}/_metadata")) == "globalLimit":
            return True
        folder = f"state/{number}/{stores[0].folder(0)}/_metadata"
        return "schema" in self._source.list(folder) and is_without_key(self._source.read(f"{folder}/schema"))

    def _stores_found(self, folder: str) -> tuple[Store, ...]:
        partitions, inside = self._source.list(folder), self._source.list(f"{folder}/0")
        return stores_found(partitions, inside=inside, where=self._source.where(folder))

    def state(self, operators: Sequence[Operator]) -> int:
        """Copy the state files of these operators."""
        self._flat = {
            operator.number
            for operator in operators
            if self._ahead
            and operator.path
            and has_no_families(operator_name(operator.text, where=self._source.where(operator.path)))
        }
        return self._in_threads(lambda item: self._store(*item), _stores(operators))

    def schemas(self, operators: Sequence[Operator]) -> int:
        """Copy the schemas of the stores. A mirror has no schemas: a query may write them again in its first batch."""
        return self._in_threads(lambda item: self._schema(*item), _stores(operators))

    def _schema(self, operator: str, store: Store, position: int, partition: int) -> int:
        folder = f"state/{operator}/{store.folder(partition)}/_metadata"
        if "schema" not in self._source.list(folder):
            return 0
        path = f"{folder}/schema"
        if is_of_spark_3(self._point.offsets):
            self._target.copy(self._source, path, change=without_nullability)
        else:
            self._target.copy(self._source, path)
        return 1

    def _store(self, operator: str, store: Store, position: int, partition: int) -> int:
        self._check_stop()
        folder = f"state/{operator}/{store.folder(partition)}"
        sizes = self._source.sizes(folder)
        chain = state_chain(
            sizes,
            self._point.state_version,
            id_of=lambda version: self._id_of(version, operator=operator, partition=partition, position=position),
            where=self._source.where(folder),
        )
        full = next((f"{folder}/{name}" for name in chain if name.endswith(".zip")), None)
        if full is not None and full == self._mirrored.snapshots.get(folder):
            self._mirrored.drop_snapshot(folder)
        now = [name for name in chain if not self._ahead or has_id(name)]
        copied = self._take_all({f"{folder}/{name}": sizes[name] for name in now}, exact=False)
        for name in chain:
            if name.endswith(".zip"):
                files = self._tables(f"{folder}/{name}", taken=name in now)
                wanted = {
                    f"{folder}/{path}": size
                    for path, size in files.items()
                    if self._mirrored.with_tables or not is_unique_table(path)
                }
                copied += self._take_all(wanted, exact=True)
        if operator in self._flat:
            self._note_replay(folder, chain, sizes)
        return copied

    def _note_replay(self, folder: str, chain: Sequence[str], sizes: Mapping[str, int]) -> None:
        """Note what a load of the chain in the target replays: the changes above the newest snapshot, the leader's or
        our own."""
        full = next((f"{folder}/{name}" for name in chain if name.endswith(".zip")), None)
        made = self._mirrored.snapshots.get(folder)
        if made is not None and full is not None and version_of(full) >= version_of(made):
            self._mirrored.drop_snapshot(folder)
            made = None
        base = made or full
        above = 0 if base is None else version_of(base)
        newest = change_file(chain[0])
        changes = sum(sizes[name] for name in chain if (change := change_file(name)) and change[0] > above)
        if newest is None or not changes:
            self._mirrored.replays.pop(folder, None)
            return
        tables = 0 if base is None else sum(self._mirrored.tables.get(base, {}).values())
        self._mirrored.replays[folder] = Replay(*newest, changes, tables)

    def _take_all(self, files: Mapping[str, int], *, exact: bool) -> int:
        """Take the new files over. `files`: path -> bytes. `exact`: a file of another size is corrupt."""
        new = {path: size for path, size in files.items() if self._is_new(path)}
        self._report_missing(sum(new.values()))
        self._mirrored.counter.found(len(new), sum(new.values()))
        for path, size in new.items():
            self._check_stop()
            self._mirrored.bring(path, partial(self._target.take, self._source, path, size=size if exact else None))
            self._report_missing(-size)
            self._mirrored.counter.did(1, size)
        return len(new)

    def _tables(self, path: str, *, taken: bool) -> Mapping[str, int]:
        if not taken:
            return files_of_zip(self._source.read(path), where=self._source.where(path))
        # Read from the target: the source's zip may have been replaced since it was taken.
        if path not in self._mirrored.tables:
            data, where = self._target.read(path), self._source.where(path)
            if self._point.newer and (today := with_metadata_of_today(data, where=where)) is not None:
                self._mirrored.change(path, today)
            self._mirrored.tables[path] = files_of_zip(data, where=where)
        return self._mirrored.tables[path]

    def ids_of_commit(self, batch: int) -> StateIds | None:
        """The ids of the state that a batch wrote; None: format 1. Two threads may read the same entry: no lock."""
        with self._lock:
            self._needed_commits.add(batch)
        if batch not in self._mirrored.commits:
            self.read_commit(batch)
        return self._mirrored.commits[batch]

    def read_commit(self, batch: int) -> str:
        """The text of a batch's entry in the commit log. Its ids are kept."""
        path = f"commits/{batch}"
        text = self._source.read_text(path)
        self._mirrored.commits[batch] = decode_commit(text, where=self._source.where(path))
        return text

    def _id_of(self, version: int, *, operator: str, partition: int, position: int) -> str | None:
        """The id of the state that batch `version - 1` wrote; None: format 1."""
        ids = self.ids_of_commit(version - 1)
        if ids is None:
            return None
        try:
            return ids[operator][partition][position]
        except (KeyError, IndexError) as error:
            where = self._source.where(f"commits/{version - 1}")
            raise corrupt(where, f"has no id for state/{operator}/{partition}, store {position}") from error

    # --- the content of the mirror ----------------------------------------------------------------------------------

    def trim(self) -> None:
        """Remove the files that this run did not need."""
        for path in sorted((self._mirrored.files | self._mirrored.begun) - self._needed):
            self._check_stop()
            self._target.drop(path)
            self._mirrored.files.discard(path)
            self._mirrored.begun.discard(path)
            self._mirrored.tables.pop(path, None)
        for batch in self._mirrored.commits.keys() - self._needed_commits:
            del self._mirrored.commits[batch]

    def _is_new(self, path: str) -> bool:
        """Note that a file is needed; return whether it must be copied."""
        with self._lock:
            self._needed.add(path)
        return path not in self._mirrored.files

    def _check_stop(self) -> None:
        if self._stop():
            raise Stopped

    def _report_missing(self, change: int) -> None:
        with self._lock:
            self._on_missing(change)

    def _in_threads(self, work: Callable[[T], int], items: list[T]) -> int:
        pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="tenure-seed")
        futures = [pool.submit(self._worked, work, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
        pool.shutdown(wait=True, cancel_futures=True)
        failures = [failed for future in futures if not future.cancelled() and (failed := future.exception())]
        for failed in sorted(failures, key=lambda failed: isinstance(failed, Stopped)):  # Stopped only without others
            raise failed
        return sum(future.result() for future in futures)

    def _worked(self, work: Callable[[T], int], item: T) -> int:
        try:
            return work(item)
        except CorruptRunDirectory as damage:
            if self._on_damage is None:
                raise
            self._on_damage(damage)
            return 0


def _stores(operators: Sequence[Operator]) -> list[tuple[str, Store, int, int]]:
    """Operator, store, position in the commit log, and partition of each store of each partition."""
    return [
        (operator.number, store, position, partition)
        for operator in operators
        for position, store in enumerate(operator.stores)
        for partition in range(store.partitions)
    ]
