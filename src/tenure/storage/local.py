"""Files on a local disk, or on a file system that is mounted on this machine.

Promise: `write` syncs a hidden file, links it to its name, which fails when the name exists, and syncs the folders up
to the first that existed before. A symbolic link is removed as a link, and nothing is listed or removed through it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from typing import BinaryIO, Final

from fsspec.implementations.local import LocalFileSystem

from tenure.clock import Clock
from tenure.errors import StorageError
from tenure.storage.disk import Removal, make_folders, opened_folder, sync_path
from tenure.storage.names import unfinished
from tenure.storage.storage import Entry, Listed, Outcome, Rest, Storage, reason

_AT_ONCE: Final = 10_000
"""Files of one folder that a walk returns at once."""
_NOT_EMPTY: Final = {errno.ENOTEMPTY, errno.EEXIST}
_NO_LINK: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES}


class Local(Storage):
    """Below a path or a `file:` URL."""

    def __init__(self, url: str, *, what: str = "storage") -> None:
        path = str(LocalFileSystem._strip_protocol(url))
        super().__init__(path, path)
        self._lock = threading.Lock()
        self._unsynced: set[str] = set()  # folders with names that may not be on the disk; guarded by _lock

    @property
    def local_folder(self) -> str:
        return self.root

    def spark_url(self, *, like: str) -> str:
        return f"file:{self.root}"

    # --- files ------------------------------------------------------------------------------------------------------

    def open(self, path: str) -> BinaryIO:
        return open(self._full(path), "rb")

    def _read(self, full: str) -> bytes:
        with open(full, "rb") as file:
            return file.read()

    def _create(self, full: str, data: bytes) -> None:
        folder = os.path.dirname(full)
        make_folders(folder)
        hidden = unfinished(full)
        try:
            _write_synced(hidden, data)
            os.link(hidden, full)
            sync_path(folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(hidden)

    def _replace(self, full: str, data: bytes) -> None:
        hidden = unfinished(full)
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(hidden, "xb") as file:
                file.write(data)
            os.replace(hidden, full)
        except BaseException:
            with suppress(OSError):
                os.unlink(hidden)
            raise

    def _add(self, full: str, data: bytes) -> None:
        self._make_unsynced(os.path.dirname(full))
        _write_synced(full, data)

    def _take(self, source: Storage, path: str) -> int:
        target = self._full(path)
        self._make_unsynced(os.path.dirname(target))
        if not (isinstance(source, Local) and _is_linked(source._full(path), target)):
            with source.open(path) as reader, open(target, "wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)
            sync_path(target)
        return os.stat(target).st_size

    def sync(self) -> None:
        with self._lock:
            folders = sorted(self._unsynced)
            self._unsynced.clear()
        with self._naming("sync", ""):
            for folder in folders:
                sync_path(folder)

    def _make_unsynced(self, folder: str) -> None:
        with self._lock:
            if folder in self._unsynced:
                return
            missing = [folder]
            while not os.path.isdir(missing[-1]):
                missing.append(os.path.dirname(missing[-1]))
            os.makedirs(folder, exist_ok=True)
            self._unsynced.update(missing)  # the name of a new folder is on the disk once its parent is synced

    def _unlink(self, full: str) -> None:
        os.unlink(full)

    # --- folders ----------------------------------------------------------------------------------------------------

    def _entries(self, path: str, *, sizes: bool) -> Iterable[Entry]:
        full = self._full(path)
        if path and os.path.islink(full):
            raise OSError("it is a symbolic link, which is not followed")
        with os.scandir(full) as entries:
            return [one for entry in entries for one in _entry(entry, sizes=sizes)]

    def _is_empty(self, full: str) -> bool:
        return os.path.isdir(full) and not os.listdir(full)

    def _move(self, full: str, to: str) -> None:
        os.rename(full, to)
        sync_path(os.path.dirname(to))

    def _remove(self, path: str) -> None:
        full = self._full(path)
        try:
            if os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)
        except FileNotFoundError:
            if os.path.lexists(full):  # another process removes files in it at the same time
                raise StorageError(f"cannot remove {full}: it changes meanwhile") from None

    def _remove_empty(self, path: str) -> None:
        try:
            os.rmdir(self._full(path))
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                raise

    # --- many files -------------------------------------------------------------------------------------------------

    def _list(self, folder: str) -> Iterator[Listed | Rest]:
        full = self._full(folder)
        if folder and os.path.islink(full):
            return
        folders: list[str] = []
        empty = True
        with os.scandir(full) as entries:
            while some := list(islice(entries, _AT_ONCE)):
                empty = False
                names: list[str] = []
                for entry in some:
                    (folders if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
                if found := _readable(names):
                    yield Listed(folder, found, None)
        if empty and folder:
            yield Listed(folder, [""], None)
        folders.sort(reverse=True)
        yield from (Rest(f"{folder}/{name}" if folder else name) for name in _readable(folders))

    def sizes(self, paths: Sequence[str]) -> list[int]:
        found: list[int] = []
        for folder, some in groupby([path.rpartition("/") for path in paths], key=itemgetter(0)):
            full = f"{self.root}/{folder}"
            names = [name for _, _, name in some]
            try:
                with opened_folder(full) as number:
                    found += [_size(name, number) for name in names]
            except (FileNotFoundError, NotADirectoryError):
                found += [0] * len(names)
            except OSError as error:
                raise StorageError(f"cannot look at what is in {full}: {reason(error)}") from error
        return found

    def remove_files(self, paths: Sequence[str], *, clock: Clock) -> Iterator[Outcome]:
        return Removal(self.root).remove(paths, clock=clock)

    def remove_folders(self, folders: Collection[str]) -> None:
        super().remove_folders(Removal(self.root).real(folders))


def _write_synced(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _is_linked(origin: str, target: str) -> bool:
    """Link a file; return whether the file system can."""
    try:
        os.link(origin, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    return True


def _entry(entry: os.DirEntry[str], *, sizes: bool) -> Iterator[Entry]:
    size: int | None = None
    if sizes:
        try:
            size = entry.stat().st_size if entry.is_file() else 0
        except FileNotFoundError:  # the owner of the file has removed it meanwhile
            return
    yield Entry(entry.name, entry.is_dir(follow_symlinks=False), size)


def _size(name: str, folder: int) -> int:
    try:
        found = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _readable(names: list[str]) -> list[str]:
    """The names that are UTF-8."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return [name for name in names if not any("\ud800" <= one <= "\udfff" for one in name)]
    return names
