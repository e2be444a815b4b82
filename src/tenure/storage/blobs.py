"""Blobs in a storage.

Promise: that of `BlobStore`. A hidden file of a writer that died is never listed as a blob.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable

from tenure.errors import CorruptBlob, UsageError
from tenure.storage.blob_store import Blob
from tenure.storage.listed import Listed
from tenure.storage.names import is_relative, is_unfinished
from tenure.storage.reach import reach


class FileBlobs:
    """Blobs below a root URL (`file:///srv/tenure`, `s3://bucket/tenure`) or local path."""

    def __init__(self, root: str) -> None:
        self._storage = reach(root)

    def write(self, address: str, data: bytes) -> Blob:
        self._storage.write(_checked(address), data)
        return Blob(address, len(data), hashlib.sha256(data).hexdigest())

    def read(self, blob: Blob) -> bytes:
        data = self.load(blob.address)
        if len(data) != blob.size or hashlib.sha256(data).hexdigest() != blob.sha256:
            path = self._storage.where(blob.address)
            raise CorruptBlob(f"blob {path} has {len(data)} bytes or a checksum that its pointer does not name")
        return data

    def load(self, address: str) -> bytes:
        """The bytes of a blob to which there is no pointer. Raises BlobNotFound, StorageError."""
        return self._storage.read(_checked(address))

    def delete(self, address: str) -> None:
        self._storage.delete(_checked(address))

    def list(self, prefix: str = "") -> Iterable[str]:
        """The addresses below `prefix`, without those of writes that did not end. Raises StorageError."""
        folder = _checked(prefix) if prefix else ""
        found = [one for one in self._storage.walk([folder], budget=sys.maxsize) if isinstance(one, Listed)]
        return sorted(path for one in found for path, name in zip(one.paths, one.names, strict=True) if _is_blob(name))

    def check_writable(self) -> None:
        """Write and delete one small blob. Raises StorageError, which says why nothing can be written there."""
        self._storage.check_writable()


def _checked(address: str) -> str:
    if not is_relative(address) or any(map(is_unfinished, address.split("/"))):
        raise UsageError(f"blob address {address!r} is not a relative path of names")
    return address


def _is_blob(name: str) -> bool:
    return name != "" and not is_unfinished(name)
