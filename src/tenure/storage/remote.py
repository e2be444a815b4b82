"""Files that fsspec reaches elsewhere than on a local disk: the base of S3 and HDFS, and by itself any object store.

Promise: `write` is one exclusive create of the whole object, as atomic as the put of that object store. An object store
has no folders by themselves, so no empty folder exists. No listing comes from a client's cache, which would hide the
later writes of other processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Final, cast

import fsspec

from tenure.clock import Clock
from tenure.errors import StorageError, UsageError
from tenure.storage.storage import REMOVED, Entry, Listed, Outcome, Rest, Storage, remove_at_last

_CACHED: Final = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "memory"}
"""Schemes whose clients cache listings. Others may not know the option."""


class Remote(Storage):
    """Below a URL. `fs`: the client."""

    keeps_folders = False
    fix = "install the package that it names"
    """How to get a client that is not installed."""

    def __init__(self, url: str, *, what: str = "storage") -> None:
        """`what`: the name of the URL in errors. Raises UsageError: no client knows the scheme, or the client is not
        installed."""
        self.fs, root, errors = self._client(url, what)
        super().__init__(url, root, errors=errors)

    def _client(self, url: str, what: str) -> tuple[Any, str, tuple[type[Exception], ...]]:
        """The client, the root as a path for the client, and the client's errors."""
        try:
            if "://" not in url:
                raise ValueError("it lacks //")
            fs, root = fsspec.core.url_to_fs(url, **self._arguments(url))
        except ImportError as error:
            raise UsageError(f"{what} {url!r} cannot be used: {error}", fix=self.fix) from error
        except ValueError as error:
            raise UsageError(f"{what} {url!r} cannot be used: {error}", fix="use file:///path or s3://...") from error
        return fs, root, (OSError,)

    def _arguments(self, url: str) -> Mapping[str, Any]:
        """The arguments of the client."""
        return {"use_listings_cache": False} if url.partition("://")[0] in _CACHED else {}

    def spark_url(self, *, like: str) -> str:
        scheme, _, rest = self.url.partition("://")
        known, colon, _ = like.partition(":/")
        return f"{known if colon and known != 'file' else scheme}://{rest}"

    # --- files ------------------------------------------------------------------------------------------------------

    def open(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self.fs.open(self._full(path), "rb"))

    def _read(self, full: str) -> bytes:
        return cast(bytes, self.fs.cat_file(full))

    def _create(self, full: str, data: bytes) -> None:
        self.fs.pipe_file(full, data, mode="create")

    def _replace(self, full: str, data: bytes) -> None:
        self.fs.pipe_file(full, data)

    def _add(self, full: str, data: bytes) -> None:
        self.fs.pipe_file(full, data)

    def _take(self, source: Storage, path: str) -> int:
        target = self._full(path)
        if isinstance(source, Remote) and source.fs is self.fs:
            self.fs.cp_file(source._full(path), target)
        else:
            with source.open(path) as reader, self.fs.open(target, "wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)
        return int(self.fs.info(target)["size"])

    def _unlink(self, full: str) -> None:
        self.fs.rm_file(full)

    # --- folders ----------------------------------------------------------------------------------------------------

    def _entries(self, path: str, *, sizes: bool) -> Iterable[Entry]:
        full = self._full(path)
        found = {entry["name"].rstrip("/"): entry for entry in self.fs.ls(full, detail=True)}
        found.pop(full, None)  # object stores list a file, or the marker of a folder, as its own entry
        return [_entry(name, entry, sizes=sizes) for name, entry in found.items()]

    def _is_empty(self, full: str) -> bool:
        return False

    def _remove(self, path: str) -> None:
        full = self._full(path)
        self.fs.rm(full, recursive=True)
        remaining = self.fs.find(full)  # clients can be silent about objects that they were not allowed to delete
        if remaining:
            raise StorageError(
                f"cannot remove {self.where(path)}: {len(remaining)} objects in it stay", fix="check the permissions"
            )

    def _remove_empty(self, path: str) -> None:
        return

    # --- many files -------------------------------------------------------------------------------------------------

    def _list(self, folder: str) -> Iterator[Listed | Rest]:
        full = self._full(folder)
        names: list[str] = []
        sizes: list[int] = []
        empty = True
        for entry in self.fs.ls(full, detail=True):
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
        elif empty and folder:
            yield from self._list_empty(folder)

    def _list_empty(self, folder: str) -> Iterator[Listed]:
        """The entries of a walk for an empty folder."""
        return iter(())

    def remove_files(self, paths: Sequence[str], *, clock: Clock) -> Iterator[Outcome]:
        for path in paths:
            if path.endswith("/"):
                yield REMOVED, ""
            else:
                unlink = partial(self._unlink, self._full(path))
                yield remove_at_last(unlink, errors=self.errors, is_refusal=self._is_refusal, clock=clock)

    def _is_refusal(self, error: Exception) -> bool:
        """Whether the storage answers the same however often it is asked."""
        return False


def _entry(name: str, entry: dict[str, Any], *, sizes: bool) -> Entry:
    folder = entry["type"] == "directory"
    return Entry(name.rsplit("/", 1)[-1], folder, int(entry["size"] or 0) if sizes else None)
