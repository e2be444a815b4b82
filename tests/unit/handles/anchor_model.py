"""Every interleaving of locks, or pins, and removals, under the real rules of `anchor_rules`.

A leader adds, replaces and removes a handle, or adds another handle in its place in one commit; readers lock it, read
its blob and release it, or their sessions end at any moment. A request may be applied without an answer, or arrive at
any later moment. The area has an anchor already, or not yet. The store is the weakest: a version is the number of
changes since its record was made, so a record made anew has an old version again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tenure.coordination.records import (
    Absent,
    Delete,
    Exact,
    Guard,
    Key,
    Put,
    Record,
    SessionId,
    Version,
    Write,
    implied_guard,
)
from tenure.handles import anchor_rules
from tenure.handles.anchor_rules import Sight

AREA = Key("area")
HANDLE, OTHER = AREA.child("x"), AREA.child("y")
REMOVES = ("remove", "take its place")
"""The operations that remove the handle."""
Request = tuple[tuple[Guard, ...], tuple[Write, ...]]


class Flight(NamedTuple):
    """A request on its way, of a member's n-th operation."""

    member: int
    operation: int
    request: Request


class Leader(NamedTuple):
    step: str = "is idle"
    operation: int = 0
    sight: Sight | None = None
    kind: str = ""
    handle: Record | None = None
    """As it was read."""
    request: Request = ((), ())
    doubt: bool = False


class Reader(NamedTuple):
    step: str = "is idle"
    operation: int = 0
    sight: Sight | None = None
    handle: Record | None = None
    request: Request = ((), ())
    doubt: bool = False
    held: Key | None = None


class World(NamedTuple):
    records: tuple[Record, ...]
    blobs: frozenset[int]
    flights: frozenset[Flight]
    unknowns: int
    """How many more replies may be lost."""
    leader: Leader
    readers: tuple[Reader, ...]

    def read(self, key: Key) -> Record | None:
        return next((record for record in self.records if record.key == key), None)

    def locks(self) -> list[Record]:
        return [record for record in self.records if anchor_rules.locked_by(record.key) is not None]

    def refusal(self, request: Request) -> Guard | None:
        guards, writes = request
        for guard in (*guards, *map(implied_guard, writes)):
            record = self.read(guard.key)
            holds = record is None if isinstance(guard, Absent) else record and record.version == guard.version
            if not holds:
                return guard
        return None

    def applied(self, request: Request) -> World:
        records = {record.key: record for record in self.records}
        for write in request[1]:
            if isinstance(write, Put):
                version = Version("0" if write.replaces is None else str(int(write.replaces) + 1))
                records[write.key] = Record(write.key, write.value, version, write.session)
            else:
                del records[write.key]
        return self._replace(records=tuple(sorted(records.values(), key=lambda record: record.key)))

    def shows(self, request: Request) -> bool:
        """Whether the records are as the writes made them."""
        for write in request[1]:
            record = self.read(write.key)
            if not (record is None if not isinstance(write, Put) else record and record.value == write.value):
                return False
        return True


class Bounds(NamedTuple):
    readers: int = 1
    operations: int = 3
    locks: int = 2
    unknowns: int = 1
    lists_first: bool = False
    handle_first: bool = False
    keeps_locks: bool = False
    has_anchor: bool = True
    locks_anew: bool = False
    """Whether a reader gives each of its locks the same key."""
    pins: bool = False
    """Whether the locks are pins, which outlive their makers."""


def session_of(reader: int) -> SessionId:
    return SessionId(f"s{reader}")


def blob_of(record: Record) -> int:
    return int(record.value)


def explore(bounds: Bounds, *, until: str | None = None) -> tuple[int, set[str]]:
    """Look at every state that can be reached, or stop when `until` is found: the number of states, the findings."""
    anchor = Record(AREA, b"first", Version("0"), None)
    records = (anchor,) if bounds.has_anchor else ()
    first = World(records, frozenset(), frozenset(), bounds.unknowns, Leader(), (Reader(),) * bounds.readers)
    seen, queue, found = {first}, deque([first]), set[str]()
    while queue and until not in found:
        world = queue.popleft()
        found.update(_wrong(world))
        for after in _moves(world, bounds, found):
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return len(seen), found


def _wrong(world: World) -> Iterator[str]:
    handle = world.read(HANDLE)
    for pointer in (handle, world.read(OTHER)):
        if pointer is not None and blob_of(pointer) not in world.blobs:
            yield "a pointer without its blob"
    for lock in world.locks():
        if blob_of(lock) not in world.blobs:
            yield "a locked blob is gone"
        if handle is None:
            yield "a locked handle is gone"
    if world.leader.step == "is idle" and handle is not None and not world.locks() and not _removable(world):
        yield "a handle stays for ever"


def _removable(world: World) -> bool:
    """Whether the leader, alone, removes the handle."""
    alone = Bounds(readers=0, operations=world.leader.operation + 1)
    now = world._replace(readers=(), unknowns=0, flights=frozenset())
    for _ in range(20):
        after = [move for move in _leads(now, alone) if move.leader.kind in ("", "remove")]
        if not after:
            break
        now = after[0]
    return now.read(HANDLE) is None


