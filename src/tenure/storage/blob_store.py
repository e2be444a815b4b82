"""The contract of a blob store: bytes under an address, written once, never changed.

Promise: when `write` returns, the bytes are durable and whole under the address; no reader ever sees a part of
them. Not promised: anything about pointers; those are the handle store's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Blob:
    """Names a blob. `address` is a relative path of names joined by `/`; `sha256` is hex."""

    address: str
    size: int
    sha256: str


class BlobStore(Protocol):
    """A blob store. Thread-safe; constructors do no I/O. Each call raises UsageError for an address that is none
    (`names.is_relative`), and does nothing."""

    def write(self, address: str, data: bytes) -> Blob:
        """Write a new blob. Raises BlobExists: nothing was written; StorageError: nothing reads what may have been
        written, as no pointer names it."""
        ...

    def read(self, blob: Blob) -> bytes:
        """The bytes. Raises BlobNotFound, CorruptBlob (size or checksum is not the recorded one), StorageError."""
        ...

    def delete(self, address: str) -> None:
        """Remove the blob; nothing when there is none. Raises StorageError: it may still be there."""
        ...
