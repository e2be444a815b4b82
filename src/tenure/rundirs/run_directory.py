"""A run directory: the Spark checkpointLocation of a single attempt of a member, in a storage.

Promise: reads raise CorruptRunDirectory when a file is missing, StorageError when the storage fails. Writes are durable
after `sync`. `take` makes a hard link where both directories lie on one local file system, else a copy.

Only state files are linked. Spark never changes a state file in place: it writes each under a temporary name and
renames it, or (SST) under a name that is used once. So a former owner that is still alive may replace or delete a file
in its directory without any effect on the file behind our link, and the other way round.
Not promised: that the content of a linked file is on the disk; Spark decides on that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tenure.checkpoints.run_name import newest_logged
from tenure.errors import BlobNotFound, CorruptRunDirectory, UsageError
from tenure.rundirs.seed_logs import corrupt, decode_commit, decode_query_id, missing
from tenure.storage.reach import reach
from tenure.storage.storage import Entry


class RunDirectory:
    """Files of one run directory by their path below it. Thread-safe. The constructor does no I/O."""

    def __init__(self, url: str) -> None:
        self._storage = reach(url, what="run directory")
        self.url = self._storage.url

    def __repr__(self) -> str:
        return f"RunDirectory({self.url!r})"

    def where(self, path: str) -> str:
        """The name of a file in errors."""
        return self._storage.where(path)

    def uri(self, *, like: str) -> str:
        """This directory in Spark's spelling. `like`: a path in another run directory in Spark's spelling."""
        return self._storage.spark_url(like=like)

    def list(self, path: str = "") -> frozenset[str]:
        """The names of the files and folders directly in a folder; empty when there is no such folder."""
        return frozenset(entry.name for entry in self._storage.entries(path))

    def entries(self, path: str = "") -> Sequence[Entry]:
        """The files and folders directly in a folder; none when there is no such folder."""
        return self._storage.entries(path)

    def sizes(self, path: str = "") -> dict[str, int]:
        """The content of a folder: name -> bytes (a folder: 0); empty when there is no such folder."""
        return {entry.name: entry.size or 0 for entry in self._storage.entries(path, sizes=True)}

    def read(self, path: str) -> bytes:
        """The content of a file that must be there."""
        try:
            return self._storage.read(path)
        except BlobNotFound as error:
            raise missing(self.where(path)) from error

    def read_text(self, path: str) -> str:
        """The content of a text file that must be there."""
        try:
            return self.read(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise corrupt(self.where(path), f"does not decode: {error}") from error

    def write(self, path: str, data: bytes) -> None:
        """Write a new file; its content is durable when this returns, its name after `sync`."""
        self._storage.add(path, data)

    def copy(self, source: RunDirectory, path: str, *, change: Callable[[bytes], bytes] = lambda data: data) -> None:
        """Copy a file, which must not be empty, under the same path. `change`: what becomes of its content."""
        data = source.read(path)
        if not data:
            raise corrupt(source.where(path), "is empty")
        self.write(path, change(data))

    def take(self, source: RunDirectory, path: str, *, size: int | None = None) -> None:
        """Take a state file over, under the same path. `size`: its bytes; None: any size but 0, as no state file is
        empty."""
        try:
            actual = self._storage.take(source._storage, path)
        except BlobNotFound as error:
            raise missing(source.where(path)) from error
        if actual == 0 or (size is not None and actual != size):
            raise corrupt(source.where(path), f"has {actual} bytes instead of {size or 'at least one'}")

    def sync(self) -> None:
        """Return when the names of all written files are durable."""
        self._storage.sync()

    def drop(self, path: str) -> None:
        """Remove a file, if it is there."""
        self._storage.delete(path)


def remove_tree(url: str) -> None:
    """Remove a folder with its content, if it is there. Raises StorageError."""
    parent, _, name = url.rstrip("/").rpartition("/")
    reach(parent).remove(name)


def read_offsets(run_directory: str, batch: int) -> str:
    """The offsets text of a planned batch."""
    return RunDirectory(run_directory).read_text(f"offsets/{batch}")


def read_query_id(run_directory: str) -> str:
    """Spark's id of the query that runs there."""
    directory = RunDirectory(run_directory)
    return decode_query_id(directory.read_text("metadata"), where=directory.where("metadata"))


def check_new(url: str) -> None:
    """Raises UsageError: the directory has files; StorageError."""
    if RunDirectory(url).list():
        raise UsageError(f"{url} is not empty", fix="name a new directory")


def has_commit(run_directory: str, batch: int) -> bool:
    """Whether Spark has noted a batch as done. A note that does not decode does not count: Spark does not sync notes,
    so a loss of power can leave an empty file."""
    directory = RunDirectory(run_directory)
    path = f"commits/{batch}"
    try:
        decode_commit(directory.read_text(path), where=directory.where(path))
    except CorruptRunDirectory:
        return False
    return True


def latest_planned(run_directory: str) -> int | None:
    """The newest batch with offsets there; None: no batch was planned."""
    return newest_logged(run_directory, "offsets")


def latest_commit(run_directory: str) -> int | None:
    """The newest batch that Spark finished there; None: no batch was finished."""
    return newest_logged(run_directory, "commits")


def format_of_state(run_directory: str) -> int | None:
    """The format of the state: 1, or 2 with the ids of files; None: no batch is done there."""
    batch = latest_commit(run_directory)
    if batch is None:
        return None
    return 1 if RunDirectory(run_directory).read_text(f"commits/{batch}").startswith("v1") else 2