def _moves(world: World, bounds: Bounds, found: set[str]) -> Iterator[World]:
    for flight in world.flights:
        landed = world._replace(flights=world.flights - {flight})
        yield landed
        if flight.member >= 0 and world.readers[flight.member].step == "is dead":
            continue
        if world.refusal(flight.request) is None:
            waited_for = flight.operation == world.leader.operation and world.leader.step in ("sends", "voids")
            if flight.member < 0 and not waited_for:
                found.add("a request applies after its answer")
            yield landed.applied(flight.request)
    yield from _leads(world, bounds)
    for number, reader in enumerate(world.readers):
        for after, becomes in _reads(world, number, reader, bounds, found):
            yield after._replace(readers=(*world.readers[:number], becomes, *world.readers[number + 1 :]))


def _sent(world: World, member: int, operation: int, request: Request) -> Iterator[tuple[World, Guard | str]]:
    """The world after a request, and its answer: a refusal, "applied" or "unknown"."""
    refusal = world.refusal(request)
    done = world if refusal is not None else world.applied(request)
    yield done, refusal or "applied"
    if world.unknowns:
        yield done._replace(unknowns=world.unknowns - 1), "unknown"
        flight = Flight(member, operation, request)
        yield world._replace(unknowns=world.unknowns - 1, flights=world.flights | {flight}), "unknown"


def _leads(world: World, bounds: Bounds) -> Iterator[World]:
    for after, becomes in _leader_steps(world, world.leader, bounds):
        yield after._replace(leader=becomes)


def _over(leader: Leader) -> Leader:
    return Leader(operation=leader.operation, sight=leader.sight)


def _refused(world: World, leader: Leader, sight: Sight | None) -> tuple[World, Leader]:
    """The operation ends, and its new blob goes."""
    return world._replace(blobs=world.blobs - {leader.operation}), _over(leader)._replace(sight=sight)


def _leader_steps(world: World, leader: Leader, bounds: Bounds) -> Iterator[tuple[World, Leader]]:  # noqa: PLR0912 - a life from its beginning to its end
    handles = {HANDLE} if leader.kind in REMOVES else set[Key]()
    new = leader.operation
    match leader.step:
        case "is idle" if leader.operation < bounds.operations:
            handle = world.read(HANDLE)
            begun = leader._replace(operation=new + 1, handle=handle, step="looks")
            with_blob = world._replace(blobs=world.blobs | {new + 1})
            if handle is None:
                yield with_blob, begun._replace(kind="add")
            else:
                yield with_blob, begun._replace(kind="replace")
                yield world, begun._replace(kind="remove")
                if world.read(OTHER) is None:
                    yield with_blob, begun._replace(kind="take its place")
        case "looks":
            sight = leader.sight
            if bounds.lists_first and handles and (sight is None or anchor_rules.may_be_locked(sight, handles)):
                early = anchor_rules.listed(Sight(Absent(AREA)), world.locks())
                yield world, leader._replace(step="has listed", sight=early)
            elif sight is None:
                yield world, leader._replace(sight=anchor_rules.anchor_of(AREA, world.read(AREA)))
            elif anchor_rules.may_be_locked(sight, handles):
                if sight.locked is not None:  # by a lock, which has moved the anchor perhaps
                    now = anchor_rules.anchor_of(AREA, world.read(AREA))
                    sight = sight if now.anchor == sight.anchor else now
                if anchor_rules.is_pinned(sight, handles):
                    yield _refused(world, leader, sight)
                else:
                    yield world, leader._replace(sight=sight, step="lists")
            else:
                yield world, _sending(leader, sight)
        case "lists":
            assert leader.sight is not None
            sight = anchor_rules.listed(leader.sight, world.locks())
            if anchor_rules.may_be_locked(sight, handles):
                yield _refused(world, leader, sight)
            else:
                yield world, leader._replace(sight=sight, step="looks")
        case "has listed":  # the wrong order
            assert leader.sight is not None
            sight = replace(anchor_rules.anchor_of(AREA, world.read(AREA)), locked=leader.sight.locked)
            locked = HANDLE in (sight.locked or ())
            yield _refused(world, leader, None) if locked else (world, _sending(leader, sight))
        case "sends":
            for after, answer in _sent(world, -1, leader.operation, leader.request):
                yield from _answered(after, leader, answer, bounds)
        case "voids":
            assert leader.sight is not None
            void: Request = ((), (anchor_rules.move(leader.sight, AREA, f"void {new}".encode()),))
            after = world if world.refusal(void) is not None else world.applied(void)
            yield after, leader._replace(step="reads back", sight=None)
        case "reads back":
            own: Request = ((), tuple(write for write in leader.request[1] if write.key != AREA))
            if world.shows(own):
                yield world, leader._replace(step="has committed")
            else:
                yield world, leader._replace(step="looks", doubt=False)
        case "has committed":
            if leader.kind == "add":
                yield world, _over(leader)
            elif leader.kind == "replace" and (
                leader.sight is None or anchor_rules.may_be_locked(leader.sight, {HANDLE})
            ):
                assert leader.handle is not None
                named = any(lock.value == leader.handle.value for lock in world.locks())
                yield world, _over(leader) if named else leader._replace(step="deletes")
            else:
                yield world, leader._replace(step="deletes")
        case "deletes":
            assert leader.handle is not None
            yield world._replace(blobs=world.blobs - {blob_of(leader.handle)}), _over(leader)


