"""Removes files of a storage, on a local disk, in S3 or wherever fsspec reaches, and tells of each what became of it.

Promise: only what it is told to; links are removed as what they are, and nothing is removed through one. What a storage
is too busy for is tried again; what it refuses is not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Final, Protocol

from tenure.checkpoints.run_name import RUNS
from tenure.cleanup.orphans import BLOBS, REHEARSALS
from tenure.clock import Clock
from tenure.errors import StorageError
from tenure.retry import exponential_delay, retry
from tenure.storage.folders import Folders
from tenure.storage.location import Place, reach, told
from tenure.storage.s3 import AT_ONCE, Objects, above
from tenure.storage.trees import normal_url, opened_folder

RETRY: Final = exponential_delay(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=20), attempts=6)
"""How often one call is tried against a storage that is busy."""

REMOVED, GONE, FAILED = "removed", "gone", "failed"
CALLS: Final = 8
"""Calls to an object store at a time, of one task."""
_STAYS: Final = {RUNS: 2, REHEARSALS: 1, BLOBS: 1}
"""Folders above this depth stay, as in the leader's sweep: somebody who starts may just need them."""
_STAYS_STAGED: Final = 3
"""The same for what is staged beside a table."""
_S3_BUSY: Final = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted"}
"""S3's answers for one key of many that may be another one a little later."""

_BUSY: Final = {errno.EBUSY, errno.EAGAIN, errno.EIO, errno.ETIMEDOUT, errno.EINTR}


class Remover(Protocol):
    """Removes files below one root, by their paths."""

    def remove(self, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
        """For each, in this order, what became of it, and why it failed. A path that ends with `/` is a folder."""
        ...

    def remove_folders(self, paths: Sequence[str]) -> None:
        """Remove the folders of these files in which nothing is any more."""
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

    def remove_folders(self, paths: Sequence[str]) -> None:
        """The folders of these files in which nothing is any more. That of a query stays, as in the leader's sweep."""
        folders = Folders(self._root)
        for folder in _folders_of(paths):
            if not self._is_real(folder):
                continue
            with suppress(StorageError):  # it is listed again by the next plan
                folders.remove_empty(folder)

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

    def remove_folders(self, paths: Sequence[str]) -> None:
        """What stands for the folders; it is only an empty object, whatever else has its prefix."""
        with suppress(*self._errors):  # it is listed again by the next plan
            self._objects.delete_markers(_folders_of(paths))


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

    def remove_folders(self, paths: Sequence[str]) -> None:
        """Those in which nothing is any more, in HDFS; elsewhere there are none."""
        if not self._place.is_hdfs:
            return
        folders = Folders(self._url)
        for folder in _folders_of(paths):
            with suppress(StorageError):  # it is listed again by the next plan
                folders.remove_empty(folder)

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


def _folders_of(paths: Sequence[str]) -> list[str]:
    """The folders of these files which need not be there without them, the deepest first."""
    found = [one for one in above(paths) if one.count("/") >= _STAYS.get(one.split("/", 1)[0], _STAYS_STAGED)]
    return sorted(found, key=lambda folder: -folder.count("/"))


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
