"""The contract of a storage: the files and folders below one root, on whatever kind of storage they lie.

Promise: a path is relative to the root, and is a list of names joined by `/`; the empty path is the root. Any other
path is a ValueError. Symbolic links below the root are never followed by listings and removals: a link is removed as
a link. The root itself may be a link. A missing file or folder is no failure of a listing or a removal. Whatever else
fails is a StorageError. No listing is taken from a cache. Constructors do no I/O; a storage is thread-safe.
Not promised: that a removal that failed has kept everything; it can be repeated.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import BinaryIO, Final

from tenure.clock import Clock
from tenure.errors import BlobExists, BlobNotFound, StorageError
from tenure.retry import exponential_delay
from tenure.storage.listed import Entry, Listed, Rest
from tenure.storage.names import checked, deepest_first

REMOVED, GONE, FAILED = "removed", "gone", "failed"

Outcome = tuple[str, str]
"""What became of a file, and the reason of a failure."""

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=20), attempts=6)
"""How often a removal of many files repeats a call that a busy storage does not answer."""

_ADVICE: Final = "check the storage and its permissions"
_ADVICE_ON_WRITES: Final[dict[int | None, str]] = {
    errno.ENOENT: "make that folder or bucket",
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "raise the quota",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
}


class Storage(ABC):
    """One root. A kind of storage is a subclass, which implements the methods with full paths; these raise `errors`."""

    def __init__(self, url: str, root: str, *, errors: tuple[type[Exception], ...] = (OSError,)) -> None:
        """`root`: the path that the client knows. `errors`: what the client raises, FileNotFoundError among them."""
        self.url = url.rstrip("/")
        self.root = root.rstrip("/")
        self.errors = errors

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def where(self, path: str) -> str:
        """How errors name a path."""
        return f"{self.url}/{path}" if path else self.url

    # --- files ------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """The content of a file. Raises BlobNotFound, StorageError."""
        try:
            return self._read(self._full(path))
        except (FileNotFoundError, IsADirectoryError):
            raise BlobNotFound(f"{self.where(path)} is not there") from None
        except self.errors as error:
            raise self._failed("read", path, error) from error

    def write(self, path: str, data: bytes) -> None:
        """Create a file, whole and durable. Raises BlobExists: nothing was written; StorageError."""
        try:
            self._create(self._full(path), data)
        except FileExistsError:
            raise BlobExists(f"{self.where(path)} exists already") from None
        except self.errors as error:
            raise self._failed("write", path, error) from error

    def check_writable(self) -> None:
        """Create a small file and remove it. Raises StorageError, which names the root."""
        probe = f".probe-{os.urandom(8).hex()}"
        try:
            self._create(self._full(probe), b"tenure")
        except self.errors as error:
            raise self._failed("write", "", error) from error
        self.delete(probe)

    def replace(self, path: str, data: bytes) -> None:
        """Write a file or replace it; readers see the old content or the new one. The folder must exist where folders
        do. Raises StorageError."""
        try:
            self._replace(self._full(path), data)
        except self.errors as error:
            raise self._failed("write", path, error) from error

    def add(self, path: str, data: bytes) -> None:
        """Create a file, and its folders, where nobody reads yet. The content is durable on return, the name after
        `sync`. Raises StorageError."""
        try:
            self._add(self._full(path), data)
        except self.errors as error:
            raise self._failed("write", path, error) from error

    def take(self, source: Storage, path: str) -> tuple[int, bool]:
        """Take a file over from another storage, under the same path: by a hard link where both lie on one file system
        of this machine, else by a copy. Return its bytes, and whether it is a link. The name is durable after `sync`.
        Raises BlobNotFound: the source has no such file; StorageError."""
        try:
            linked = self._take(source, path)
            return self._size(self._full(path)), linked
        except (FileNotFoundError, IsADirectoryError):
            raise BlobNotFound(f"{source.where(path)} is not there") from None
        except (*self.errors, *source.errors) as error:
            raise self._failed("take over", path, error) from error

    def sync(self) -> None:
        """Return when the names that `add` and `take` made are durable. Raises StorageError."""
        return  # most storages make a name durable with its content

    def delete(self, path: str) -> None:
        """Remove a file. Raises StorageError."""
        try:
            self._unlink(self._full(path))
        except FileNotFoundError:
            return
        except self.errors as error:
            raise self._failed("remove", path, error) from error

    # --- folders ----------------------------------------------------------------------------------------------------

    def entries(self, path: str = "", *, sizes: bool = False) -> Sequence[Entry]:
        """The content of a folder, by name. `sizes`: with the bytes of each file. Raises StorageError."""
        try:
            found = self._entries(checked(path), sizes=sizes)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except self.errors as error:
            raise self._failed("list", path, error) from error
        return sorted(found, key=lambda entry: entry.name)

    def is_empty(self, path: str = "") -> bool:
        """Whether the folder exists and is empty. An object store has no such folder. Raises StorageError."""
        try:
            return self._is_empty(self._full(path))
        except FileNotFoundError:
            return False
        except self.errors as error:
            raise self._failed("list", path, error) from error

    def make_folder(self, path: str = "") -> None:
        """Make a folder and those above it, where folders exist by themselves. Raises StorageError."""
        try:
            self._make_folder(self._full(path))
        except self.errors as error:
            raise self._failed("make", path, error) from error

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a folder with its content. Raises StorageError."""
        try:
            self._remove(checked(path))
        except FileNotFoundError:
            return
        except self.errors as error:
            raise self._failed("remove", path, error) from error

    def remove_empty(self, path: str = "") -> None:
        """Remove a folder if it is empty at that instant; in S3: the objects that stand for it. Raises StorageError."""
        try:
            self._remove_empty(checked(path))
        except (FileNotFoundError, NotADirectoryError):
            return
        except self.errors as error:
            raise self._failed("remove", path, error) from error

    # --- many files -------------------------------------------------------------------------------------------------

    def walk(self, folders: Sequence[str], *, budget: int) -> Iterator[Listed | Rest]:
        """The files below these folders. After about `budget` files the remaining folders come as `Rest`, for another
        walk. The files directly in a folder are not divided; in S3 none of those below it are. Memory does not grow
        with the number of files on a local disk and in S3; elsewhere it grows with the files of one folder. Names that
        are not UTF-8 are omitted. Raises StorageError."""
        todo = list(reversed(folders))
        while todo:
            folder = checked(todo.pop())
            if budget <= 0:
                yield Rest(folder)
                continue
            try:
                for found in self._list(folder):
                    if isinstance(found, Rest):
                        todo.append(found.folder)
                    else:
                        budget -= len(found.names)
                        yield found
            except (FileNotFoundError, NotADirectoryError):
                continue
            except self.errors as error:
                raise self._failed("list", folder, error) from error

    def sizes(self, paths: Sequence[str]) -> list[int]:
        """The bytes of files that a walk has listed without; 0 for a link, a folder, and a file that is gone.
        Raises StorageError."""
        raise NotImplementedError(f"a walk of {self.url} lists sizes")

    @abstractmethod
    def remove_files(self, paths: Sequence[str], *, clock: Clock) -> Iterator[Outcome]:
        """Remove files; yield the outcome of each, in this order. A call that a busy storage does not answer is tried
        again, a refusal is final. A path that ends with `/` is a folder, which `remove_folders` removes."""

    def remove_folders(self, folders: Collection[str]) -> None:
        """Remove those of these folders that are empty. A folder that cannot be removed stays for the next time."""
        for folder in deepest_first(folders):
            with suppress(StorageError):
                self.remove_empty(folder)

    # --- names ------------------------------------------------------------------------------------------------------

    def path_on_disk(self, path: str) -> str | None:
        """The path of a file for the system calls of this machine; None: it has none."""
        return None

    @abstractmethod
    def spark_url(self, *, like: str) -> str:
        """The root as Spark spells it. `like`: how Spark has spelled a path on the same kind of storage, as Hadoop's
        scheme may differ from ours (s3a, s3)."""

    # --- what each kind implements ----------------------------------------------------------------------------------

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """A file, to read from. Raises `errors`."""

    @abstractmethod
    def _read(self, full: str) -> bytes: ...

    @abstractmethod
    def _create(self, full: str, data: bytes) -> None:
        """Raises FileExistsError: nothing was written."""

    @abstractmethod
    def _replace(self, full: str, data: bytes) -> None: ...

    @abstractmethod
    def _add(self, full: str, data: bytes) -> None: ...

    @abstractmethod
    def _take(self, source: Storage, path: str) -> bool:
        """Return whether the file is a hard link."""

    @abstractmethod
    def _size(self, full: str) -> int: ...

    @abstractmethod
    def _unlink(self, full: str) -> None: ...

    @abstractmethod
    def _entries(self, path: str, *, sizes: bool) -> Iterable[Entry]: ...

    @abstractmethod
    def _is_empty(self, full: str) -> bool: ...

    @abstractmethod
    def _make_folder(self, full: str) -> None: ...

    @abstractmethod
    def _remove(self, path: str) -> None: ...

    @abstractmethod
    def _remove_empty(self, path: str) -> None: ...

    @abstractmethod
    def _list(self, folder: str) -> Iterator[Listed | Rest]:
        """The files directly in a folder, and its folders."""

    def _full(self, path: str) -> str:
        return f"{self.root}/{checked(path)}" if path else self.root

    def _failed(self, verb: str, path: str, error: Exception) -> StorageError:
        fix = _ADVICE if verb in ("read", "list") else _ADVICE_ON_WRITES.get(getattr(error, "errno", None), _ADVICE)
        if verb != "read" and isinstance(error, FileNotFoundError):
            fix = _ADVICE_ON_WRITES[errno.ENOENT]
        return StorageError(f"cannot {verb} {self.where(path)}: {reason(error)}", fix=fix)


def reason(error: Exception) -> str:
    """The message of an error, without Python's numbers, and without the stack of a server."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error).split("\n", 1)[0]
