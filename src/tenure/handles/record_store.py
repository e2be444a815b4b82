"""The small records of users: each is a handle with an inline payload, so a scope without a storage has them, too.

Promise: `put` and `remove` are committed under the term, and their outcome is definite while the term lives. The last
call of the term wins. Thread-safe: one thread at a time writes. After its first `put` in a term, a record costs one
commit and no read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import HandleExists, HandleNotFound, StorageError, UsageError
from tenure.handles.areas import RECORDS, checked_name, checked_payload
from tenure.handles.handle import Handle
from tenure.handles.store import MOST_INLINE, HandleStore
from tenure.storage.blobs import Blob


class RecordStore:
    """The records of users in a scope."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, clock: Clock) -> None:
        self._handles = HandleStore(store, scope, area=RECORDS, blobs=NoBlobs(), clock=clock, inline_limit=MOST_INLINE)
        self._lock = threading.Lock()  # held by the writing thread; guards _known
        self._known: dict[str, Handle] = {}  # the records that this term wrote

    def put(self, term: Term, name: str, value: bytes) -> None:
        """Write the record, or replace its value. Raises UsageError (the name, or a value that is not bytes or too
        long), CommitRefused, StoreUnavailable: nothing was written. TermLost."""
        checked_name(name, of="record")
        if len(checked_payload(value, of=f"record {name!r}")) > MOST_INLINE:
            raise UsageError(
                f"record {name!r} has {len(value)} bytes, and a record has at most {MOST_INLINE}",
                fix="keep the bytes as a handle",
            )
        with self._lock:
            known = self._known.pop(name, None)
            while True:
                handle = known or self._handles.find(name, term)
                try:
                    if handle is None:
                        self._known[name] = self._handles.add(term, name, value)
                    else:
                        self._known[name] = self._handles.replace(term, handle, value)
                    return
                except (HandleExists, HandleNotFound):
                    known = None  # another object of this term wrote it: look

    def remove(self, term: Term, name: str) -> None:
        """Remove the record; nothing when there is none. Raises UsageError (the name), StoreUnavailable: nothing was
        removed. TermLost."""
        with self._lock:
            self._known.pop(name, None)
            self._handles.remove(term, checked_name(name, of="record"))

    def get(self, name: str) -> bytes | None:
        """The value; None: there is no such record. Raises UsageError (the name), CorruptHandle, StoreUnavailable."""
        handle = self._handles.find(checked_name(name, of="record"))
        return None if handle is None else self._handles.payload(handle)

    def get_all(self) -> Mapping[str, bytes]:
        """All values by name. Raises CorruptHandle, StoreUnavailable."""
        return self._handles.get_all()


class NoBlobs:
    """The `BlobStore` where no storage is at hand: each call raises StorageError."""

    def write(self, address: str, data: bytes) -> Blob:
        raise StorageError(f"blob {address} of {len(data)} bytes has no storage")

    def read(self, blob: Blob) -> bytes:
        raise StorageError(f"blob {blob.address} has no storage")

    def delete(self, address: str) -> None:
        raise StorageError(f"blob {address} has no storage")
