"""All files below some folders, in pieces that many processes can share: on a local disk, or on what fsspec reaches.

Promise: symbolic links are listed as files and never followed, and a path with `..` in it is refused. Memory does not
grow with the number of files on a local disk and on S3; elsewhere it does with the files of one folder. Folders go in
the order of their names within one piece. What is gone meanwhile is passed over; whatever else fails is StorageError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from tenure.errors import StorageError, UsageError

_SAME: Final = {"s3a": "s3", "s3n": "s3"}
"""Schemes that mean the same place."""


@dataclass(frozen=True, slots=True)
class File:
    """A file, by its path below the root. On a local disk a folder with nothing in it is one whose path ends with
    `/`, and a link has the size 0."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Rest:
    """A folder that the budget did not reach; `after`: all names up to this one were listed, empty: none."""

    folder: str
    after: str = ""


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
        try:
            fs, found = fsspec.core.url_to_fs(normal_url(root))
        except (ValueError, ImportError) as error:
            raise UsageError(f"storage {root!r} cannot be used: {error}", fix="use file:///path or s3://...") from error
        self._fs: Any = fs
        self._root: str = found.rstrip("/")
        self.is_local = isinstance(fs, LocalFileSystem)
        self._is_s3 = "s3" in ((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)

    def walk(self, pieces: Sequence[Rest], *, budget: int) -> Iterator[File | Rest]:
        """The files below these folders. After `budget` files what is left comes as folders, each of which is a piece
        for somebody else. A folder that has no folders in it is not divided on a local disk."""
        left = budget
        todo = list(reversed(pieces))
        while todo:
            piece = todo.pop()
            if left <= 0:
                yield piece
                continue
            try:
                for found in self._list(piece, left):
                    if isinstance(found, Rest):
                        todo.append(found)
                    else:
                        left -= 1
                        yield found
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise StorageError(
                    f"cannot list {self._full(piece.folder)}: {error}", fix="check the storage and its permissions"
                ) from error

    def _list(self, piece: Rest, most: int) -> Iterator[File | Rest]:
        """What is directly in a folder."""
        if self.is_local:
            return self._list_local(piece.folder)
        if self._is_s3:
            return self._list_s3(piece, most)
        return self._list_remote(piece.folder)

    def _list_local(self, folder: str) -> Iterator[File | Rest]:
        full = self._full(folder)
        if folder and os.path.islink(full):
            return
        folders = []
        empty = True
        with os.scandir(full) as entries:
            for entry in entries:
                empty = False
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    yield File(path, 0 if entry.is_symlink() else _size(entry))
        if empty and folder:
            yield File(f"{folder}/", 0)
        yield from (Rest(path) for path in sorted(folders, reverse=True))

    def _list_s3(self, piece: Rest, most: int) -> Iterator[File | Rest]:
        """A page of a thousand keys a call, whatever the folders are; `most` of them, and then the rest as it is."""
        bucket, _, prefix = self._full(piece.folder).partition("/")
        asked = {"Bucket": bucket, "Prefix": f"{prefix}/"}
        after = f"{prefix}/{piece.after}" if piece.after else ""
        left = most
        while left > 0:
            page = self._fs.call_s3("list_objects_v2", **asked, **({"StartAfter": after} if after else {}))
            for entry in page.get("Contents", ()):
                below = entry["Key"].removeprefix(f"{prefix}/")
                after = entry["Key"]
                left -= 1
                if below:
                    path = f"{piece.folder}/{below}" if piece.folder else below
                    yield File(path, 0 if below.endswith("/") else int(entry["Size"]))
            if not page.get("IsTruncated"):
                return
        yield Rest(piece.folder, after.removeprefix(f"{prefix}/"))

    def _list_remote(self, folder: str) -> Iterator[File | Rest]:
        full = self._full(folder)
        self._fs.invalidate_cache(full)
        for entry in self._fs.ls(full, detail=True):
            name = entry["name"].rstrip("/")
            if name == full:
                continue
            below = name.rsplit("/", 1)[-1]
            path = f"{folder}/{below}" if folder else below
            yield Rest(path) if entry["type"] == "directory" else File(path, int(entry["size"] or 0))

    def _full(self, path: str) -> str:
        if path and any(part in {"", ".", ".."} for part in path.split("/")):
            raise ValueError(f"{path!r} is not a relative path of names")
        return f"{self._root}/{path}" if path else self._root


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:  # removed meanwhile
        return 0
