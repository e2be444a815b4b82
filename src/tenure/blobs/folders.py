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
from typing import Any, Final

import fsspec
from fsspec.implementations.local import LocalFileSystem

from tenure.errors import StorageError, UsageError

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
        try:
            fs, found = fsspec.core.url_to_fs(root)
        except (ValueError, ImportError) as error:
            raise UsageError(f"storage {root!r} cannot be used: {error}", fix="use file:///path or s3://...") from error
        self._fs: Any = fs
        self._root: str = found.rstrip("/")
        self._local = isinstance(self._fs, LocalFileSystem)

    def entries(self, path: str = "") -> Sequence[Entry]:
        """What lies directly in a folder, by name; nothing when there is no such folder."""
        full = self._path(path)
        try:
            found = _list_local(full, linked=not path) if self._local else self._list_remote(full)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise _failed("list", full, error) from error
        return sorted(found, key=lambda entry: entry.name)

    def remove(self, path: str) -> None:
        """Remove a file, a link, or a folder with all that is in it."""
        full = self._path(path)
        try:
            if not self._local:
                self._remove_remote(full)
            elif os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)
        except FileNotFoundError:
            if os.path.lexists(full) and self._local:  # somebody else removes in there as well
                raise StorageError(f"cannot remove {full}: it changes meanwhile") from None
        except OSError as error:
            raise _failed("remove", full, error) from error

    def _remove_remote(self, full: str) -> None:
        self._fs.rm(full, recursive=True)
        self._fs.invalidate_cache()
        left = self._fs.find(full)  # s3fs is silent about keys that it was not allowed to delete
        if left:
            raise StorageError(f"cannot remove {full}: {len(left)} objects in it stay", fix="check the permissions")

    def is_empty(self, path: str = "") -> bool:
        """Whether there is such a folder, with nothing in it. An object store has none."""
        full = self._path(path)
        try:
            return self._local and os.path.isdir(full) and not os.listdir(full)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _failed("list", full, error) from error

    def remove_empty(self, path: str = "") -> None:
        """Remove a folder that has nothing in it in that instant; any other stays."""
        full = self._path(path)
        if not self._local:
            return
        try:
            os.rmdir(full)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in _NOT_EMPTY:
                raise _failed("remove", full, error) from error

    def _list_remote(self, full: str) -> list[Entry]:
        self._fs.invalidate_cache(full)
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


def _failed(verb: str, full: str, error: OSError) -> StorageError:
    return StorageError(f"cannot {verb} {full}: {error.strerror or error}", fix="check the storage and its permissions")
