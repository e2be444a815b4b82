"""What a commit of an area presents, and when the locks have to be listed.

Promise: pure. A lock moves the anchor of its area, as a removal does, and each commit presents the anchor. So a writer
that listed the locks under an anchor knows all locks for as long as that anchor stands: a lock committed before is in
the listing, a later lock has moved the anchor. The rule rests on no order or hierarchy of keys, and on no store's
listing at one instant (FLINK-6612, FLINK-11809). A lock that is gone meanwhile costs one more listing.
A pin is a lock without a session. It lasts, so its end moves the anchor, too, and a known pin costs no listing.
`tests/unit/handles/test_anchor_edges.py` explores every interleaving.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from tenure.coordination.records import Absent, Delete, Exact, Guard, Key, Put, Record, Version, Write

LOCK: Final = "lock-"
"""Begins the last segment of a lock's key, below the key of its handle."""

PIN: Final = f"{LOCK}pin-"
"""Begins that of a pin."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The anchor of an area as it was last read or moved."""

    anchor: Guard
    locked: frozenset[Key] | None = None
    """The handles that may be locked while this anchor stands, and no others; None: the locks were not listed."""
    pinned: frozenset[Key] = frozenset()
    """Those of them that are pinned for as long as this anchor stands."""


def anchor_of(area: Key, record: Record | None) -> Sight:
    """The anchor that was read now; its locks are not known."""
    return Sight(Absent(area) if record is None else Exact(area, record.version))


def may_be_locked(sight: Sight, handles: Collection[Key]) -> bool:
    """Whether the locks have to be listed before these handles go."""
    return bool(handles) and (sight.locked is None or not sight.locked.isdisjoint(handles))


def is_pinned(sight: Sight, handles: Collection[Key]) -> bool:
    """Whether any of the handles is pinned for as long as the anchor of the sight stands."""
    return not sight.pinned.isdisjoint(handles)


def listed(sight: Sight, records: Iterable[Record]) -> Sight:
    """The sight after a listing of the area that began when its anchor was known already."""
    locks = {record.key: key for record in records if (key := locked_by(record.key)) is not None}
    pinned = frozenset(key for lock, key in locks.items() if lock.name.startswith(PIN))
    return replace(sight, locked=frozenset(locks.values()), pinned=pinned)


def locked_by(key: Key) -> Key | None:
    """The handle that a record at `key` locks; None: the record is no lock."""
    handle, _, name = key.rpartition("/")
    return Key(handle) if handle and name.startswith(LOCK) else None


def moved(sight: Sight, area: Key, version: Version) -> Sight:
    """The sight after a commit of ours has moved the anchor that it presented: no lock came between."""
    return replace(sight, anchor=Exact(area, version))


def move(sight: Sight, area: Key, value: bytes) -> Put:
    """Moves the anchor away from the sight: no request that presented that anchor can apply any more."""
    return Put(area, value, replaces=sight.anchor.version if isinstance(sight.anchor, Exact) else None)


def presented(sight: Sight, area: Key, value: bytes, *, moves: bool) -> tuple[tuple[Guard, ...], tuple[Write, ...]]:
    """The guards and writes by which a commit presents the anchor. `moves`: the commit removes a handle."""
    if isinstance(sight.anchor, Exact) and not moves:
        return (sight.anchor,), ()
    return (), (move(sight, area, value),)


def lock_request(
    sight: Sight, area: Key, value: bytes, *, handle: Exact, lock: Put
) -> tuple[tuple[Guard, ...], tuple[Write, ...]]:
    """The guards and writes of a lock: while the handle stands as it was read, and with a move of the anchor."""
    return (handle,), (lock, move(sight, area, value))


def unpin_request(sight: Sight, area: Key, value: bytes, *, pin: Delete) -> tuple[tuple[Guard, ...], tuple[Write, ...]]:
    """The guards and writes that end a pin. The anchor moves, since a writer may know the pin."""
    return (), (pin, move(sight, area, value))
