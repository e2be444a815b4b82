"""All files below some folders, in pieces that many processes can share: on a local disk, or on what fsspec reaches.

Promise: symbolic links are listed as files and never followed, and a path with `..` in it is refused. Memory does not
grow with the number of files on a local disk and on S3; elsewhere it grows with the files of one folder. On a local
disk folders come in the order of their names, and on S3 objects in the server's order. A file that disappears during
the walk is passed over; any other failure is StorageError.
Not promised: files whose names are no UTF-8; Tenure makes none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Final

from tenure.errors import StorageError, UsageError
from tenure.storage.location import reach, told
from tenure.storage.s3 import Objects

_SAME: Final = {"s3a": "s3", "s3n": "s3"}
"""Schemes that mean the same place."""

_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True)
class Listed:
    """Some of the files directly in a folder. On a local disk and in HDFS a folder with nothing in it has one with an
    empty name; elsewhere such a name is the object that stands for the folder."""

    folder: str
    names: Sequence[str]
    sizes: Sequence[int] | None
    """In bytes; None: the listing does not tell, ask `Tree.sizes`."""

    @property
    def paths(self) -> list[str]:
        """Below the root."""
        return [f"{self.folder}/{name}" if self.folder else name for name in self.names]


@dataclass(frozen=True, slots=True)
class Rest:
    """A folder that the budget did not reach, with all that is below it."""

    folder: str


def normal_url(url: str) -> str:
    """The URL or path of a folder in the one spelling that is compared: `s3a` is `s3`, `file:/x` is `/x`.

    Raises UsageError: a path that is relative, or climbs.
    """
    scheme, colon, rest = url.partition(":")
    if not colon or "/" in scheme:
        scheme, rest = "file", url
    path = rest.rstrip("/")
    if scheme == "file":
        path = "/" + path.lstrip("/") if path.startswith("/") else path
        if not path.startswith("/"):
            raise UsageError(f"{url!r} is a relative path", fix="give an absolute one")
    if any(part in (".", "..") for part in path.split("/")):
        raise UsageError(f"{url!r} climbs in its own path", fix="give the path without . and ..")
    return path if scheme == "file" else f"{_SAME.get(scheme, scheme)}:{path}"


class Tree:
    """The files below one root URL or local path. The constructor does no I/O."""

    def __init__(self, root: str) -> None:
        self._place = reach(normal_url(root))
        self._fs = self._place.fs
        self._root = self._place.root
        self._objects = Objects(self._place) if self._place.is_s3 else None

    def walk(self, folders: Sequence[str], *, budget: int) -> Iterator[Listed | Rest]:
        """The files below these folders. After `budget` files the remaining folders come as `Rest`, for another
        process to walk. The files directly in a folder are not divided; on S3 none of those below it are."""
        left = budget
        todo = list(reversed(folders))
        while todo:
            folder = todo.pop()
            if left <= 0:
                yield Rest(folder)
                continue
            try:
                for found in self._list(folder):
                    if isinstance(found, Rest):
                        todo.append(found.folder)
                    else:
                        left -= len(found.names)
                        yield found
            except (FileNotFoundError, NotADirectoryError):
                continue
            except self._place.errors as error:
                where = self._full(folder)
                raise StorageError(
                    f"cannot list {where}: {told(error)}", fix="check the storage and its permissions"
                ) from error

    def sizes(self, paths: Sequence[str]) -> list[int]:
        """The bytes of files on a local disk; 0: it is a link, a folder, or gone. Raises StorageError."""
        found: list[int] = []
        for folder, some in groupby([path.rpartition("/") for path in paths], key=itemgetter(0)):
            full = f"{self._root}/{folder}"
            names = [name for _, _, name in some]
            try:
                with opened_folder(full) as number:
                    found += [_size(name, number) for name in names]
            except (FileNotFoundError, NotADirectoryError):
                found += [0] * len(names)
            except OSError as error:
                raise StorageError(f"cannot look at what is in {full}: {told(error)}") from error
        return found

    def _list(self, folder: str) -> Iterator[Listed | Rest]:
        """The files directly in a folder, and its folders; on S3 all files below it."""
        if self._place.is_local:
            return self._list_local(folder)
        if self._objects is not None:
            return self._list_s3(self._objects, folder)
        return self._list_remote(folder)

    def _list_local(self, folder: str) -> Iterator[Listed | Rest]:
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
                yield from _listed(folder, names)
        if empty and folder:
            yield Listed(folder, [""], None)
        folders.sort(reverse=True)
        yield from (Rest(f"{folder}/{name}" if folder else name) for name in _readable(folders))

    def _list_s3(self, objects: Objects, top: str) -> Iterator[Listed]:
        """All that is below a folder, page by page, whatever folders there are."""
        for page in objects.pages(top):
            # The object that stands for a folder directly in the root is no file: that folder stays.
            below = [key for key in page if key[0].find("/") != len(key[0]) - 1]
            for folder, keys in groupby(below, key=lambda key: key[0].rpartition("/")[0]):
                some = list(keys)
                yield Listed(folder, [path.rpartition("/")[2] for path, _ in some], [size for _, size in some])

    def _list_remote(self, folder: str) -> Iterator[Listed | Rest]:
        full = self._full(folder)
        names: list[str] = []
        sizes: list[int] = []
        empty = True
        for entry in self._fs.ls(full, detail=True):
            empty = False
            name = entry["name"].rstrip("/")
            if name == full:
                continue
            below = name.rsplit("/", 1)[-1]
            if entry["type"] == "directory":
                yield Rest(f"{folder}/{below}" if folder else below)
            else:
                names.append(below)
                sizes.append(int(entry["size"] or 0))
        if names:
            yield Listed(folder, names, sizes)
        elif self._place.is_hdfs and folder and empty:
            yield Listed(folder, [""], [0])

    def _full(self, path: str) -> str:
        if path and any(part in {"", ".", ".."} for part in path.split("/")):
            raise ValueError(f"{path!r} is not a relative path of names")
        return f"{self._root}/{path}" if path else self._root


def _listed(folder: str, names: list[str]) -> Iterator[Listed]:
    found = _readable(names)
    if found:
        yield Listed(folder, found, None)


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """A local folder, which is no link, for calls with `dir_fd`: a long path is looked up once for all that is in it.
    Raises OSError."""
    number = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY))
    try:
        yield number
    finally:
        os.close(number)


def _size(name: str, folder: int) -> int:
    try:
        found = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _readable(names: list[str]) -> list[str]:
    """Those that are UTF-8."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return [name for name in names if not any("\ud800" <= one <= "\udfff" for one in name)]
    return names
