"""The handle store: add, replace, get, list, lock, release, remove (after Flink's StateHandleStore).

Promise (I4): a pointer in the store means that its blob exists and has the recorded checksum. (I6): a blob is deleted
only after the removal of its pointer was committed, and not while a lock protects it. So the blob is written before the
pointer, and deleted after it, once the outcome is definite. Every mutating call presents a term, and its outcome is
definite while the term lives (FLINK-6612, FLINK-10333, FLINK-22494). Not promised: that each blob has a pointer; the
orphan sweep recognises the other blobs by the epoch in their address. One thread at a time writes a name.

The payloads of many handles are read once each. The caller's thread reads a disk nearby, since handing over a small
blob costs more than reading it. Several threads read a storage that answers slowly.
`locks_in` takes a record for a lock only if it is bound to a session. A lock that does not decode is an error that
names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from tenure.clock import Clock
from tenure.coordination.encoding import decode, encode, new_uid
from tenure.coordination.reading import read_again, read_under
from tenure.coordination.records import (
    Absent,
    Delete,
    Exact,
    Guard,
    Key,
    Listing,
    Put,
    Record,
    Scope,
    SessionId,
    Version,
    Write,
)
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import (
    BlobNotFound,
    CommitRefused,
    CorruptBlob,
    GuardFailed,
    HandleError,
    HandleExists,
    HandleNotFound,
    StorageError,
    StoreUnavailable,
    TermLost,
)
from tenure.event import Events
from tenure.handles.anchor import AGAIN, Anchor, moves_too_fast
from tenure.handles.anchor_rules import LOCK, Sight, locked_by, may_be_locked
from tenure.handles.handle import Handle, Lock, decode_handle, encode_handle
from tenure.storage.blobs import Blob, BlobStore

INLINE_LIMIT = 4096
"""Payloads up to this many bytes need no blob."""

MOST_INLINE = 65536
"""The highest limit: records are small."""

_FENCE = 2
"""The guards of a term."""

PROTECTS = "protects"
"""The field of a lock's record that has the path."""

BY = "by"
"""The field of a lock's record that names the reader, for operators."""

