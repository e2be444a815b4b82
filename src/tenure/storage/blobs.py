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

from tenure.errors import BlobExists, BlobNotFound, CorruptBlob, StorageError, UsageError
from tenure.storage.blob_store import Blob, is_address
from tenure.storage.location import number_of, reach, told
from tenure.storage.s3 import Objects

_PART = ".part-"
_WRITE = "tenure-write"


class FileBlobs:
    """Blobs below a root URL (`file:///srv/tenure`, `s3://bucket/tenure`) or local path."""

    def __init__(self, root: str, *, storage_options: dict[str, Any] | None = None) -> None:
        self._place = reach(root, options=storage_options)
        self._fs = self._place.fs
        self._root = self._place.root
        self._local = self._place.is_local

    def write(self, address: str, data: bytes) -> Blob:
        path = self._path(address)
        with self._storage_errors("write", path):
            self._write(path, data)
        return Blob(address, len(data), hashlib.sha256(data).hexdigest())

    def read(self, blob: Blob) -> bytes:
        data = self.load(blob.address)
        if len(data) != blob.size or hashlib.sha256(data).hexdigest() != blob.sha256:
            path = self._path(blob.address)
            raise CorruptBlob(f"blob {path} has {len(data)} bytes or a checksum that its pointer does not name")
        return data

    def load(self, address: str) -> bytes:
        """The bytes of a blob to which there is no pointer. Raises BlobNotFound, StorageError."""
        path = self._path(address)
        try:
            with self._storage_errors("read", path):
                data: bytes = self._fs.cat_file(path)
        except FileNotFoundError:
            raise BlobNotFound(f"blob {path} is not there") from None
        return data

    def delete(self, address: str) -> None:
        path = self._path(address)
        with contextlib.suppress(FileNotFoundError), self._storage_errors("delete", path):
            self._fs.rm_file(path)

    def list(self, prefix: str = "") -> Iterable[str]:
        base = self._path(prefix) if prefix else self._root
        try:
            with self._storage_errors("list", base):
                found = self._find(prefix, base)
        except FileNotFoundError:
            return []
        return sorted(name for name in found if _PART not in name and not name.endswith("/"))

    def check_writable(self) -> None:
        """Write and delete one small blob. Raises StorageError, which says why nothing can be written there."""
        address = f".probe-{os.urandom(8).hex()}"
        with self._storage_errors("write", self._root):
            self._write(self._path(address), b"tenure")
        self.delete(address)

    def _path(self, address: str) -> str:
        if not is_address(address) or _PART in address:
            raise UsageError(f"blob address {address!r} is not a relative path of names")
        return f"{self._root}/{address}"

    def _find(self, prefix: str, base: str) -> Iterable[str]:
        if self._place.is_s3:
            return [name for page in Objects(self._place).pages(prefix) for name, _ in page]
        return [path.removeprefix(self._root).lstrip("/") for path in self._fs.find(base)]

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
        # s3, gs and abfs: refused by the server when it exists.
        if self._place.is_hdfs:
            self._write_hdfs(path, data)
            return
        if not self._place.is_s3:
            self._fs.pipe_file(path, data, mode="create")
            return
        # A put whose answer was lost is sent again by the client, and refused then: the blob says whose it is.
        write = os.urandom(16).hex()
        try:
            self._fs.pipe_file(path, data, mode="create", Metadata={_WRITE: write})
        except self._place.errors as error:
            if not _is_refused(error):
                raise
            if self._fs.metadata(path, refresh=True).get(_WRITE) != write:
                raise FileExistsError(errno.EEXIST, "it exists", path) from error

    def _write_hdfs(self, path: str, data: bytes) -> None:
        self._fs.put_whole(f"{path}{_PART}{os.urandom(8).hex()}", path, data, overwrite=False)

    @contextlib.contextmanager
    def _storage_errors(self, verb: str, path: str) -> Iterator[None]:
        """Turn the errors of the file system into ours; a file that is missing where one is read stays what it is."""
        try:
            yield
        except FileNotFoundError as error:
            if verb != "write":
                raise
            raise StorageError(f"cannot write {path}: {told(error)}", fix="make that folder or bucket") from error
        except FileExistsError:
            raise BlobExists(f"blob {path} exists already") from None
        except self._place.errors as error:
            raise StorageError(f"cannot {verb} {path}: {told(error)}", fix=_FIX.get(number_of(error))) from error


def _is_refused(error: Exception) -> bool:
    """Whether S3 refused to write over an object."""
    answer = getattr(error.__cause__, "response", {})
    return isinstance(error, FileExistsError) or answer.get("Error", {}).get("Code") == "PreconditionFailed"


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


_FIX: dict[int | None, str] = {
    errno.ENOSPC: "free space on that disk",
    errno.EDQUOT: "raise the quota",
    errno.EROFS: "mount it writable",
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
}
