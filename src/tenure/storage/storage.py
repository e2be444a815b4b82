"""The contract of a storage: the files and folders below one root, on a disk, in S3, in HDFS or elsewhere.

Promise: a path is relative to the root, and is a list of names joined by `/`; the empty path is the root. Any other
path is a ValueError. Listings and removals follow no symbolic link below the root: a link is removed as a link. The
root itself may be a link. A missing file or folder is no failure of a listing or a removal. Any other failure is a
StorageError. No listing comes from a cache. Constructors do no I/O; a storage is thread-safe.
Not promised: that a removal that failed has kept everything; it can be repeated.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import BinaryIO, ClassVar, Final

from tenure.clock import Clock
from tenure.errors import BlobExists, BlobNotFound, StorageError
from tenure.retry import exponential_delay, retry
from tenure.storage.names import checked, deepest_first, unfinished


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder in a folder. A symbolic link is a file."""

    name: str
    folder: bool
    size: int | None = None
    """In bytes, 0 for a folder; None: the caller did not ask for sizes."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A folder that the budget of a walk did not reach, with everything below it."""

    folder: str


@dataclass(frozen=True, slots=True)
class Listed:
    """Some of the files directly in a folder. On a local disk and in HDFS an empty folder has a file with an empty
    name; in an object store such a name is the object that stands for the folder."""

    folder: str
    names: Sequence[str]
    sizes: Sequence[int] | None
    """In bytes; None: the listing has no sizes, ask `Storage.sizes`."""

    @property
    def paths(self) -> list[str]:
        """Below the root."""
        return [f"{self.folder}/{name}" if self.folder else name for name in self.names]


REMOVED, GONE, FAILED = "removed", "gone", "failed"

