"""Blobs on anything that fsspec reaches.

Promise on a local disk: temporary file, fsync, hard link to the final name (which fails when it exists, so a
blob is written once), fsync of the directories. Elsewhere: one exclusive create of the whole object, as atomic as the
object store's put. A temporary file of a crashed writer is never listed as a blob.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from tenure.blobs.store import Blob
from tenure.errors import BlobExists, BlobNotFound, CorruptBlob, StorageError, UsageError

_PART = ".part-"


class FileBlobs:
    """Blobs below a root URL (`file:///srv/tenure`, `s3://bucket/tenure`) or local path."""

    def __init__(self, root: str, *, storage_options: dict[str, Any] | None = None) -> None:
        try:
            self._fs, self._root = fsspec.core.url_to_fs(root, **(storage_options or {}))
        except (ValueError, ImportError) as error:
            raise UsageError(f"storage {root!r} cannot be used: {error}", fix="use file:///path or s3://...") from error
        self._local = isinstance(self._fs, LocalFileSystem)

    def write(self, address: str, data: bytes) -> Blob:
        path = self._path(address)
        with _storage_errors("write", path):
            self._write(path, data)
        return Blob(address, len(data), hashlib.sha256(data).hexdigest())

    def read(self, blob: Blob) -> bytes:
        path = self._path(blob.address)
        try:
            with _storage_errors("read", path):
                data: bytes = self._fs.cat_file(path)
        except FileNotFoundError:
            raise BlobNotFound(f"blob {path} is not there") from None
        if len(data) != blob.size or hashlib.sha256(data).hexdigest() != blob.sha256:
            raise CorruptBlob(f"blob {path} has {len(data)} bytes or a checksum that its pointer does not name")
        return data

    def delete(self, address: str) -> None:
        path = self._path(address)
        with contextlib.suppress(FileNotFoundError), _storage_errors("delete", path):
            self._fs.rm_file(path)

    def list(self, prefix: str = "") -> Iterable[str]:
        base = self._path(prefix) if prefix else self._root
        try:
            with _storage_errors("list", base):
                found = self._fs.find(base)
        except FileNotFoundError:
            return []
        names = (path.removeprefix(self._root).lstrip("/") for path in found)
        return sorted(name for name in names if _PART not in name)

    def check_writable(self) -> None:
        """Write and delete one small blob. Raises StorageError, which says why nothing can be written there."""
        address = f".probe-{os.urandom(8).hex()}"
        with _storage_errors("write", self._root):
            self._write(self._path(address), b"tenure")
        self.delete(address)

    def _path(self, address: str) -> str:
        if any(part in {"", ".", ".."} or _PART in part for part in address.split("/")):
            raise ValueError(f"blob address {address!r} is not a relative path of names")
        return f"{self._root}/{address}"

    def _write(self, path: str, data: bytes) -> None:
        if self._local:
            self._write_local(path, data)
        else:
            self._write_remote(path, data)

    def _write_local(self, path: str, data: bytes) -> None:
        directory = os.path.dirname(path)
        _make_directories(directory)
        part = f"{path}{_PART}{os.urandom(8).hex()}"
        try:
            with open(part, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)
            _sync_directory(directory)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)

    def _write_remote(self, path: str, data: bytes) -> None:
        self._fs.pipe_file(path, data, mode="create")  # s3, gs and abfs: refused by the server when it exists


def _make_directories(directory: str) -> None:
    """Make the directory and those above it durable."""
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    _make_directories(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory)
    _sync_directory(parent)


def _sync_directory(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _storage_errors(verb: str, path: str) -> Iterator[None]:
    """Turn the errors of the file system into ours; a missing file stays what it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except FileExistsError:
        raise BlobExists(f"blob {path} exists already") from None
    except OSError as error:
        raise StorageError(f"cannot {verb} {path}: {error.strerror or error}", fix=_FIX.get(error.errno)) from error


_FIX: dict[int | None, str] = {
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "raise the quota",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
}
