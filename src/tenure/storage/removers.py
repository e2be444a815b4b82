"""Removes many files of a storage, and returns the outcome of each.

Promise: only the given files and folders are removed. A symbolic link is removed as a link, and nothing is removed
through a link. A call that a busy storage does not answer is tried again; a refusal is final. A folder goes only when
it is empty.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Final, Protocol

from tenure.clock import Clock
from tenure.errors import StorageError
from tenure.retry import exponential_delay, retry
from tenure.storage.folders import Folders
from tenure.storage.location import Place, reach, told
from tenure.storage.s3 import AT_ONCE, Objects
from tenure.storage.trees import normal_url, opened_folder

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=20), attempts=6)
"""How often a call is tried against a storage that is busy."""

REMOVED, GONE, FAILED = "removed", "gone", "failed"
CALLS: Final = 8
"""Calls of one remover to an object store at a time."""
_S3_BUSY: Final = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted"}
"""S3's answers for one key of many that may be another one a little later."""

_BUSY: Final = {errno.EBUSY, errno.EAGAIN, errno.EIO, errno.ETIMEDOUT, errno.EINTR}


class Remover(Protocol):
    """Removes files below a root, by their paths."""

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Remove the files; yield for each path, in this order, its outcome and the reason of a failure. A path that
        ends with `/` is a folder: `remove_folders` removes it."""
        ...

    def remove_folders(self, folders: Collection[str]) -> None:
        """Remove those of these folders that are empty, the deepest first. A folder that cannot be removed stays."""
        ...


class _Local:
    """Files on a local disk."""

    def __init__(self, root: str, *, clock: Clock) -> None:
        self._root = os.path.realpath(root)  # the root is where the user says it is; below it no link is followed
        self._clock = clock
        self._real: dict[str, bool] = {}

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        for folder, some in groupby(paths, key=lambda path: path.rpartition("/")[0]):
            yield from self._remove_in(folder, [path.rpartition("/")[2] for path in some])

    def _remove_in(self, folder: str, names: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Remove files that are directly in a folder, which is looked up once. An empty name is the folder itself,
        which goes with the others, below."""
        if not self._is_real(folder):
            return [(FAILED, "a symbolic link is on the way to it")] * len(names)
        try:
            with opened_folder(f"{self._root}/{folder}") as number:
                return [self._remove(name, number) if name else (REMOVED, "") for name in names]
        except FileNotFoundError:
            return [(GONE, "")] * len(names)
        except OSError as error:
            return [(FAILED, told(error))] * len(names)

    def _remove(self, name: str, folder: int) -> tuple[str, str]:
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return GONE, ""
        except OSError:
            return self._insist(name, folder)
        return REMOVED, ""

    def _insist(self, name: str, folder: int) -> tuple[str, str]:
        try:
            return retry(partial(_unlink, name, folder), policy=RETRY, on=OSError, clock=self._clock)
        except OSError as error:
            return FAILED, told(error)

    def remove_folders(self, folders: Collection[str]) -> None:
        _remove_empty(Folders(self._root), filter(self._is_real, folders))

    def _is_real(self, folder: str) -> bool:
        """Whether no link is on the way to a folder."""
        if not folder:
            return True
        if folder not in self._real:
            full = f"{self._root}/{folder}"
            self._real[folder] = not os.path.islink(full) and self._is_real(folder.rpartition("/")[0])
        return self._real[folder]


class _S3:
    """Objects, a thousand a call, and several calls at a time."""

    def __init__(self, place: Place, *, clock: Clock) -> None:
        self._objects = Objects(place)
        self._errors = place.errors
        self._clock = clock

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        with ThreadPoolExecutor(CALLS, thread_name_prefix="tenure-delete") as pool:
            for done in pool.map(self._remove, (paths[n : n + AT_ONCE] for n in range(0, len(paths), AT_ONCE))):
                yield from done

    def _remove(self, paths: Sequence[str]) -> list[tuple[str, str]]:
        """Remove at most `AT_ONCE`."""
        left = list(paths)
        refused: dict[str, str] = {}

        def once() -> None:
            """Raises OSError: some of them are to be tried again."""
            nonlocal left
            answer = self._objects.delete(left)
            why = {path: f"{code}: {message}" for path, (code, message) in answer.items()}
            left = [path for path, (code, _) in answer.items() if code in _S3_BUSY]
            refused.update({path: why[path] for path in why.keys() - set(left)})
            if left:
                raise OSError(errno.EBUSY, why[left[0]])

        try:
            retry(once, policy=RETRY, on=self._errors, clock=self._clock)
        except self._errors as error:
            refused.update(dict.fromkeys(left, told(error)))
        return [(FAILED, refused[path]) if path in refused else (REMOVED, "") for path in paths]

    def remove_folders(self, folders: Collection[str]) -> None:
        """Remove the empty objects that stand for the folders; other objects below a folder stay."""
        with suppress(*self._errors):  # the next listing shows them again
            self._objects.delete_markers(folders)


class _Remote:
    """Files on what else fsspec reaches."""

    def __init__(self, url: str, *, clock: Clock) -> None:
        self._url = url
        self._place = reach(url)
        self._clock = clock

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        for path in paths:
            if path.endswith("/"):
                yield REMOVED, ""  # a folder: with the others, below
                continue
            remove = partial(self._remove, f"{self._place.root}/{path}")
            try:
                yield retry(remove, policy=RETRY, on=self._place.errors, clock=self._clock)
            except self._place.errors as error:
                yield FAILED, told(error)

    def remove_folders(self, folders: Collection[str]) -> None:
        if self._place.is_hdfs:  # other storages have no empty folders
            _remove_empty(Folders(self._url), folders)

    def _remove(self, full: str) -> tuple[str, str]:
        try:
            self._place.fs.rm_file(full)
        except FileNotFoundError:
            return GONE, ""
        except self._place.errors as error:
            if self._place.is_hdfs and _is_refusal(error):
                return FAILED, told(error)
            raise
        return REMOVED, ""


def _is_refusal(error: Exception) -> bool:
    from tenure.storage.hdfs import is_refusal  # only where its package is installed

    return is_refusal(error)


def _remove_empty(storage: Folders, folders: Iterable[str]) -> None:
    for folder in sorted(folders, key=lambda folder: -folder.count("/")):
        with suppress(StorageError):  # the next listing shows it again
            storage.remove_empty(folder)


def _unlink(name: str, folder: int) -> tuple[str, str]:
    """Raises OSError: the disk is busy, and may answer otherwise a little later."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return GONE, ""
    except OSError as error:
        if error.errno in _BUSY:
            raise
        return FAILED, told(error)
    return REMOVED, ""


def remover(storage: str, *, clock: Clock) -> Remover:
    """For the storage behind a URL."""
    place = reach(normal_url(storage))
    if place.is_local:
        return _Local(place.root, clock=clock)
    if place.is_s3:
        return _S3(place, clock=clock)
    return _Remote(normal_url(storage), clock=clock)