Outcome = tuple[str, str]
"""The outcome of a file's removal, and the reason of a failure."""

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

    puts_whole: ClassVar[bool] = False
    """Whether a file is one put, which the storage judges."""
    keeps_folders: ClassVar[bool] = True
    """Whether folders exist by themselves, and one rename moves a folder with all that is in it. In an object store a
    rename is a copy of each file."""

    def __init__(self, url: str, root: str, *, errors: tuple[type[Exception], ...] = (OSError,)) -> None:
        """`root`: the path for the client. `errors`: the errors of the client, FileNotFoundError among them."""
        self.url = url.rstrip("/")
        self.root = root.rstrip("/")
        self.errors = errors

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def where(self, path: str) -> str:
        """The name of a path in errors."""
        return f"{self.url}/{path}" if path else self.url

    # --- files ------------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """The content of a file. Raises BlobNotFound, StorageError."""
        with self._naming("read", path):
            try:
                return self._read(self._full(path))
            except (FileNotFoundError, IsADirectoryError):
                raise BlobNotFound(f"{self.where(path)} is not there") from None

    def write(self, path: str, data: bytes) -> None:
        """Create a file, whole and durable. Raises BlobExists: nothing was written; StorageError."""
        with self._naming("write", path):
            try:
                self._create(self._full(path), data)
            except FileExistsError:
                raise BlobExists(f"{self.where(path)} exists already") from None

    def check_writable(self) -> None:
        """Create a small file and remove it. Its name is that of an unfinished write, in case the process is killed
        between. Raises StorageError, which names the root."""
        probe = unfinished("probe").lstrip("/")
        with self._naming("write", ""):
            self._create(self._full(probe), b"tenure")
        self.delete(probe)

    @property
    def local_folder(self) -> str | None:
        """The folder of this machine that is the root; None: the root is elsewhere."""
        return None

    def replace(self, path: str, data: bytes) -> None:
        """Write a file or replace it; readers see the old content or the new content. Raises StorageError."""
        with self._naming("write", path):
            self._replace(self._full(path), data)

    def add(self, path: str, data: bytes) -> None:
        """Create a file, and its folders, where nobody reads yet. The content is durable on return, the name after
        `sync`. Raises StorageError."""
        with self._naming("write", path):
            self._add(self._full(path), data)

    def take(self, source: Storage, path: str) -> int:
        """Take a file over from another storage, under the same path: by a hard link where both lie on one file system
        of this machine, else by a copy. Return its size in bytes. The name is durable after `sync`. Raises
        BlobNotFound: the source has no such file; StorageError."""
        try:
            return self._take(source, path)
        except (FileNotFoundError, IsADirectoryError):
            raise BlobNotFound(f"{source.where(path)} is not there") from None
        except (*self.errors, *source.errors) as error:
            raise self._failed("take over", path, error) from error

    def sync(self) -> None:
        """Return when the names that `add` and `take` made are durable. Raises StorageError."""
        return  # most storages make a name durable with its content

    def delete(self, path: str) -> None:
        """Remove a file. Raises StorageError."""
        with self._naming("remove", path), suppress(FileNotFoundError):
            self._unlink(self._full(path))

    # --- folders ----------------------------------------------------------------------------------------------------

    def entries(self, path: str = "", *, sizes: bool = False) -> Sequence[Entry]:
        """The content of a folder, by name. `sizes`: with the bytes of each file. Raises StorageError."""
        with self._naming("list", path), suppress(FileNotFoundError, NotADirectoryError):
            return sorted(self._entries(checked(path), sizes=sizes), key=lambda entry: entry.name)
        return ()

    def is_empty(self, path: str = "") -> bool:
        """Whether the folder exists and is empty. An object store has no such folder. Raises StorageError."""
        with self._naming("list", path), suppress(FileNotFoundError):
            return self._is_empty(self._full(path))
        return False

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a folder with its content. Raises StorageError."""
        with self._naming("remove", path), suppress(FileNotFoundError):
            self._remove(checked(path))

    def remove_empty(self, path: str = "") -> None:
        """Remove a folder if it is empty at that instant; in S3: the objects that stand for it. Raises StorageError."""
        with self._naming("remove", path), suppress(FileNotFoundError, NotADirectoryError):
            self._remove_empty(checked(path))

    def move(self, folder: str, to: str) -> bool:
        """Give a folder another name, at one instant; the name is durable on return. False: the folder is not there.
        Raises StorageError: the name is taken by a folder that is not empty, or an object store, which has no folders,
        was asked."""
        with self._naming("move", folder):
            try:
                self._move(self._full(folder), self._full(to))
            except FileNotFoundError:
                return False
        return True

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
            with self._naming("list", folder), suppress(FileNotFoundError, NotADirectoryError):
                for found in self._list(folder):
                    if isinstance(found, Rest):
                        todo.append(found.folder)
                    else:
                        budget -= len(found.names)
                        yield found

    def sizes(self, paths: Sequence[str]) -> list[int]:
        """The bytes of files that a walk has listed without sizes; 0 for a link, a folder, and a file that is gone.
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

    # --- what each kind implements ----------------------------------------------------------------------------------

    @abstractmethod
    def spark_url(self, *, like: str) -> str:
        """The root in Spark's spelling. `like`: a path on the same kind of storage in Spark's spelling, as Hadoop's
        scheme may differ from ours (s3a, s3)."""

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
    def _take(self, source: Storage, path: str) -> int: ...

    @abstractmethod
    def _unlink(self, full: str) -> None: ...

    @abstractmethod
    def _entries(self, path: str, *, sizes: bool) -> Iterable[Entry]: ...

    @abstractmethod
    def _is_empty(self, full: str) -> bool: ...

    def _move(self, full: str, to: str) -> None:
        raise OSError(errno.ENOTSUP, "it has no folders that could be given another name")

    @abstractmethod
    def _remove(self, path: str) -> None: ...

    @abstractmethod
    def _remove_empty(self, path: str) -> None: ...

    @abstractmethod
    def _list(self, folder: str) -> Iterator[Listed | Rest]:
        """The files directly in a folder, and its folders."""

    def _full(self, path: str) -> str:
        return f"{self.root}/{checked(path)}" if path else self.root

    @contextmanager
    def _naming(self, verb: str, path: str) -> Iterator[None]:
        """Raise a StorageError that names the path in place of any error of the client."""
        try:
            yield
        except self.errors as error:
            raise self._failed(verb, path, error) from error

    def _failed(self, verb: str, path: str, error: Exception) -> StorageError:
        fix = _ADVICE if verb in ("read", "list") else _ADVICE_ON_WRITES.get(getattr(error, "errno", None), _ADVICE)
        if verb != "read" and isinstance(error, FileNotFoundError):
            fix = _ADVICE_ON_WRITES[errno.ENOENT]
        return StorageError(f"cannot {verb} {self.where(path)}: {reason(error)}", fix=fix)


def remove_at_last(
    remove: Callable[[], object],
    *,
    errors: tuple[type[Exception], ...],
    is_refusal: Callable[[Exception], bool],
    clock: Clock,
) -> Outcome:
    """Call the removal of one file until the storage answers, by `RETRY`. A refusal is final."""

    def once() -> Outcome:
        try:
            remove()
        except FileNotFoundError:
            return GONE, ""
        except errors as error:
            if is_refusal(error):
                return FAILED, reason(error)
            raise
        return REMOVED, ""

    try:
        return retry(once, policy=RETRY, on=errors, clock=clock)
    except errors as error:
        return FAILED, reason(error)


def reason(error: Exception) -> str:
    """The message of an error, without Python's numbers, and without the stack of a server."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error).split("\n", 1)[0]
