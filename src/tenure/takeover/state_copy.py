"""What of a seed can be brought before the batch to seed is known: files that never change once they are there.

Promise: these are the state files that carry the id of their writer in their names, and the tables that RocksDB's
files refer to (linked where both directories lie on one local file system), and the entries of file sources' logs. A
standby brings them again and again, each time what is new (`bring`); a takeover then finds them there (`seed`). A
directory that is filled like this does not start: it has neither `offsets` nor `metadata`. A state file that is named
by its version alone (format 1) may be replaced by a task that runs again: it is left to the takeover.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TypeVar

from tenure.errors import CorruptCheckpoint, CorruptRunDirectory, UsageError
from tenure.takeover.run_directory import RunDirectory
from tenure.takeover.seed_logs import (
    StateIds,
    check_source_entry,
    corrupt,
    decode_commit,
    is_log_file,
    log_offset,
    missing,
    needs_start,
    source_folders,
    source_log,
)
from tenure.takeover.state_files import Store, decode_operator, files_of_zip, has_id, newest_metadata, state_chain

T = TypeVar("T")

_THREADS = 16  # requests in flight: a seed is many small files, and object stores answer in tens of milliseconds


@dataclass(frozen=True, slots=True)
class Seeded:
    """What was brought. `linked`: how many of the files are hard links."""

    files: int = 0
    bytes: int = 0
    linked: int = 0


@dataclass(slots=True)
class Mirrored:
    """A run directory that nobody runs on yet, and what it has got so far from `source`. Used by one thread at a
    time."""

    source: RunDirectory
    target: RunDirectory
    files: dict[str, int] = field(default_factory=dict)
    """Path -> bytes of what it has."""
    tables: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """RocksDB zips that it has -> the files that each refers to, with their bytes."""
    commits: dict[int, StateIds | None] = field(default_factory=dict)
    """What the commit log of the source says, as far as it was read."""


@dataclass(frozen=True, slots=True)
class SeedPoint:
    """The batch that a run directory is to run next: `batch` with `offsets`, or, `committed`, what comes after it."""

    batch: int
    offsets: str
    committed: bool = False
    folders: tuple[str, ...] = ()
    """The folder below `sources/` of each line of the offsets; empty: line i is folder i."""

    @property
    def state_version(self) -> int:
        """The state to start from."""
        return self.batch + 1 if self.committed else self.batch

    @property
    def last_commit(self) -> int:
        """The newest batch that is done; -1: none is."""
        return self.batch if self.committed else self.batch - 1


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with state: its number, its metadata (the file's path and text), and its stores."""

    number: str
    path: str
    text: str
    stores: tuple[Store, ...]


class Stopped(Exception):
    """It was told to stop, between two files."""


def copy_ahead(
    mirrored: Mirrored, point: SeedPoint, *, stop: Callable[[], bool], on_missing: Callable[[int], None]
) -> None:
    """Bring what is new for a seed of `point`, and remove what it needs no more.

    `on_missing` hears how many bytes more are found to be missing, or, below 0, are not any more.
    Raises Stopped: `stop` said so; what is there can be used. CorruptRunDirectory, CorruptCheckpoint, StorageError: the
    directory must not be used any more.
    """
    copy = StateCopy(mirrored, point, ahead=True, stop=stop, on_missing=on_missing)
    copy.sources()
    copy.state(copy.operators())
    copy.trim()


