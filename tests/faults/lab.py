"""The laboratory of the fault tests: a store, a manual clock, blobs on a disk, several contenders.

Promise: everything runs in one thread and moves only when the test says so. `audit` says what the handle
store promises (I4, I6) and what lies about without a pointer. Crashes are `Crash`, which no code may catch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tenure.coordination.election import Election
from tenure.coordination.encoding import decode
from tenure.coordination.records import Key, Scope
from tenure.coordination.session import Liveness, SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import OutcomeUnknown, StoreUnavailable
from tenure.events import Event, Events
from tenure.handles.handle import Handle, decode_handle
from tenure.handles.store import HandleStore
from tenure.storage.blobs import Blob, BlobStore, FileBlobs
from tests.kit.clock import ManualClock
from tests.kit.faulty import Call, Fault, FaultyStore, Proceed, Script, commits
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE = Scope("pipeline")
AREA = Key("things")
TTL = timedelta(seconds=10)
BIG = 64
"""Payloads above this are blobs in the laboratory."""


class Crash(BaseException):
    """The process died here. Not an Exception: nothing may handle it."""


class StillKeeper(SessionKeeper):
    """A session without a thread: it is renewed when the test says so."""

    in_the_store = TTL
    """Its ttl as the store has it."""

    def __enter__(self) -> StillKeeper:
        sent_s = self._clock.monotonic_s()
        self._session = self._store.open_session(ttl=self.in_the_store)
        self._liveness = Liveness(clock=self._clock, until_s=self._deadline_s(sent_s))
        return self

    def renew(self) -> None:
        sent_s = self._clock.monotonic_s()
        assert self._session is not None
        self._session.renew()
        self.liveness.extend(self._deadline_s(sent_s))


class Crasher:
    """Dies at the k-th effect, before or after it, and stays dead."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.at: int | None = None  # None: never
        self.dead = False

    def effect(self, name: str) -> None:
        """Called before and after each effect."""
        if self.dead:
            raise Crash(f"{name} after the crash")
        self.effects.append(name)
        if self.at is not None and len(self.effects) > self.at:
            self.dead = True
            raise Crash(name)


class WatchedBlobs:
    """Blobs that refuse to be deleted while a pointer or a lock in the store names them (I6)."""

    def __init__(self, lab: Lab, inner: BlobStore, crasher: Crasher | None = None) -> None:
        self._lab = lab
        self._inner = inner
        self._crasher = crasher or Crasher()
        self.written: list[str] = []
        self.deleted: list[str] = []

    def write(self, address: str, data: bytes) -> Blob:
        self._crasher.effect("before write")
        blob = self._inner.write(address, data)
        self.written.append(address)
        self._crasher.effect("after write")
        return blob

    def read(self, blob: Blob) -> bytes:
        return self._inner.read(blob)

    def delete(self, address: str) -> None:
        self._crasher.effect("before delete")
        assert address not in self._lab.named(), f"I6: {address} is deleted, and a pointer or lock names it"
        self._inner.delete(address)
        self.deleted.append(address)
        self._crasher.effect("after delete")


@dataclass
class Member:
    """One contender: its own client of the store, session, and handle store."""

    name: str
    store: FaultyStore
    keeper: StillKeeper
    election: Election
    blobs: WatchedBlobs
    handles: HandleStore
    crasher: Crasher

    def lead(self) -> Term:
        """Win the vacant office."""
        term = self.election.campaign(self.keeper, stop=_never())
        assert term is not None
        return term

    def dies(self) -> None:
        """The session ends in the store; the member does not know."""
        self.store.expire(self.keeper.session_id)


class Lab:
    """One scope of one store."""

    def __init__(
        self, directory: Path, *, client: Callable[[], CoordinationStore] | None = None, in_the_store: timedelta = TTL
    ) -> None:
        """`client` makes one more client of the store; None: of a memory store on the laboratory's clock.
        `in_the_store`: the ttl that the store is told; longer where its clock is not the laboratory's."""
        self._in_the_store = in_the_store
        self.clock = ManualClock(sleeping_advances=True)
        self.server = MemoryServer(self.clock)
        self._client = client or (lambda: MemoryStore(self.server))
        self.truth = self._client()
        self.files = FileBlobs(str(directory))
        self.events: list[Event] = []

    def member(
        self, name: str, *, wrap: Callable[[CoordinationStore], CoordinationStore] = lambda store: store
    ) -> Member:
        """A new member with a new session. `wrap` sits between its faults and the store."""
        store = FaultyStore(wrap(self._client()))
        keeper = StillKeeper(store, ttl=TTL, clock=self.clock)
        keeper.in_the_store = self._in_the_store
        keeper.__enter__()
        crasher = Crasher()
        blobs = WatchedBlobs(self, self.files, crasher)
        handles = HandleStore(
            store,
            SCOPE,
            area=AREA,
            blobs=blobs,
            clock=self.clock,
            events=Events(self.events.append),
            inline_limit=BIG,
        )
        election = Election(store, SCOPE, member=name, clock=self.clock)
        return Member(name, store, keeper, election, blobs, handles, crasher)

    def pointers(self) -> dict[str, Handle]:
        """The handles as they stand in the store."""
        depth = AREA.count("/") + 1
        records = [r for r in self.truth.list(SCOPE, AREA).records if r.key.count("/") == depth]
        return {handle.name: handle for handle in map(decode_handle, records)}

    def named(self) -> set[str]:
        """The addresses that pointers and locks name."""
        found = {handle.blob.address for handle in self.pointers().values() if handle.blob is not None}
        for record in self.truth.list(SCOPE, AREA).records:
            if "/lock-" in record.key:
                found.add(decode(record, fields={"blob": str})["blob"])
        return found

    def audit(self) -> set[str]:
        """Check I4; return the orphans: blobs that nothing names."""
        for handle in self.pointers().values():
            if handle.blob is not None:
                self.files.read(handle.blob)
        return set(self.files.list()) - self.named()


def in_turn(store: FaultyStore, *faults: Fault) -> Script:
    """The n-th commit meets the n-th fault, and all after it the last one (faults of one call would nest)."""
    turn = iter([*faults[:-1]])

    def fault(call: Call, proceed: Proceed) -> object:
        return next(turn, faults[-1])(call, proceed)

    return store.script(fault, when=commits, times=None)


def reply_lost(call: Call, proceed: Proceed) -> object:
    """The store did it; the caller does not learn it."""
    proceed()
    raise OutcomeUnknown("the reply was lost")


def request_lost(call: Call, proceed: Proceed) -> object:
    """The store never heard of it; the caller cannot tell."""
    raise OutcomeUnknown("the request was lost")


def unavailable(call: Call, proceed: Proceed) -> object:
    """Nothing was sent, and the caller knows."""
    raise StoreUnavailable("the store is away")


def _never() -> threading.Event:
    return threading.Event()


def big(text: str) -> bytes:
    """A payload that becomes a blob."""
    return (text * BIG * 2).encode()