Handles = list[Handle]
"""As a name of its own: the store has a method `list`."""


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
        self, term: Term, name: str, payload: bytes, *, guards: Sequence[Guard] = (), remove: Sequence[Handle] = ()
    ) -> Handle:
        """Add a handle, and remove others, in one commit.

        Raises HandleExists, HandleLocked (one of `remove`), HandleNotFound (one of `remove` is gone or was replaced),
        GuardFailed (one of `guards`), CommitRefused, StoreUnavailable, StorageError: nothing was added. TermLost:
        nothing was added, unless `write_is_unknown`.
        """
        return self._write(term, self._area.child(name), payload, guards=guards, remove=remove)

    def replace(self, term: Term, handle: Handle, payload: bytes) -> Handle:
        """Give the handle a new payload. The old blob stays while a lock protects it.

        Raises HandleNotFound (the handle is gone or was replaced), StorageError: nothing was replaced. TermLost.
        """
        return self._write(term, handle.key, payload, replaced=handle)

    def remove(self, term: Term, name: str) -> None:
        """Remove the handle, then its blob; nothing when there is no handle.

        Raises HandleLocked: the handle stays. TermLost. A blob that cannot be deleted stays for the sweep (BlobLeft).
        """
        while (handle := self.find(name, term)) is not None:
            with suppress(HandleNotFound):  # replaced since the read: look again
                self.remove_all(term, [handle])
                return

    def remove_all(self, term: Term, handles: Sequence[Handle]) -> None:
        """Remove handles in as few commits as the store's guarantees allow, then their blobs.

        Raises HandleLocked or HandleNotFound for the first group with such a handle (this group and the later groups
        stay whole), TermLost.
        """
        group = max(1, self._store.guarantees.max_writes - _FENCE - 1)  # the anchor
        for start in range(0, len(handles), group):
            self._commit(term, None, remove=handles[start : start + group])

    @property
    def most_removed_by_add(self) -> int:
        """How many handles one `add` with one guard can remove, by the store's guarantees."""
        return max(0, self._store.guarantees.max_writes - _FENCE - 3)

    def no_removal_since(self, term: Term | None = None) -> Guard:
        """A guard that holds until the next handle of this area is removed or locked. Raises StoreUnavailable,
        TermLost."""
        return self._anchor.read(term).anchor

    # --- reading: waits for an unavailable store until the deadline of `term`, else for some seconds (`read_under`) ---

    def get(self, name: str) -> bytes:
        """The payload. Raises HandleNotFound, CorruptHandle, CorruptBlob, StorageError, StoreUnavailable."""
        while True:
            handle = self.find(name)
            if handle is None:
                raise HandleNotFound(f"handle {self._area.child(name)!r} is not there")
            try:
                return self.payload(handle)
            except CorruptBlob:
                if self.find(name) == handle:
                    raise  # else the handle was removed or replaced during the read: look again

    def find(self, name: str, term: Term | None = None) -> Handle | None:
        """The handle; None: there is none. Raises CorruptHandle, StoreUnavailable, TermLost."""
        key = self._area.child(name)
        record = read_under(term, lambda: self._store.read(self._scope, key), clock=self._clock)
        return None if record is None else decode_handle(record)

    def payload(self, handle: Handle) -> bytes:
        """The payload of the handle. Raises CorruptBlob (wrong or missing), StorageError."""
        if handle.blob is None:
            assert handle.inline is not None
            return handle.inline
        try:
            return self._blobs.read(handle.blob)
        except BlobNotFound as missing:
            raise CorruptBlob(f"handle {handle.key!r} names a blob that is gone: {missing.what}") from missing

    def list(self, term: Term | None = None) -> list[Handle]:
        """All handles in the order of their names. Raises CorruptHandle, StoreUnavailable, TermLost."""
        seen = self._anchor.seen
        found = read_under(term, lambda: self._store.list(self._scope, self._area), clock=self._clock)
        self._anchor.note_listing(seen, found.records)
        return self._handles_in(found)

    def glance(self) -> Handles:
        """As `list`, as this client last heard of the handles (`CoordinationStore.glance`)."""
        return self._handles_in(read_again(lambda: self._store.glance(self._scope, self._area), clock=self._clock))

    def get_all(self) -> Mapping[str, bytes]:
        """All payloads by name, but those of handles that are removed meanwhile.

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

    def lock(
        self, name: str, *, session: SessionId, protects: Callable[[Handle], str] = lambda handle: "", by: str = ""
    ) -> Lock:
        """Claim the handle for as long as the session lives: the handle is not removed, its blob not deleted.
        `protects`: a path below the storage that the handle names, which no sweep removes, also when the handle is
        replaced meanwhile; empty: none. `by`: the reader, for operators.

        The lock is committed only while the handle stands exactly as it was read, so a lock never protects a removed
        handle. It moves the anchor of the area. Raises HandleNotFound, CorruptHandle, SessionEnded, StoreUnavailable
        (also where the area changes faster than it can be locked), OutcomeUnknown (a lock that was made goes with the
        session).
        """
        for delay_s in (0.0, *AGAIN.delays_s()):
            self._clock.sleep(delay_s)
            seen = self._anchor.read()  # before the handle: a handle that was made anew may have an old version again
            handle = self.find(name)
            if handle is None:
                raise HandleNotFound(f"handle {self._area.child(name)!r} is not there")
            uid = new_uid()
            key = handle.key.child(f"{LOCK}{uid}")
            fields = {"uid": uid, "session": session, "blob": handle.blob.address if handle.blob else ""}
            value = encode({**fields, BY: by, PROTECTS: protects(handle)})
            put = Put(key, value, replaces=None, session=session)
            version = self._anchor.lock(seen, handle=Exact(handle.key, handle.version), lock=put)
            if version is not None:
                return Lock(key, version, handle)
        raise moves_too_fast(self._area)

    def stands(self, lock: Lock) -> bool:
        """Whether the claim has stood until now. Raises StoreUnavailable."""
        record = read_again(lambda: self._store.read(self._scope, lock.key), clock=self._clock)
        return record is not None and record.version == lock.version

    def release(self, lock: Lock) -> None:
        """Give the claim up; nothing when it went with its session. Raises StoreUnavailable, OutcomeUnknown."""
        with suppress(GuardFailed):
            self._anchor.settled((), (Delete(lock.key, lock.version),))

    # --- the commit ---

    def _write(
        self,
        term: Term,
        key: Key,
        payload: bytes,
        *,
        replaced: Handle | None = None,
        guards: Sequence[Guard] = (),
        remove: Sequence[Handle] = (),
    ) -> Handle:
        """Write the payload as a blob if it is large, then the handle. A refused commit takes the blob back; while the
        outcome is unknown the blob stays."""
        blob: Blob | None = None
        if len(payload) > self._inline_limit:
            blob = self._blobs.write(f"e{term.epoch:08d}/{key}-{new_uid()}", payload)
        value = encode_handle(uid=new_uid(), epoch=term.epoch, content=blob or payload)
        put = Put(key, value, replaces=None if replaced is None else replaced.version)
        try:
            versions, sight = self._commit(term, put, guards=guards, remove=remove)
        except TermLost as lost:
            if not lost.write_is_unknown:
                self._discard(blob)
            raise
        except (HandleError, GuardFailed, CommitRefused, StoreUnavailable):
            self._discard(blob)
            raise
        if replaced is not None:
            self._discard_replaced(replaced, sight)
        return Handle(key, versions[key], term.epoch, None if blob else payload, blob)

    def _commit(
        self, term: Term, put: Put | None, *, guards: Sequence[Guard] = (), remove: Sequence[Handle] = ()
    ) -> tuple[Mapping[Key, Version], Sight]:
        """Commit under the term and the anchor (see `Anchor.commit`), then delete the blobs of the removed handles."""
        writes: list[Write] = [] if put is None else [put]
        writes += [Delete(handle.key, handle.version) for handle in remove]
        try:
            done = self._anchor.commit(term, guards=guards, writes=writes, removes=[handle.key for handle in remove])
        except GuardFailed as refused:
            guard = refused.guard
            if guard in guards:
                raise
            if isinstance(guard, Exact):
                raise HandleNotFound(f"handle {guard.key!r} is gone, or was replaced since it was read") from refused
            assert isinstance(guard, Absent)
            raise HandleExists(f"handle {guard.key!r} exists already") from refused
        for handle in remove:
            self._discard(handle.blob)
        return done

    def _handles_in(self, found: Listing) -> Handles:
        depth = self._area.count("/") + 1
        return [decode_handle(record) for record in found.records if record.key.count("/") == depth]

    def _payload_unless_gone(self, handle: Handle) -> bytes | None:
        try:
            return self.payload(handle)
        except CorruptBlob:
            try:
                return self.get(handle.name)  # raises CorruptBlob again unless the handle was replaced meanwhile
            except HandleNotFound:
                return None

    def _discard_replaced(self, handle: Handle, sight: Sight) -> None:
        """Delete the blob of a replaced handle unless a lock protects it. `sight`: the anchor that held at the commit.

        The listing is complete: a lock is committed only while its handle stands, so no later lock names the old blob.
        """
        blob = handle.blob
        if blob is None:
            return
        try:
            locked = may_be_locked(sight, {handle.key})
            records = self._store.list(self._scope, handle.key).records if locked else ()
        except StoreUnavailable as failed:
            self._tell_left(blob, failed)
            return
        if not any(decode(record, fields={"blob": str})["blob"] == blob.address for record in records):
            self._discard(blob)

    def _discard(self, blob: Blob | None) -> None:
        if blob is None:
            return
        try:
            self._blobs.delete(blob.address)
        except StorageError as failed:
            self._tell_left(blob, failed)

    def _tell_left(self, blob: Blob, failed: StorageError | StoreUnavailable) -> None:
        from tenure.events import BlobLeft  # costs time, and a reader of handles emits none

        self._events.emit(BlobLeft(scope=self._scope, address=blob.address, why=str(failed)))


READERS: Final = 8
_SLICES: Final = 4 * READERS
"""The number of parts into which the handles are cut, where there are enough."""

_NEARBY_S: Final = 0.0002
"""A read that takes longer is mostly waiting."""


def read_all(
    handles: Sequence[Handle], read: Callable[[Handle], bytes | None], *, clock: Clock
) -> dict[str, bytes | None]:
    """The payloads by name, in the order of the handles: inline, or by `read` for handles with a blob."""
    found = {handle.name: handle.inline for handle in handles}
    stored = [handle for handle in handles if handle.blob is not None]
    size = -(-len(stored) // _SLICES)

    def read_some(first: int) -> dict[str, bytes | None]:
        return {handle.name: read(handle) for handle in stored[first : first + size]}

    rest = range(size, len(stored), size) if stored else range(0)
    began_s = clock.monotonic_s()
    found.update(read_some(0))
    if clock.monotonic_s() - began_s <= _NEARBY_S * size:
        for first in rest:
            found.update(read_some(first))
    else:
        with ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="tenure-read") as pool:
            for some in pool.map(read_some, rest):
                found.update(some)
    return found


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock that stands."""

    key: Key
    version: Version
    handle: Key
    session: str
    by: str
    """The process that reads, for people; empty: a member."""


def locks_in(records: Sequence[Record]) -> list[HeldLock]:
    """The locks among the records of a scope. Raises CorruptRecord."""
    found = []
    for record in records:
        handle = locked_by(record.key)
        if record.session is None or handle is None:
            continue
        fields = decode(record, fields={"session": str}, optional={BY: str})
        found.append(HeldLock(record.key, record.version, handle, fields["session"], fields.get(BY, "")))
    return found