def _sending(leader: Leader, sight: Sight) -> Leader:
    value = str(leader.operation).encode()
    guards, writes = anchor_rules.presented(sight, AREA, b"by " + value, moves=leader.kind in REMOVES)
    version = None if leader.handle is None else leader.handle.version
    own: list[Write] = []
    if leader.kind == "take its place":
        own.append(Put(OTHER, value, replaces=None))
    if leader.kind in REMOVES:
        assert version is not None
        own.append(Delete(HANDLE, version))
    else:
        own.append(Put(HANDLE, value, replaces=version))
    return leader._replace(step="sends", sight=sight, request=(guards, (*own, *writes)))


def _answered(world: World, leader: Leader, answer: Guard | str, bounds: Bounds) -> Iterator[tuple[World, Leader]]:
    sight = leader.sight
    assert sight is not None
    if answer == "unknown":
        yield world, leader._replace(doubt=True)
    elif answer == "applied" or (leader.doubt and answer not in leader.request[0] and world.shows(leader.request)):
        anchor = world.read(AREA)
        assert anchor is not None
        if any(write.key == AREA for write in leader.request[1]):
            sight = anchor_rules.moved(sight, AREA, anchor.version)
        yield world, leader._replace(step="has committed", sight=sight)
    elif leader.doubt:
        yield world, leader._replace(step="voids")
    elif answer == sight.anchor:
        anew = None
        if bounds.keeps_locks:
            anew = replace(anchor_rules.anchor_of(AREA, world.read(AREA)), locked=sight.locked)
        yield world, leader._replace(step="looks", sight=anew)
    else:
        yield _refused(world, leader, None)


def _reads(  # noqa: PLR0912 - a life from its beginning to its end
    world: World, number: int, reader: Reader, bounds: Bounds, found: set[str]
) -> Iterator[tuple[World, Reader]]:
    if reader.step == "is dead":
        return
    kept = tuple(record for record in world.records if record.session != session_of(number))
    yield world._replace(records=kept), Reader("is dead")
    match reader.step:
        case "is idle" if reader.operation < bounds.locks:
            begun = Reader("looks", reader.operation + 1)
            if bounds.handle_first:
                yield world, begun._replace(handle=world.read(HANDLE))
            else:
                yield world, begun._replace(sight=anchor_rules.anchor_of(AREA, world.read(AREA)))
        case "looks":
            sight = reader.sight or anchor_rules.anchor_of(AREA, world.read(AREA))
            handle = reader.handle or world.read(HANDLE)
            if handle is None:
                yield world, Reader(operation=reader.operation)
                return
            made = 0 if bounds.locks_anew else reader.operation
            begins = anchor_rules.PIN if bounds.pins else anchor_rules.LOCK
            key = HANDLE.child(f"{begins}{number}-{made}")
            session = None if bounds.pins else session_of(number)
            request = anchor_rules.lock_request(
                sight,
                AREA,
                f"of {number}-{reader.operation}".encode(),
                handle=Exact(HANDLE, handle.version),
                lock=Put(key, handle.value, replaces=None, session=session),
            )
            yield world, reader._replace(step="sends", handle=handle, request=request, held=key)
        case "sends":
            for after, answer in _sent(world, number, reader.operation, reader.request):
                if answer == "unknown":
                    yield after, reader._replace(doubt=True)
                    yield after, Reader(operation=reader.operation)  # it gives up
                elif answer == "applied":
                    yield after, reader._replace(step="holds")
                elif reader.doubt:
                    yield after, reader._replace(step="reads back")
                else:
                    yield after, Reader(operation=reader.operation)
        case "reads back":
            assert reader.held is not None
            there = world.read(reader.held) is not None
            yield world, reader._replace(step="holds") if there else Reader(operation=reader.operation)
        case "holds":
            assert reader.held is not None
            assert reader.handle is not None
            if world.read(reader.held) is None:
                found.add("a lock is believed that is not there")
            if blob_of(reader.handle) not in world.blobs:
                found.add("a locked blob is gone")
            end = Delete(reader.held, Version("0"))
            release: Request = ((), (end,))
            if bounds.pins:
                seen = anchor_rules.anchor_of(AREA, world.read(AREA))
                release = anchor_rules.unpin_request(seen, AREA, f"ends {reader.held}".encode(), pin=end)
            yield world, Reader("releases", reader.operation, request=release)
        case "releases":
            for after, answer in _sent(world, number, reader.operation, reader.request):
                if answer == "unknown":
                    yield after, reader
                yield after, Reader(operation=reader.operation)  # it has released the lock, or gives up
