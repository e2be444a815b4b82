"""Removes many files of a local disk.

Promise: a symbolic link is removed as a link, and nothing is removed through one. A call that fails because the disk is
busy is tried again; a refusal is final.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from tenure.clock import Clock
from tenure.retry import retry
from tenure.storage.disk import opened_folder
from tenure.storage.storage import FAILED, GONE, REMOVED, RETRY, Outcome, reason

_BUSY: Final = {errno.EBUSY, errno.EAGAIN, errno.EIO, errno.ETIMEDOUT, errno.EINTR}


class Removal:
    """One removal below a root. It remembers which folders are no links, so it must be short."""

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)  # the root may be a link
        self._real: dict[str, bool] = {}

    def real(self, folders: Collection[str]) -> list[str]:
        """Those of these folders to which no link leads."""
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
    except OSError:
        return _insist(name, folder, clock)
    return REMOVED, ""


def _insist(name: str, folder: int, clock: Clock) -> Outcome:
    try:
        return retry(partial(_unlink, name, folder), policy=RETRY, on=OSError, clock=clock)
    except OSError as error:
        return FAILED, reason(error)


def _unlink(name: str, folder: int) -> Outcome:
    """Raises OSError: the disk is busy, and may answer otherwise later."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return GONE, ""
    except OSError as error:
        if error.errno in _BUSY:
            raise
        return FAILED, reason(error)
    return REMOVED, ""
