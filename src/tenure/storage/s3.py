"""Files in S3, or on a server that speaks its protocol, by s3fs.

Promise: each object names the write that made it. So a writer recognises its own object when the client has sent the
put again after a lost answer. `errors` are all errors of the client for a server that cannot be reached, breaks off or
refuses. The marker of a folder goes when nothing else has its prefix.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, cast

import fsspec.config

from tenure.clock import Clock
from tenure.errors import StorageError
from tenure.retry import retry
from tenure.s3_settings import S3Settings
from tenure.storage.objects import AT_ONCE, Objects
from tenure.storage.remote import Remote
from tenure.storage.storage import FAILED, REMOVED, RETRY, Entry, Listed, Outcome, Storage, reason
from tenure.wording import how_to_install

CALLS: Final = 8
"""Parallel calls of one removal."""

_WRITE: Final = "tenure-write"
_BUSY: Final = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted"}
"""The answers for a key that can differ in a later call."""


class S3(Remote):
    """Below `s3://bucket/prefix`."""

    fix = how_to_install("s3")
    puts_whole = True

    def __init__(self, url: str, *, what: str = "storage") -> None:
        super().__init__(url, what=what)
        self.objects = Objects(self.fs, self.root)

    def _client(self, url: str, what: str) -> tuple[Any, str, tuple[type[Exception], ...]]:
        fs, root, errors = super()._client(url, what)
        # s3fs makes an OSError of each answer of the server, but not of the errors that prevent an answer.
        from botocore.exceptions import BotoCoreError
        from s3fs.core import S3_RETRYABLE_ERRORS

        return fs, root, (*errors, BotoCoreError, *S3_RETRYABLE_ERRORS)

    def _arguments(self, url: str) -> Mapping[str, Any]:
        given = {**fsspec.config.conf.get("s3", {}), **fsspec.config.conf.get("s3a", {})}  # in fsspec's own order
        return {**super()._arguments(url), **S3Settings.read().for_client(given)}

    def _create(self, full: str, data: bytes) -> None:
        write = os.urandom(16).hex()
        try:
            self.fs.pipe_file(full, data, mode="create", Metadata={_WRITE: write})
        except self.errors as error:
            if not _is_refused(error):
                raise
            if self.fs.metadata(full, refresh=True).get(_WRITE) != write:
                raise FileExistsError(errno.EEXIST, "it exists", full) from error

    def _read(self, full: str) -> bytes:
        return cast(bytes, self.fs.cat_file(full, max_concurrency=1))  # else s3fs asks for the size first

    def _take(self, source: Storage, path: str) -> int:
        if not isinstance(source, S3) or source.fs is not self.fs:
            return super()._take(source, path)
        try:
            self.objects.copy(source.objects, path)
        except FileNotFoundError:
            raise
        except self.errors:
            return super()._take(source, path)  # S3 copies no more than 5 GB at once
        return int(self.fs.info(self._full(path))["size"])

    def _entries(self, path: str, *, sizes: bool) -> Iterable[Entry]:
        found = self.objects.directly(path)
        if not found:
            raise FileNotFoundError(errno.ENOENT, "it is not there", path)
        return [Entry(name.rstrip("/"), name.endswith("/"), size if sizes else None) for name, size in found]

    def _remove(self, path: str) -> None:
        failed = {**self.objects.delete_below(path), **(self.objects.delete([path]) if path else {})}
        if failed:
            name, (code, why) = next(iter(failed.items()))
            raise StorageError(
                f"cannot remove {self.where(path)}: {len(failed)} objects in it stay; "
                f"{name}: {code or 'refused'} {why}".rstrip(),
                fix="check the storage and its permissions",
            )

    def _remove_empty(self, path: str) -> None:
        if path and self.objects.is_bare(path):
            self.objects.delete_markers([path])

    # --- many objects -----------------------------------------------------------------------------------------------

    def _list(self, folder: str) -> Iterator[Listed]:
        """All files below a folder, page by page, through the folders in it."""
        for page in self.objects.pages(folder):
            # The marker of a folder directly in the root is no file: that folder stays.
            below = [key for key in page if key[0].find("/") != len(key[0]) - 1]
            for parent, keys in groupby(below, key=lambda key: key[0].rpartition("/")[0]):
                some = list(keys)
                yield Listed(parent, [path.rpartition("/")[2] for path, _ in some], [size for _, size in some])

    def remove_files(self, paths: Sequence[str], *, clock: Clock) -> Iterator[Outcome]:
        with ThreadPoolExecutor(CALLS, thread_name_prefix="tenure-delete") as pool:
            some = (paths[first : first + AT_ONCE] for first in range(0, len(paths), AT_ONCE))
            for outcomes in pool.map(lambda keys: self._remove_some(keys, clock), some):
                yield from outcomes

    def _remove_some(self, paths: Sequence[str], clock: Clock) -> list[Outcome]:
        """Remove at most `AT_ONCE` objects."""
        waiting = list(paths)
        refused: dict[str, str] = {}

        def once() -> None:
            """Raises OSError: some objects are to be tried again."""
            nonlocal waiting
            answer = self.objects.delete(waiting)
            why = {path: f"{code}: {message}" for path, (code, message) in answer.items()}
            waiting = [path for path, (code, _) in answer.items() if code in _BUSY]
            refused.update({path: why[path] for path in why.keys() - set(waiting)})
            if waiting:
                raise OSError(errno.EBUSY, why[waiting[0]])

        try:
            retry(once, policy=RETRY, on=self.errors, clock=clock)
        except self.errors as error:
            refused.update(dict.fromkeys(waiting, reason(error)))
        return [(FAILED, refused[path]) if path in refused else (REMOVED, "") for path in paths]

    def remove_folders(self, folders: Collection[str]) -> None:
        """Remove the markers of the folders; other objects below a folder stay."""
        with suppress(*self.errors):  # the next listing shows them again
            self.objects.delete_markers(folders)


def _is_refused(error: Exception) -> bool:
    """Whether S3 refused to write over an object."""
    answer = getattr(error.__cause__, "response", {})
    return isinstance(error, FileExistsError) or answer.get("Error", {}).get("Code") == "PreconditionFailed"
