"""A run directory: the Spark checkpointLocation of one member's one attempt, on a local disk or any fsspec storage.

Promise: reads say CorruptRunDirectory when a file is missing, StorageError when the storage fails. Writes reach the
disk by `sync()` (local) or by returning (object stores). Taking a file over from another run directory makes a hard
link where both lie on one local file system, else a copy.

Only state files are linked. Spark never changes one in place: it writes each under a temporary name and renames
it, or (SST) under a name that is used once. So what a former owner that is still alive does in its directory, a
replaced version or a deletion, never reaches the file behind our link, and the other way round.
Not promised: that the content of a linked file is on the disk; it is as durable as Spark left it.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from contextlib import suppress

from tenure.errors import CorruptRunDirectory, StorageError
from tenure.storage.folders import Folders
from tenure.storage.location import reach
from tenure.takeover.seed_logs import corrupt, decode_commit, decode_query_id, missing

_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES}


class RunDirectory:
    """Files of one run directory by their path below it. Thread-safe. The constructor does no I/O."""

    def __init__(self, url: str) -> None:
        place = reach(url, what="run directory")
        self._filesystem = place.fs
        self._root = place.root
        self._errors = place.errors
        self.is_local = place.is_local
        self.url = self._root if self.is_local else url.rstrip("/")
        self._lock = threading.Lock()
        self._made: set[str] = set()  # folders made or written to since the last sync; guarded by _lock

    def __repr__(self) -> str:
        return f"RunDirectory({self.url!r})"

    def where(self, path: str) -> str:
        """How errors name a file."""
        return f"{self.url}/{path}"

    def uri(self, *, like: str) -> str:
        """This directory as Spark names it, judged by how it wrote `like`, a path of another run directory on the
        same kind of storage: Hadoop's scheme may differ from ours (s3a, s3)."""
        if self.is_local:
            return f"file:{self._root}"
        scheme, _, rest = self.url.partition("://")
        known, colon, _ = like.partition(":/")
        return f"{known if colon and known != 'file' else scheme}://{rest}"

    def list(self, path: str = "") -> frozenset[str]:
        """The names of files and folders directly in a folder; none when there is no such folder."""
        try:
            if self.is_local:
                return frozenset(os.listdir(self._path(path)))
            found = self._filesystem.ls(self._path(path), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return frozenset()
        except self._errors as error:
            raise self._failed("list", path, error) from error
        # Object stores list a file, or the marker of a folder, as its own and only entry.
        names = {name.rstrip("/") for name in found} - {self._path(path)}
        return frozenset(name.rsplit("/", 1)[-1] for name in names)

    def sizes(self, path: str = "") -> dict[str, int]:
        """What is directly in a folder: name -> bytes (a folder: 0); nothing when there is no such folder."""
        try:
            if self.is_local:
                return _local_sizes(self._path(path))
            found = self._filesystem.ls(self._path(path), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except self._errors as error:
            raise self._failed("list", path, error) from error
        sizes = {entry["name"].rstrip("/"): int(entry["size"] or 0) for entry in found}
        sizes.pop(self._path(path), None)  # as in `list`
        return {name.rsplit("/", 1)[-1]: size for name, size in sizes.items()}

    def read(self, path: str) -> bytes:
        """The content of a file that must be there."""
        try:
            if self.is_local:
                with open(self._path(path), "rb") as file:
                    return file.read()
            data: bytes = self._filesystem.cat_file(self._path(path))
            return data
        except (FileNotFoundError, IsADirectoryError) as error:
            raise missing(self.where(path)) from error
        except self._errors as error:
            raise self._failed("read", path, error) from error

    def read_text(self, path: str) -> str:
        """The content of a text file that must be there."""
        try:
            return self.read(path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise corrupt(self.where(path), f"does not decode: {error}") from error

    def write(self, path: str, data: bytes) -> None:
        """Write a new file; on a local disk its content is on the disk when this returns, its name after `sync`."""
        try:
            if not self.is_local:
                self._filesystem.pipe_file(self._path(path), data)
                return
            self._make_folder(os.path.dirname(self._path(path)))
            with open(self._path(path), "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except self._errors as error:
            raise self._failed("write", path, error) from error

    def take(self, source: RunDirectory, path: str, *, size: int | None = None) -> tuple[int, bool]:
        """Take a state file over, under the same path. Returns its size and whether it was linked.
        `size` None: any but 0 is right, as no state file is empty."""
        try:
            linked = self._take_local(source, path) if self.is_local and source.is_local else False
            if not linked and not (self.is_local and source.is_local):
                self._take_remote(source, path)
            actual = self._size(path)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise missing(source.where(path)) from error
        except self._errors as error:
            raise self._failed("take over", path, error) from error
        if actual == 0 or (size is not None and actual != size):
            raise corrupt(source.where(path), f"has {actual} bytes instead of {size or 'at least one'}")
        return actual, linked

    def sync(self) -> None:
        """On a local disk: return when the names of all that was written so far are on the disk."""
        with self._lock:
            folders = sorted(self._made)
            self._made.clear()
        try:
            for folder in folders:
                _sync_file(folder)
        except self._errors as error:
            raise self._failed("sync", "", error) from error

    def drop(self, path: str) -> None:
        """Remove a file; one that is not there is fine."""
        try:
            if self.is_local:
                os.unlink(self._path(path))
            else:
                self._filesystem.rm_file(self._path(path))
        except FileNotFoundError:
            return
        except self._errors as error:
            raise self._failed("remove", path, error) from error

    def remove(self) -> None:
        """Remove the directory with all that is in it; one that is not there is fine."""
        parent, _, name = self.url.rpartition("/")
        Folders(parent).remove(name)

    def _take_local(self, source: RunDirectory, path: str) -> bool:
        """Link, or copy where the file system cannot link; whether it was linked."""
        origin, target = source._path(path), self._path(path)
        self._make_folder(os.path.dirname(target))
        try:
            os.link(origin, target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            shutil.copyfile(origin, target)
            _sync_file(target)
            return False
        return True

    def _take_remote(self, source: RunDirectory, path: str) -> None:
        origin, target = source._path(path), self._path(path)
        if self._filesystem is source._filesystem:
            self._filesystem.cp_file(origin, target)
            return
        if self.is_local:
            self._make_folder(os.path.dirname(target))
        with source._filesystem.open(origin, "rb") as reader, self._filesystem.open(target, "wb") as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)
        if self.is_local:
            _sync_file(target)

    def _size(self, path: str) -> int:
        if self.is_local:
            return os.stat(self._path(path)).st_size
        return int(self._filesystem.info(self._path(path))["size"])

    def _make_folder(self, folder: str) -> None:
        with self._lock:
            if folder in self._made:
                return
            missing = [folder]
            while not os.path.isdir(missing[-1]):
                missing.append(os.path.dirname(missing[-1]))
            os.makedirs(folder, exist_ok=True)
            self._made.update(missing)  # a new folder's name is on the disk once its parent is synced

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _failed(self, what: str, path: str, error: Exception) -> StorageError:
        return StorageError(f"cannot {what} {self.where(path)}: {error}", fix="check the storage and its permissions")


def _local_sizes(folder: str) -> dict[str, int]:
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # its owner removed it meanwhile
                found[entry.name] = entry.stat().st_size if entry.is_file() else 0
    return found


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(url: str) -> None:
    """Remove a folder and all that is in it; one that is not there is fine. Raises StorageError."""
    RunDirectory(url).remove()


def read_offsets(run_directory: str, batch: int) -> str:
    """The offsets text of a batch that was planned there."""
    return RunDirectory(run_directory).read_text(f"offsets/{batch}")


def read_query_id(run_directory: str) -> str:
    """Spark's id of the query that runs there."""
    directory = RunDirectory(run_directory)
    return decode_query_id(directory.read_text("metadata"), where=directory.where("metadata"))


def has_commit(run_directory: str, batch: int) -> bool:
    """Whether Spark has noted there that a batch is done. A note that does not decode is none: Spark does not sync it,
    so that a machine that loses its power may leave an empty file under its name."""
    directory = RunDirectory(run_directory)
    path = f"commits/{batch}"
    try:
        decode_commit(directory.read_text(path), where=directory.where(path))
    except CorruptRunDirectory:
        return False
    return True


def latest_planned(run_directory: str) -> int | None:
    """The newest batch with offsets there; None: no batch was planned."""
    return _newest(run_directory, "offsets")


def latest_commit(run_directory: str) -> int | None:
    """The newest batch that Spark finished there; None: no batch was finished."""
    return _newest(run_directory, "commits")


def _newest(run_directory: str, log: str) -> int | None:
    return max((int(name) for name in RunDirectory(run_directory).list(log) if name.isdigit()), default=None)
