"""`with tenure.lead(...) as leadership:` for notebooks and plain Python services: a term without a driver process.

Promise: only the leader enters the block, and everything that it writes by its leadership is committed only while it
leads. The store answers each `check` at that moment. With a storage, the storage belongs to this scope (I10), and the
orphans of earlier leaders are swept beside the block. Leaving the block gives up the term. All blocks of a process
share one client of their store. Not promised: that the block stops when the term is lost. Ask `lost` or `check` before
each step, and hand `epoch` to targets that can refuse an older epoch. In a forked child the leadership is lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from tenure.assembly import identify, member_events
from tenure.clock import Clock, SystemClock
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, check_term
from tenure.errors import TermLost, UsageError
from tenure.handles.areas import area_of
from tenure.handles.record_store import RecordStore
from tenure.in_process.handles import WritableHandles
from tenure.in_process.upkeep import MarksWatch, kept_up
from tenure.opening import check_storage, scope_context, shared_store
from tenure.scope_context import ScopeContext
from tenure.settings import Settings, load_settings


class Leadership:
    """A term that this process holds. Thread-safe."""

    def __init__(self, store: CoordinationStore, term: Term, *, context: ScopeContext | None, clock: Clock) -> None:
        """`context` None: the leadership has no storage, and so no handles."""
        self._store = store
        self._term = term
        self._clock = clock
        self._pid = os.getpid()
        self._records = RecordStore(store, term.scope, clock=clock)
        self._context = context
        self._marks = None if context is None else MarksWatch(context)
        self._lock = threading.Lock()  # guards _areas
        self._areas: dict[str, WritableHandles] = {}

    @property
    def scope(self) -> str:
        """The scope that this process leads."""
        return str(self._term.scope)

    @property
    def epoch(self) -> int:
        """The number of the term, one more each time: a fencing token for targets that can refuse an older epoch."""
        return self._term.epoch

    @property
    def lost(self) -> bool:
        """Whether the term is known to be over. Asks nobody, so False proves nothing."""
        return self._pid != os.getpid() or self._term.lost

    def check(self) -> None:
        """Ask the store whether the term stands now. Raises TermLost; StoreUnavailable: the store does not answer."""
        self._check_process()
        check_term(self._store, self._term, clock=self._clock)

    def handles(self, area: str) -> WritableHandles:
        """The handles of an area of this scope: names for bytes that are too large for the store. Areas begin with
        their first handle. Raises UsageError: `area` is no name, or the leadership has no storage."""
        key = area_of(area)
        if self._context is None:
            raise no_storage(area)
        with self._lock:
            if area not in self._areas:  # one object for each area: its threads take turns at a name
                self._areas[area] = WritableHandles(
                    self._context.handles(key),
                    self._term,
                    ready=self._check_process,
                    before_write=self._check_owner,
                )
            return self._areas[area]

    def commit(self, name: str, value: bytes | None) -> None:
        """Write a small record, of at most 64 KiB, or replace its value; None removes the record. It is committed only
        while this process leads, and its outcome is known while the term lives. A record needs no storage.

        Raises UsageError (`name` is no name; `value` is not bytes, or too long), CommitRefused, StoreUnavailable:
        nothing was written. TermLost: nothing was written, unless `write_is_unknown`.
        """
        self._check_process()
        if value is None:
            self._records.remove(self._term, name)
        else:
            self._records.put(self._term, name, value)

    def record(self, name: str) -> bytes | None:
        """The value of a record as it stands now; None: there is no such record. Raises UsageError (`name` is no name),
        CorruptHandle, StoreUnavailable; TermLost (a forked child)."""
        self._check_process()
        return self._records.get(name)

    def records(self) -> Mapping[str, bytes]:
        """The values of all records by name. Raises CorruptHandle, StoreUnavailable; TermLost (a forked child)."""
        self._check_process()
        return self._records.get_all()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise TermLost(scope=self._term.scope, epoch=self._term.epoch)

    def _check_owner(self) -> None:
        if self._marks is not None:
            self._marks.check()


def no_storage(area: str) -> UsageError:
    """The error of an area of handles where no storage is set."""
    return UsageError(
        f"area {area!r} needs a storage, and none is set",
        fix="give storage=, set TENURE_STORAGE, or write it in tenure.toml",
    )


@contextmanager
def lead(
    scope: str,
    *,
    store: str | None = None,
    storage: str | None = None,
    member: str | None = None,
    ttl: str | None = None,
    timeout: timedelta | None = None,
) -> Iterator[Leadership]:
    """Wait until this process leads `scope`, and lead `scope` for as long as the block lasts.

    `store`, `storage`, `member` and `ttl` are the flags of `tenure run`; their defaults come from TENURE_* or
    tenure.toml. Without a storage there are no handles. `timeout` None: wait for ever. Raises TimeoutError, UsageError
    (also: a live member has that name, or the pipeline of this scope has ended), StoreUnavailable, OutcomeUnknown,
    SessionEnded (this process was paused while it waited), CorruptRecord, OwnerMismatch (the store was emptied,
    restored or replaced while this process waited; the storage is another scope's or store's). With a storage also
    StorageError, Corrupt, TermLost (the term was over before the block began). The block was not entered. At the end of
    the block OwnerMismatch: another store has the storage now.
    """
    clock = SystemClock()
    settings = load_settings(store=store, storage=storage, member=member, ttl=ttl)
    name = Scope(scope)
    with shared_store(settings, clock=clock) as opened:
        context = _usable(settings, opened, name, clock=clock)
        with held(opened, name, identify(settings), ttl=settings.ttl, timeout=timeout, clock=clock) as term:
            if context is None:
                yield Leadership(opened, term, context=None, clock=clock)
            else:
                with kept_up(context, term):
                    yield Leadership(opened, term, context=context, clock=clock)


def _usable(settings: Settings, store: CoordinationStore, scope: Scope, *, clock: Clock) -> ScopeContext | None:
    """The scope with its storage, checked before the process waits for the leadership; None: no storage is set."""
    if settings.storage is None:
        return None
    check_storage(settings, scope)
    context = scope_context(settings, store, scope, clock=clock, events=member_events(settings, clock=clock))
    context.owner().check()
    return context