class StateCopy:
    """One time of bringing. Worker threads write files and return what they did; only the caller's thread counts."""

    def __init__(
        self,
        mirrored: Mirrored,
        point: SeedPoint,
        *,
        ahead: bool = False,
        stop: Callable[[], bool] = lambda: False,
        on_missing: Callable[[int], None] = lambda change: None,
    ) -> None:
        """`ahead`: only what never changes."""
        if point.batch < 0:
            raise UsageError(f"batch {point.batch} cannot be seeded", fix="batch ids begin at 0")
        self._mirrored = mirrored
        self._source = mirrored.source
        self._target = mirrored.target
        self._point = point
        self._ahead = ahead
        self._stop = stop
        self._on_missing = on_missing
        self._lock = threading.Lock()  # guards the next two, and calls of `on_missing`
        self._needed: set[str] = set()
        self._needed_commits: set[int] = set()
        try:
            self._folders = source_folders(point.offsets, point.folders, where=f"plan of batch {point.batch}")
        except CorruptRunDirectory as error:
            raise CorruptCheckpoint(error.what) from error

    # --- sources ----------------------------------------------------------------------------------------------------

    def sources(self) -> Seeded:
        """Bring the logs of the sources up to the planned offsets."""
        items: list[tuple[str, bool]] = []  # (path, whether it is an entry of a file source's log)
        for name, offset in self._folders.items():
            folder = f"sources/{name}"
            last = None if offset is None else log_offset(offset)
            if last is not None:
                entries = source_log(self._source.list(folder), last, where=self._source.where(folder))
                items += [(f"{folder}/{entry}", True) for entry in entries]
                continue
            if self._ahead:
                continue  # who knows what its source does with it
            files = self._files_below(folder)
            if offset is not None and f"{folder}/0" not in files and needs_start(offset, self._point.batch):
                raise missing(self._source.where(f"{folder}/0"))
            items += [(path, False) for path in files]
        return self._in_threads(lambda item: self._source_file(*item), items)

    def _source_file(self, path: str, is_entry: bool) -> Seeded:
        if not is_entry:
            return self._copied(path)
        if not self._is_new(path):
            return Seeded()
        self._look_up()
        done = self._copied(path, check=check_source_entry)
        self._mirrored.files[path] = done.bytes
        return done

    def _copied(self, path: str, *, check: Callable[..., None] | None = None) -> Seeded:
        data = self._source.read(path)
        if check is not None:
            check(data.decode("utf-8", errors="replace"), where=self._source.where(path))
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

    # --- state ------------------------------------------------------------------------------------------------------

    def operators(self) -> list[Operator]:
        """The operators with state."""
        if self._point.state_version == 0:
            return []
        names = {name for name in self._source.list("state") if name.isdigit()}
        names |= set(self.ids_of_commit(self._point.last_commit) or {})
        found = []
        for number in sorted(names, key=int):
            path = f"state/{number}/_metadata/metadata"
            if "v2" in self._source.list(f"state/{number}/_metadata"):
                path = f"state/{number}/_metadata/v2"
                where = self._source.where(path)
                path += "/" + newest_metadata(self._source.list(path), version=self._point.state_version, where=where)
            text = self._source.read_text(path)
            found.append(Operator(number, path, text, decode_operator(text, where=self._source.where(path))))
        return found

    def state(self, operators: Sequence[Operator]) -> Seeded:
        """Bring the state files of these operators."""
        return self._in_threads(lambda item: self._store(*item), _stores(operators))

    def schemas(self, operators: Sequence[Operator]) -> Seeded:
        """Write the schemas of the stores. A mirror has none of them: a query may write them again in its first
        batch."""
        return self._in_threads(lambda item: self._schema(*item), _stores(operators))

    def _schema(self, operator: str, store: Store, position: int, partition: int) -> Seeded:
        folder = f"state/{operator}/{store.folder(partition)}/_metadata"
        return self._copied(f"{folder}/schema") if "schema" in self._source.list(folder) else Seeded()

    def _store(self, operator: str, store: Store, position: int, partition: int) -> Seeded:
        self._look_up()
        folder = f"state/{operator}/{store.folder(partition)}"
        sizes = self._source.sizes(folder)
        chain = state_chain(
            sizes,
            self._point.state_version,
            id_of=lambda version: self._id_of(version, operator=operator, partition=partition, position=position),
            where=self._source.where(folder),
        )
        now = [name for name in chain if not self._ahead or has_id(name)]
        done = self._take_all({f"{folder}/{name}": sizes[name] for name in now}, exact=False)
        for name in chain:
            if name.endswith(".zip"):
                tables = self._tables(f"{folder}/{name}", taken=name in now)
                done += self._take_all({f"{folder}/{path}": size for path, size in tables.items()}, exact=True)
        return total(done)

    def _take_all(self, files: Mapping[str, int], *, exact: bool) -> list[Seeded]:
        """Take those over that are new. `files`: path -> bytes, `exact`: it is corrupt if it has not so many."""
        new = {path: size for path, size in files.items() if self._is_new(path)}
        self._tell_missing(sum(new.values()))
        done = []
        for path, size in new.items():
            self._look_up()
            taken, linked = self._target.take(self._source, path, size=size if exact else None)
            self._mirrored.files[path] = taken
            done.append(Seeded(1, taken, int(linked)))
            self._tell_missing(-size)
        return done

    def _tables(self, path: str, *, taken: bool) -> Mapping[str, int]:
        if not taken:
            return files_of_zip(self._source.read(path), where=self._source.where(path))
        # Read from the target: what the zip refers to fits the zip that was taken, whatever replaces it now.
        if path not in self._mirrored.tables:
            self._mirrored.tables[path] = files_of_zip(self._target.read(path), where=self._source.where(path))
        return self._mirrored.tables[path]

    def ids_of_commit(self, batch: int) -> StateIds | None:
        """The ids of the state that a batch wrote; None: format 1. Reading one twice is harmless, so no lock."""
        with self._lock:
            self._needed_commits.add(batch)
        if batch not in self._mirrored.commits:
            self.read_commit(batch)
        return self._mirrored.commits[batch]

    def read_commit(self, batch: int) -> str:
        """The text of a batch's entry in the commit log; the ids in it are kept."""
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

    # --- what is there ----------------------------------------------------------------------------------------------

    def trim(self) -> None:
        """Remove what was brought earlier, and is not needed any more."""
        for path in sorted(self._mirrored.files.keys() - self._needed):
            self._look_up()
            self._target.drop(path)
            del self._mirrored.files[path]
            self._mirrored.tables.pop(path, None)
        for batch in self._mirrored.commits.keys() - self._needed_commits:
            del self._mirrored.commits[batch]

    def _is_new(self, path: str) -> bool:
        """Note that it is needed; return whether it has to be brought."""
        with self._lock:
            self._needed.add(path)
        return path not in self._mirrored.files

    def _look_up(self) -> None:
        if self._stop():
            raise Stopped

    def _tell_missing(self, change: int) -> None:
        with self._lock:
            self._on_missing(change)

    def _in_threads(self, work: Callable[[T], Seeded], items: list[T]) -> Seeded:
        pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="tenure-seed")
        futures = [pool.submit(work, item) for item in items]
        wait(futures, return_when=FIRST_EXCEPTION)
        pool.shutdown(wait=True, cancel_futures=True)
        failures = [failed for one in futures if not one.cancelled() and (failed := one.exception()) is not None]
        for failed in sorted(failures, key=lambda one: isinstance(one, Stopped)):  # to be stopped is the lesser one
            raise failed
        return total(one.result() for one in futures)


def _stores(operators: Sequence[Operator]) -> list[tuple[str, Store, int, int]]:
    """Operator, store, its position in the commit log, partition: of each store of each partition."""
    return [
        (operator.number, store, position, partition)
        for operator in operators
        for position, store in enumerate(operator.stores)
        for partition in range(store.partitions)
    ]


def total(done: Iterable[Seeded]) -> Seeded:
    """All of it together."""
    parts = list(done)
    return Seeded(
        sum(part.files for part in parts), sum(part.bytes for part in parts), sum(part.linked for part in parts)
    )
