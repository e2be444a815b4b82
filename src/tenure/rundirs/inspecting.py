"""Reads all files of a run directory that a takeover needs at a batch, and writes nothing.

Promise: the inspection takes the steps of a seed (`seeding.py`), so it demands the same files, and refuses what a seed
refuses. It also compares each file with the sizes and checksums that stand beside it, which a seed leaves to Spark.
Damage hides other damage only where a file is missing that names others: a commit, an operator's metadata, a snapshot.
Not promised: that bytes without a recorded checksum are right. RocksDB's tables have a recorded size alone.
"""

from __future__ import annotations

from collections.abc import Callable

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.errors import CorruptRunDirectory
from tenure.rundirs.checksums import checksum_names, wrong_in
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory, has_commit
from tenure.rundirs.seed_logs import corrupt, decode_query_id, missing
from tenure.rundirs.seeding import try_seed
from tenure.rundirs.state_copy import SeedPoint


def damages_of(url: str, checkpoint: Checkpoint) -> list[str]:
    """The damage of the run directory at `url` for a takeover at the checkpoint, a line each. Raises CorruptCheckpoint:
    the offsets of the checkpoint do not decode; StorageError."""
    source = _Checked(url)
    if not source.list():
        return [f"{source.url} is missing, or empty"]
    found: list[str] = []

    def note(damage: CorruptRunDirectory) -> None:
        found.append(damage.what)  # from several threads

    done = checkpoint.closed or has_commit(url, checkpoint.batch)
    point = SeedPoint(checkpoint.batch, checkpoint.offsets, done, checkpoint.folders, checkpoint.kinds)
    try_seed(Mirrored(source, _Unwritten(source, note)), point, on_damage=note)
    for contradiction in (_other_query, _other_offsets):
        try:
            found += contradiction(source, checkpoint)
        except CorruptRunDirectory as damage:
            note(damage)
    return sorted(set(found))  # not in the order of the threads


def _other_query(source: RunDirectory, checkpoint: Checkpoint) -> list[str]:
    """Sinks know a query by its id: under another id, they would take a batch a second time."""
    where = source.where("metadata")
    query_id = decode_query_id(source.read_text("metadata"), where=where)
    if query_id == checkpoint.query_id:
        return []
    return [f"{where} is of the query id {query_id}, and the checkpoint of {checkpoint.query_id}"]


def _other_offsets(source: RunDirectory, checkpoint: Checkpoint) -> list[str]:
    path = f"offsets/{checkpoint.batch}"
    if str(checkpoint.batch) not in source.list("offsets") or source.read_text(path) == checkpoint.offsets:
        return []
    return [f"{source.where(path)} has other offsets than the checkpoint"]


class _Checked(RunDirectory):
    """A run directory whose files are compared with their checksums as they are read. Each folder is listed once.
    Thread-safe."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._listed: dict[str, dict[str, int]] = {}  # two threads may list the same folder: no lock

    def sizes(self, path: str = "") -> dict[str, int]:
        if path not in self._listed:
            self._listed[path] = super().sizes(path)
        return self._listed[path]

    def list(self, path: str = "") -> frozenset[str]:
        return frozenset(self.sizes(path))

    def read(self, path: str) -> bytes:
        data = super().read(path)
        sparks, hadoops = self.checksums(path)
        wrong = wrong_in(
            data,
            sparks=None if sparks is None else super().read(sparks),
            hadoops=None if hadoops is None else super().read(hadoops),
        )
        if wrong is not None:
            raise corrupt(self.where(path), wrong)
        return data

    def checksums(self, path: str) -> tuple[str | None, str | None]:
        """The paths of the checksum files beside a file: Spark's, Hadoop's; None: there is none."""
        folder, _, name = path.rpartition("/")
        below = f"{folder}/" if folder else ""
        sparks, hadoops = (f"{below}{one}" if one in self.sizes(folder) else None for one in checksum_names(name))
        return sparks, hadoops

    def look_at(self, path: str, *, size: int | None) -> None:
        """Compare a state file with its size, and with its checksums where it has any. `size`: None: any but 0."""
        folder, _, name = path.rpartition("/")
        actual = self.sizes(folder).get(name)
        if actual is None:
            raise missing(self.where(path))
        if actual == 0 or (size is not None and actual != size):
            raise corrupt(self.where(path), f"has {actual} bytes instead of {size or 'at least one'}")
        if any(self.checksums(path)):
            self.read(path)


class _Unwritten(RunDirectory):
    """The target of a seed that is not made: it takes no bytes, and its reader reads the source."""

    def __init__(self, source: _Checked, on_damage: Callable[[CorruptRunDirectory], None]) -> None:
        super().__init__(source.url)
        self._source = source
        self._on_damage = on_damage

    def list(self, path: str = "") -> frozenset[str]:
        return frozenset()

    def read(self, path: str) -> bytes:
        return self._source.read(path)

    def write(self, path: str, data: bytes) -> None: ...

    def copy(self, source: RunDirectory, path: str, *, change: Callable[[bytes], bytes] = lambda data: data) -> None:
        data = source.read(path)
        if not data:
            raise corrupt(source.where(path), "is empty")

    def take(self, source: RunDirectory, path: str, *, size: int | None = None) -> None:
        try:
            self._source.look_at(path, size=size)
        except CorruptRunDirectory as damage:  # the other files of the store are looked at, too
            self._on_damage(damage)

    def sync(self) -> None: ...

    def drop(self, path: str) -> None: ...
