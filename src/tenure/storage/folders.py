"""The folders below one root of the storage, for whoever removes them: on a local disk, or on anything that fsspec
reaches.

Promise: symbolic links are never followed: a link is removed as what it is, and nothing is listed through one. A path
with `..` in it is refused. What is gone is fine; whatever else fails is StorageError. Not promised: that a removal
which failed has left everything there; it can be repeated.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.errors import StorageError
from tenure.storage.location import reach, told
from tenure.storage.s3 import Objects

_NOT_EMPTY: Final = {errno.ENOTEMPTY, errno.EEXIST}


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies in a folder. `folder`: something may lie in it; a link is no folder."""

    name: str
    folder: bool


class Folders:
    """Paths relative to a root URL or local path, joined by `/`; the empty one is the root. The constructor does no
    I/O."""

    def __init__(self, root: str) -> None:
        self._place = reach(root)
        self._fs = self._place.fs
        self._root = self._place.root
        self._local = self._place.is_local
        self._objects = Objects(self._place) if self._place.is_s3 else None

    def entries(self, path: str = "") -> Sequence[Entry]:
        """What lies directly in a folder, by name; nothing when there is no such folder."""
        full = self._path(path)
        try:
            found = _list_local(full, linked=not path) if self._local else self._list_remote(full)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except self._place.errors as error:
            raise _failed("list", full, error) from error
        return sorted(found, key=lambda entry: entry.name)

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a folder with all that is in it."""
        full = self._path(path)
        try:
            if self._objects is not None:
                self._remove_objects(self._objects, path, full)
            elif not self._local:
                self._remove_remote(full)
            elif os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)
        except FileNotFoundError:
            if os.path.lexists(full) and self._local:  # somebody else removes in there as well
                raise StorageError(f"cannot remove {full}: it changes meanwhile") from None
        except self._place.errors as error:
            raise _failed("remove", full, error) from error

    def _remove_objects(self, objects: Objects, path: str, full: str) -> None:
        failed = {**objects.delete_below(path), **(objects.delete([path]) if path else {})}
        if failed:
            name, (code, why) = next(iter(failed.items()))
            raise StorageError(
                f"cannot remove {full}: {len(failed)} objects in it stay; {name}: {code or 'refused'} {why}".rstrip(),
                fix="check the storage and its permissions",
            )

    def _remove_remote(self, full: str) -> None:
        self._fs.rm(full, recursive=True)
        left = self._fs.find(full)  # clients can be silent about what they were not allowed to delete
        if left:
            raise StorageError(f"cannot remove {full}: {len(left)} objects in it stay", fix="check the permissions")

    def is_empty(self, path: str = "") -> bool:
        """Whether there is such a folder, with nothing in it, on a local disk or in HDFS; an object store has none."""
        full = self._path(path)
        try:
            if self._place.is_hdfs:
                return not self._fs.ls(full)
            return self._local and os.path.isdir(full) and not os.listdir(full)
        except FileNotFoundError:
            return False
        except self._place.errors as error:
            raise _failed("list", full, error) from error

    def remove_empty(self, path: str = "") -> None:
        """Remove a folder that has nothing in it in that instant; any other stays. In S3: what stands for one."""
        full = self._path(path)
        try:
            if self._local:
                os.rmdir(full)
            elif self._place.is_hdfs:
                self._remove_empty_hdfs(full)
            elif self._objects is not None and path and self._objects.is_bare(path):
                self._objects.delete_markers([path])
        except (FileNotFoundError, NotADirectoryError):
            return
        except self._place.errors as error:
            if not isinstance(error, OSError) or error.errno not in _NOT_EMPTY:
                raise _failed("remove", full, error) from error

    def _remove_empty_hdfs(self, full: str) -> None:
        if self._fs.ls(full):
            return
        try:
            self._fs.rmdir(full)
        except RuntimeError:
            if not self._fs.ls(full):
                raise
            # somebody has put something there meanwhile, and HDFS has refused

    def _list_remote(self, full: str) -> list[Entry]:
        found = {entry["name"].rstrip("/"): entry["type"] == "directory" for entry in self._fs.ls(full, detail=True)}
        found.pop(full, None)  # object stores list a file, or the marker of a folder, as its own entry
        return [Entry(name.rsplit("/", 1)[-1], folder) for name, folder in found.items()]

    def _path(self, path: str) -> str:
        if path and any(part in {"", ".", ".."} for part in path.split("/")):
            raise ValueError(f"{path!r} is not a relative path of names")
        return f"{self._root}/{path}" if path else self._root


def _list_local(full: str, *, linked: bool) -> list[Entry]:
    if os.path.islink(full) and not linked:  # the root is where the user says it is
        raise OSError("it is a symbolic link, which is not followed")
    with os.scandir(full) as entries:
        return [Entry(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _failed(verb: str, full: str, error: Exception) -> StorageError:
    return StorageError(f"cannot {verb} {full}: {told(error)}", fix="check the storage and its permissions")
