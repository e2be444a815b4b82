"""Blobs: bytes under an address in a storage, written once, never changed.

Promise: when `write` returns, the bytes are durable and whole under the address; no reader ever sees a part of them.
The hidden file of a writer that died is never listed as a blob. Not promised: anything about pointers, which belong to
the handle store.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenure.errors import CorruptBlob, UsageError
from tenure.storage.names import is_relative, is_unfinished
from tenure.storage.reach import reach
from tenure.storage.storage import Listed


@dataclass(frozen=True, slots=True)
class Blob:
    """Names a blob. `address` is a relative path of names joined by `/`; `sha256` is hex."""

    address: str
    size: int
    sha256: str


class BlobStore(Protocol):
    """The blobs of a handle store. Thread-safe; constructors do no I/O. Each call raises UsageError for an address that
    is not a relative path of names (`names.is_relative`), and does nothing."""

    def write(self, address: str, data: bytes) -> Blob:
        """Write a new blob. Raises BlobExists: nothing was written; StorageError: a part may have been written, which
        nobody reads, as no pointer names it."""
        ...

    def read(self, blob: Blob) -> bytes:
        """The bytes. Raises BlobNotFound, CorruptBlob (size or checksum is not the recorded value), StorageError."""
        ...

    def delete(self, address: str) -> None:
        """Remove the blob, if there is one. Raises StorageError: the blob may still be there."""
        ...


class FileBlobs:
    """Blobs below a root URL (`file:///srv/tenure`, `s3://bucket/tenure`) or local path."""

    def __init__(self, root: str) -> None:
        self._storage = reach(root)

    def write(self, address: str, data: bytes) -> Blob:
        self._storage.write(_checked(address), data)
        return Blob(address, len(data), hashlib.sha256(data).hexdigest())

    def read(self, blob: Blob) -> bytes:
        data = self._storage.read(_checked(blob.address))
        if len(data) != blob.size or hashlib.sha256(data).hexdigest() != blob.sha256:
            path = self._storage.where(blob.address)
            raise CorruptBlob(f"blob {path} has {len(data)} bytes or a checksum that its pointer does not name")
        return data

    def delete(self, address: str) -> None:
        self._storage.delete(_checked(address))

    def list(self, prefix: str = "") -> Sequence[str]:
        """The addresses below `prefix`, in order, without hidden files of unfinished writes. Raises StorageError."""
        folder = _checked(prefix) if prefix else ""
        listed = [some for some in self._storage.walk([folder], budget=sys.maxsize) if isinstance(some, Listed)]
        named = [(name, path) for some in listed for name, path in zip(some.names, some.paths, strict=True)]
        return sorted(path for name, path in named if name and not is_unfinished(name))


def _checked(address: str) -> str:
    if not is_relative(address) or any(map(is_unfinished, address.split("/"))):
        raise UsageError(f"blob address {address!r} is not a relative path of names")
    return address
