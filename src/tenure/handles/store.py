"""The handle store: add, replace, get, list, lock, release, remove (after Flink's StateHandleStore).

Promise (I4): a pointer in the store means that its blob exists and has the recorded checksum. (I6): a blob is
deleted only after the removal of its pointer was committed, and not while a lock protects it. Every mutating
call presents a term, and its outcome is definite while the term lives (FLINK-6612, FLINK-10333, FLINK-22494).
Not promised: that no blob is without a pointer; the orphan sweep finds those by the epoch in their address.
One name is written by one thread of the leader at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tenure.clock import Clock
from tenure.coordination.encoding import decode, encode, new_uid
from tenure.coordination.reading import read_under
from tenure.coordination.records import (
    Delete,
    Exact,
    Guard,
    Key,
    NoneUnder,
    Put,
    Record,
    Scope,
    SessionId,
    Version,
    Write,
)
from tenure.coordination.settle import commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, check_term
from tenure.errors import (
    BlobNotFound,
    CommitRefused,
    CorruptBlob,
    GuardFailed,
    HandleNotFound,
    StorageError,
    StoreUnavailable,
    TermLost,
)
from tenure.events import BlobLeft, Events
from tenure.handles.anchor import Anchor
from tenure.handles.handle import Handle, Lock, decode_handle, encode_handle
from tenure.handles.outcomes import AFTER, Operation, Outcome
from tenure.handles.reading import read_all
from tenure.handles.refusals import answer_to
from tenure.storage.blobs import Blob, BlobStore

INLINE_LIMIT = 4096
"""Payloads up to this many bytes need no blob."""

MOST_INLINE = 65536
"""No limit is higher: records are small."""

_LOCK_S = 2.0
"""How long a lock is tried again: it is taken without a term, whose deadline would say it."""

_FENCE = 2
"""The guards of a term."""


class HandleStore:
    """The handles directly below `area` in a scope. Thread-safe."""

    def __init__(
        self,
        store: CoordinationStore,
        scope: Scope,
        *,
        area: Key,
        blobs: BlobStore,
        clock: Clock,
        events: Events = Events.nobody,
        inline_limit: int = INLINE_LIMIT,
    ) -> None:
        self._store = store
        self._scope = scope
        self._area = area
        self._blobs = blobs
        self._clock = clock
        self._events = events
        self._inline_limit = inline_limit
        self._anchor = Anchor(store, scope, area=area, clock=clock)

    # --- writing, under a term ---

    def add(
        self,
        term: Term,
        name: str,
        payload: bytes,
        *,
        guards: Sequence[Guard] = (),
        remove: Sequence[Handle] = (),
    ) -> Handle:
        """Add a handle, and remove others, in one commit.

        Raises HandleExists, HandleLocked (one of `remove`), HandleNotFound (one of `remove` is not as given),
        GuardFailed (one of `guards`), CommitRefused, StoreUnavailable, TermLost, StorageError: nothing was added.
        TermLost may say otherwise.
        """
        key = self._area.child(name)
        content = self._store_payload(term, name, payload)
        put = Put(key, encode_handle(uid=new_uid(), epoch=term.epoch, content=content), replaces=None)
        version = self._commit(term, put, content, guards=guards, remove=remove)
        return self._handle(key, version, term, content)

    def replace(self, term: Term, handle: Handle, payload: bytes) -> Handle:
        """Replace what the handle names by a new payload; the old blob stays while a lock protects it.

        Raises HandleNotFound (it is gone, or not as given), TermLost, StorageError: nothing was replaced.
        """
        content = self._store_payload(term, handle.name, payload)
        value = encode_handle(uid=new_uid(), epoch=term.epoch, content=content)
        put = Put(handle.key, value, replaces=handle.version)
        version = self._commit(term, put, content, replaced=handle)
        return self._handle(handle.key, version, term, content)

    def remove(self, term: Term, name: str) -> None:
        """Remove the handle, then its blob; nothing when there is none.

        Raises HandleLocked: it stays. TermLost. A blob that cannot be deleted is left to the sweep (BlobLeft).
        """
        while True:
            record = self._record(name, term)
            if record is None:
                return
            try:
                self.remove_all(term, [decode_handle(record)])
            except HandleNotFound:
                continue  # replaced meanwhile: look again
            return

    def remove_all(self, term: Term, handles: Sequence[Handle]) -> None:
        """Remove handles in as few commits as the store's guarantees allow, then their blobs.

        Raises HandleLocked or HandleNotFound for the first group that holds such a one (that group and those
        after it stay whole), TermLost.
        """
        group = max(1, (self._store.guarantees.max_writes - _FENCE - 1) // 2)  # a guard and a write each, the anchor
        for start in range(0, len(handles), group):
            self._commit(term, None, None, remove=handles[start : start + group])

    @property
    def most_removed_by_add(self) -> int:
        """How many handles one `add` with one guard can remove, by the store's guarantees."""
        return max(0, (self._store.guarantees.max_writes - _FENCE - 3) // 2)

    def no_removal_since(self, term: Term | None = None) -> Guard:
        """A guard that holds until the next handle is removed from this area. Raises StoreUnavailable, TermLost."""
        return self._anchor.read(term)

    def check(self, term: Term) -> None:
        """Ask the store whether the term stands now. Raises TermLost; StoreUnavailable while it cannot be known."""
        check_term(self._store, term, clock=self._clock)

    # --- reading: with a `term` until its deadline, and TermLost then; else for some seconds (`read_under`) ---

    def get(self, name: str) -> bytes:
        """The payload. Raises HandleNotFound, CorruptHandle, CorruptBlob, StorageError, StoreUnavailable."""
        while True:
            handle = self.find(name)
            if handle is None:
                raise HandleNotFound(f"handle {self._area.child(name)!r} is not there")
            try:
                return self.payload(handle)
            except CorruptBlob:
                now = self.find(name)
                if now is None or now.version != handle.version:
                    continue  # removed or replaced while it was read: that is no corruption
                raise

    def find(self, name: str, term: Term | None = None) -> Handle | None:
        """The handle, None when there is none. Raises CorruptHandle, StoreUnavailable, TermLost."""
        record = self._record(name, term)
        return None if record is None else decode_handle(record)

    def payload(self, handle: Handle) -> bytes:
        """The bytes that the handle names. Raises CorruptBlob (wrong or missing), StorageError."""
        if handle.blob is None:
            assert handle.inline is not None
            return handle.inline
        try:
            return self._blobs.read(handle.blob)
        except BlobNotFound as missing:
            raise CorruptBlob(f"handle {handle.key!r} names a blob that is gone: {missing.what}") from missing

    def list(self, term: Term | None = None) -> list[Handle]:
        """All handles in the order of their names. Raises CorruptHandle for the first that does not decode,
        StoreUnavailable, TermLost."""
        depth = self._area.count("/") + 1
        records = read_under(term, lambda: self._store.list(self._scope, self._area), clock=self._clock).records
        return [decode_handle(record) for record in records if record.key.count("/") == depth]

    def get_all(self) -> Mapping[str, bytes]:
        """All payloads by name; a handle that goes meanwhile is left out.

        Raises CorruptHandle, CorruptBlob, StorageError, StoreUnavailable.
        """
        found = read_all(self.list(), self._payload_unless_gone, clock=self._clock)
        return {name: data for name, data in found.items() if data is not None}

    # --- locks ---

    @contextmanager
    def locked(self, name: str, *, session: SessionId) -> Iterator[tuple[Handle, bytes]]:
        """Lock, read, and release at the end, also when the read fails. Raises like `lock` and `payload`."""
        lock = self.lock(name, session=session)
        try:
            yield lock.handle, self.payload(lock.handle)
        finally:
            self.release(lock)

    def lock(self, name: str, *, session: SessionId) -> Lock:
        """Claim the handle for as long as the session lives: it is not removed, its blob not deleted.

        The lock is committed only while the handle is exactly the one that was read, so it never protects what
        is gone, and never makes its parent. Raises HandleNotFound, CorruptHandle, SessionEnded,
        StoreUnavailable, OutcomeUnknown (a lock that was made goes with the session).
        """
        while True:
            handle = self.find(name)
            if handle is None:
                raise HandleNotFound(f"handle {self._area.child(name)!r} is not there")
            uid = new_uid()
            key = handle.key.child(f"lock-{uid}")
            value = encode({"uid": uid, "session": session, "blob": handle.blob.address if handle.blob else ""})
            try:
                commit = self._commit_lock(
                    guards=(Exact(handle.key, handle.version),),
                    write=Put(key, value, replaces=None, session=session),
                )
            except GuardFailed:
                continue  # removed or replaced since it was read: look again
            return Lock(key, commit[key], handle)

    def release(self, lock: Lock) -> None:
        """Give the claim up; nothing when it is gone. Raises StoreUnavailable, OutcomeUnknown."""
        try:
            self._commit_lock(guards=(), write=Delete(lock.key, lock.version))
        except GuardFailed:
            return  # it went with its session

    # --- the one commit ---

    def _commit(
        self,
        term: Term,
        put: Put | None,
        content: bytes | Blob | None,
        *,
        guards: Sequence[Guard] = (),
        replaced: Handle | None = None,
        remove: Sequence[Handle] = (),
    ) -> Version | None:
        """Commit under the term, then do with the blobs what the table of `outcomes` says."""
        operation = Operation.REMOVE if put is None else Operation.ADD if replaced is None else Operation.REPLACE
        writes: list[Write] = [] if put is None else [put]
        writes += [Delete(handle.key, handle.version) for handle in remove]
        unlocked = [NoneUnder(handle.key) for handle in remove]
        outcome = Outcome.UNKNOWN
        alone: frozenset[Key] = frozenset()
        try:
            versions, alone = self._anchor.commit(term, guards=[*guards, *unlocked], writes=writes, moves=bool(remove))
            outcome = Outcome.COMMITTED
            return None if put is None else versions[put.key]
        except GuardFailed as refused:
            outcome = Outcome.REFUSED
            raise answer_to(refused, guards=guards) from refused
        except (CommitRefused, StoreUnavailable):
            outcome = Outcome.REFUSED
            raise
        except TermLost as lost:
            outcome = Outcome.UNKNOWN if lost.write_is_unknown else Outcome.REFUSED
            raise
        finally:
            fate = AFTER[operation, outcome]
            if fate.new and isinstance(content, Blob):
                self._discard(content)
            if fate.old and replaced is not None and replaced.blob is not None:
                if replaced.key in alone:
                    self._discard(replaced.blob)  # it had no lock at the commit, and can have none since: see below
                else:
                    self._discard_unless_locked(replaced, replaced.blob)
            if AFTER[Operation.REMOVE, outcome].old:
                for handle in remove:
                    if handle.blob is not None:
                        self._discard(handle.blob)

    def _record(self, name: str, term: Term | None) -> Record | None:
        return read_under(term, lambda: self._store.read(self._scope, self._area.child(name)), clock=self._clock)

    def _store_payload(self, term: Term, name: str, payload: bytes) -> bytes | Blob:
        if len(payload) <= self._inline_limit:
            return payload
        return self._blobs.write(f"e{term.epoch:08d}/{self._area}/{name}-{new_uid()}", payload)

    def _handle(self, key: Key, version: Version | None, term: Term, content: bytes | Blob) -> Handle:
        assert version is not None
        blob = content if isinstance(content, Blob) else None
        return Handle(key, version, term.epoch, None if isinstance(content, Blob) else content, blob)

    def _payload_unless_gone(self, handle: Handle) -> bytes | None:
        try:
            return self.payload(handle)
        except CorruptBlob:
            try:
                return self.get(handle.name)  # it was replaced meanwhile; else this says the same
            except HandleNotFound:
                return None

    def _discard_unless_locked(self, handle: Handle, blob: Blob) -> None:
        """Delete the blob of a handle that was replaced. The listing is complete: a lock is committed only while
        its handle stands, so after the commit that replaced it no later lock can name the old blob."""
        try:
            records = self._store.list(self._scope, handle.key).records
        except StoreUnavailable as failed:
            self._events.emit(BlobLeft(scope=self._scope, address=blob.address, why=str(failed)))
            return
        if not any(decode(record, fields={"blob": str})["blob"] == blob.address for record in records):
            self._discard(blob)

    def _discard(self, blob: Blob) -> None:
        try:
            self._blobs.delete(blob.address)
        except StorageError as failed:
            self._events.emit(BlobLeft(scope=self._scope, address=blob.address, why=str(failed)))

    def _commit_lock(self, *, guards: Sequence[Guard], write: Write) -> Mapping[Key, Version]:
        end_s = self._clock.monotonic_s() + _LOCK_S
        return commit_settled(
            self._store,
            self._scope,
            guards=guards,
            writes=(write,),
            go_on=lambda: self._clock.monotonic_s() < end_s,
            clock=self._clock,
        ).versions
