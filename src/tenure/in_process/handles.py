"""The areas of handles of a service: what a leader writes under its term, and what a reader locks without one.

Promise: a handle names bytes that exist, with the recorded checksum (I4). A write is committed only while the writer
is the leader, and its outcome is known while the term lives. The bytes of a refused write are removed at once; the
bytes of a writer that died are removed by the sweep of a later leader. A locked handle is not removed (FLINK-6612,
FLINK-11809). Thread-safe: two threads may write an area at once, and take turns at one name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from tenure.coordination.records import SessionId
from tenure.coordination.term import Term
from tenure.errors import HandleNotFound, LockLost, StoreError
from tenure.handles.areas import checked_name, checked_payload
from tenure.handles.handle import Handle
from tenure.handles.store import HandleStore

Handles = Sequence[Handle]
"""As a name of its own: the classes have a method `list`."""

_HANDLE: Final = "handle"


class _Area:
    """The handles of one area, to read."""

    def __init__(self, store: HandleStore, *, ready: Callable[[], None]) -> None:
        """`ready` is called before each call, and raises when this process may not make it."""
        self._store = store
        self._ready = ready

    def get(self, name: str) -> bytes:
        """The payload of a handle, as it stands now. Raises UsageError (the name), HandleNotFound, CorruptHandle,
        CorruptBlob (its bytes are gone or changed), StorageError, StoreUnavailable."""
        self._ready()
        return self._store.get(checked_name(name, of=_HANDLE))

    def get_all(self) -> Mapping[str, bytes]:
        """All payloads by name, in the order of the names, without handles that are removed meanwhile. Several threads
        read a storage that answers slowly. Raises CorruptHandle, CorruptBlob, StorageError, StoreUnavailable."""
        self._ready()
        return self._store.get_all()

    def list(self) -> Handles:
        """All handles, in the order of their names, without their payloads in the storage: `name`, `size` in bytes, and
        the `epoch` that wrote each. Raises CorruptHandle, StoreUnavailable."""
        self._ready()
        return self._store.list()


class WritableHandles(_Area):
    """The handles of one area, written under the term of a leader (after Flink's StateHandleStore)."""

    def __init__(
        self, store: HandleStore, term: Term, *, ready: Callable[[], None], before_write: Callable[[], None]
    ) -> None:
        """`before_write` is called before each write, and raises when the storage belongs to another store now."""
        super().__init__(store, ready=ready)
        self._term = term
        self._before_write = before_write
        self._turns = threading.Condition()  # guards _written
        self._written: set[str] = set()  # the names that a thread writes now

    def add(self, name: str, payload: bytes, *, remove: Sequence[str] = ()) -> Handle:
        """Add a handle, and remove the handles `remove`, in one commit. A payload of more than 4 KiB (the setting
        `inline_limit`) goes to the storage first. Names of `remove` that are not there are passed over.

        Raises UsageError (a name, or a payload that is not bytes), HandleExists, HandleLocked (one of `remove`),
        HandleNotFound (one of `remove` was replaced meanwhile), CorruptHandle (one of `remove`), CommitRefused (too
        many of `remove` for this store), StoreUnavailable, StorageError, OwnerMismatch: nothing was added. TermLost:
        nothing was added, unless `write_is_unknown`.
        """
        checked_payload(payload, of=f"handle {name!r}")
        with self._turn(name, *remove):
            return self._store.add(self._term, name, payload, remove=self._named(remove))

    def replace(self, name: str, payload: bytes) -> Handle:
        """Give a handle a new payload. The former bytes stay while a reader has locked the handle.

        Raises UsageError, HandleNotFound, CorruptHandle, CommitRefused, StoreUnavailable, StorageError, OwnerMismatch:
        nothing was replaced. TermLost: nothing was replaced, unless `write_is_unknown`.
        """
        checked_payload(payload, of=f"handle {name!r}")
        with self._turn(name):
            handle = self._store.find(name, self._term)
            if handle is None:
                raise HandleNotFound(f"handle {name!r} is not there", fix="add it")
            return self._store.replace(self._term, handle, payload)

    def remove(self, name: str) -> None:
        """Remove a handle, then its bytes; nothing when there is no such handle.

        Raises UsageError, HandleLocked (the handle stays), CorruptHandle, StoreUnavailable, OwnerMismatch: nothing was
        removed. TermLost. Bytes that cannot be deleted stay for the sweep of a later leader.
        """
        with self._turn(name):
            self._store.remove(self._term, name)

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove handles in as few commits as the store permits, then their bytes. Names that are not there are passed
        over.

        Raises like `remove`: HandleLocked or HandleNotFound (replaced meanwhile) for the first commit with such a
        handle, which removes none; the earlier commits stand.
        """
        with self._turn(*names):
            self._store.remove_all(self._term, self._named(names))

    def _named(self, names: Sequence[str]) -> Handles:
        wanted = set(names)
        return [handle for handle in self._store.list(self._term) if handle.name in wanted] if wanted else []

    @contextmanager
    def _turn(self, *names: str) -> Iterator[None]:
        """Let no other thread write these names: their records prove the outcome of a write whose reply was lost."""
        mine = {checked_name(name, of=_HANDLE) for name in names}
        with self._turns:
            self._turns.wait_for(lambda: not mine & self._written)
            self._written |= mine
        try:
            self._ready()
            self._before_write()
            yield
        finally:
            with self._turns:
                self._written -= mine
                self._turns.notify_all()


class ReadableHandles(_Area):
    """The handles of one area, read and locked by a process that does not lead."""

    def __init__(
        self, store: HandleStore, *, session: Callable[[], SessionId], by: str, ready: Callable[[], None]
    ) -> None:
        """`session` returns the session to which locks are bound; `by` names this process, for operators."""
        super().__init__(store, ready=ready)
        self._session = session
        self._by = by

    @contextmanager
    def locked(self, name: str) -> Iterator[bytes]:
        """Lock a handle, and yield its payload. As long as the block lasts, the handle is not removed; it may be
        replaced, and the bytes that were read stay then. The lock is bound to the reader's session, so a reader that
        dies releases it.

        Raises UsageError (the name), HandleNotFound, CorruptHandle, CorruptBlob, StorageError, SessionEnded,
        StoreUnavailable, OutcomeUnknown: the block was not entered. At the end of the block LockLost: the lock did not
        stand until then, since this process was paused for longer than the ttl, or an operator released the lock; and
        StoreUnavailable, OutcomeUnknown: nobody knows whether it stood, or the lock stays until the reader ends. An
        error of the block goes before.
        """
        self._ready()
        lock = self._store.lock(checked_name(name, of=_HANDLE), session=self._session(), by=self._by)
        try:
            yield self._store.payload(lock.handle)
        except BaseException:
            with suppress(StoreError):  # the error of the block counts; the lock goes with the session
                self._store.release(lock)
            raise
        stood = self._store.stands(lock)
        self._store.release(lock)
        if not stood:
            raise LockLost(lock.handle.key)
