"""System calls on a local disk: durable folders, and the removal of many files.

Promise: a symbolic link is removed as a link, and nothing is removed through it. A call that fails because the disk is
busy is tried again; a refusal is final.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

from tenure.clock import Clock
from tenure.storage.storage import FAILED, GONE, REMOVED, Outcome, reason, remove_at_last

_BUSY: Final = {errno.EBUSY, errno.EAGAIN, errno.EIO, errno.ETIMEDOUT, errno.EINTR}


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """What this user may still write to a file system. `files`, `of_files`: None where it does not limit them."""

    bytes: int
    of_bytes: int
    files: int | None
    of_files: int | None


def free_space(path: str) -> FreeSpace:
    """Of the file system of a path, or of the nearest folder above it that exists. Raises OSError."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    found = os.statvfs(path)
    limited = found.f_files > 0
    return FreeSpace(
        bytes=found.f_bavail * found.f_frsize,
        of_bytes=found.f_blocks * found.f_frsize,
        files=found.f_favail if limited else None,
        of_files=found.f_files if limited else None,
    )


def make_folders(folder: str) -> None:
    """Make a folder and the folders above it; their names are durable on return."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folders(parent)
    with suppress(FileExistsError):
        os.mkdir(folder)
    sync_path(parent)


def sync_path(path: str) -> None:
    """Return when a file's content, or the names in a folder, are durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """Open a folder for calls with `dir_fd`: its path is looked up once for all files in it. Raises OSError, also for
    a symbolic link."""
    descriptor = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Removal:
    """One removal below a root. It remembers which folders are no symbolic links, so it must be short."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)  # the root may be a link
        self._real: dict[str, bool] = {}

    def real(self, folders: Collection[str]) -> list[str]:
        """The folders that are reached without a symbolic link."""
        return [folder for folder in folders if self._is_real(folder)]

    def remove(self, paths: Sequence[str], *, clock: Clock) -> Iterator[Outcome]:
        """Remove files; yield the outcome of each, in this order. A path that ends with `/` is a folder: it stays."""
        for folder, some in groupby(paths, key=lambda path: path.rpartition("/")[0]):
            yield from self._remove_in(folder, [path.rpartition("/")[2] for path in some], clock)

    def _remove_in(self, folder: str, names: Sequence[str], clock: Clock) -> Sequence[Outcome]:
        """Remove files that are directly in a folder, which is looked up once."""
        if not self._is_real(folder):
            return [(FAILED, "a symbolic link is on the way to it")] * len(names)
        try:
            with opened_folder(f"{self._root}/{folder}") as number:
                return [_remove(name, number, clock) if name else (REMOVED, "") for name in names]
        except FileNotFoundError:
            return [(GONE, "")] * len(names)
        except OSError as error:
            return [(FAILED, reason(error))] * len(names)

    def _is_real(self, folder: str) -> bool:
        if not folder:
            return True
        if folder not in self._real:
            full = f"{self._root}/{folder}"
            self._real[folder] = not os.path.islink(full) and self._is_real(folder.rpartition("/")[0])
        return self._real[folder]


def _remove(name: str, folder: int, clock: Clock) -> Outcome:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return GONE, ""
    except OSError:  # only the rare failure pays for the calls of a retry
        unlink = partial(os.unlink, name, dir_fd=folder)
        return remove_at_last(unlink, errors=(OSError,), is_refusal=_is_refusal, clock=clock)
    return REMOVED, ""


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno not in _BUSY
