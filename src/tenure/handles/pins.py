"""Pins: locks of operators on handles, which outlive every session.

Promise: a pin is committed only while its handle stands as it was read, and it moves the anchor of the area, as a lock
does. So a pin and a removal at the same time are never both committed (`anchor_rules`). A handle has at most one
pin. The end of a pin moves the anchor, too, so a late request ends no later pin. Not promised: that a command whose
outcome is unknown did nothing; a pin that arrives late protects a handle that stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final

from tenure.clock import Clock
from tenure.coordination.encoding import decode_as, encode, new_uid
from tenure.coordination.reading import read_again
from tenure.coordination.records import Delete, Exact, Key, Put, Record, Scope, Version
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed, HandleNotFound
from tenure.handles.anchor import AGAIN, Anchor, moves_too_fast
from tenure.handles.anchor_rules import PIN, locked_by
from tenure.handles.handle import decode_handle

_DEPTH: Final = 3
"""The separators in the key of a pin. The name of a handle or of an area may begin like that of a pin."""

COPY: Final = "copy"
"""The field of a pin's record that has the path of its copy."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A pin on a handle, as its record has it."""

    key: Key
    version: Version
    by: str
    at: str
    """Wall clock (ISO 8601, UTC), for people."""
    reason: str
    blob: str
    """The address of the handle's blob; empty: its payload is in the record."""
    protects: str
    """The path below the storage that the handle named; no sweep removes it. (`PROTECTS` of a lock.)"""
    copy: str
    """The path below the storage of the pin's own copy of that; no sweep removes it."""
    whole: bool = False
    """Whether the copy is whole."""

    @property
    def handle(self) -> Key:
        """The key of the pinned handle."""
        return Key(self.key.rpartition("/")[0])

    def encode(self) -> bytes:
        """The bytes of its record. `uid` makes each write another."""
        fields = {name: value for name, value in asdict(self).items() if name not in ("key", "version")}
        return encode({**fields, "uid": new_uid()})


class Pins:
    """The pins on the handles of one area. Thread-safe."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, area: Key, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._area = area
        self._clock = clock
        self._anchor = Anchor(store, scope, area=area, clock=clock)

    def pin(self, name: str, wanted: Pin, *, expected: Version) -> tuple[Pin, bool]:
        """Pin the handle `name` while it has the version `expected`; return its pin, and whether it is new. `wanted`:
        all but its key, version and blob. A handle that is pinned keeps its pin.

        Raises HandleNotFound (the handle is gone, or was replaced), CorruptHandle, CorruptRecord, StoreUnavailable,
        OutcomeUnknown (see above).
        """
        handle_key = self._area.child(name)
        for delay_s in (0.0, *AGAIN.delays_s()):
            self._clock.sleep(delay_s)
            sight = self._anchor.read()  # before the handle and its pins, as for a lock
            records = read_again(lambda: self._store.list(self._scope, self._area), clock=self._clock).records
            found = next((pin for pin in pins_in(records) if pin.handle == handle_key), None)
            if found is not None:
                return found, False
            record = next((record for record in records if record.key == handle_key), None)
            if record is None or record.version != expected:
                raise HandleNotFound(f"handle {handle_key!r} is gone, or was replaced since it was read")
            blob = decode_handle(record).blob
            made = replace(wanted, key=handle_key.child(f"{PIN}{new_uid()}"), blob="" if blob is None else blob.address)
            put = Put(made.key, made.encode(), replaces=None)
            version = self._anchor.lock(sight, handle=Exact(handle_key, record.version), lock=put)
            if version is not None:
                return replace(made, version=version), True
        raise moves_too_fast(self._area)

    def change(self, pin: Pin) -> Pin | None:
        """Write the pin as it is now, in the place of its version; None: it is gone, or another command has changed it.
        Raises StoreUnavailable, OutcomeUnknown."""
        try:
            versions = self._anchor.settled((), (Put(pin.key, pin.encode(), replaces=pin.version),))
        except GuardFailed:
            return None
        return replace(pin, version=versions[pin.key])

    def end(self, name: str, *, only: Pin | None = None) -> Pin | None:
        """End the pin of the handle `name`, and return it; None: it has none. `only`: no other pin, and no changed one;
        None: any. Raises CorruptRecord, StoreUnavailable, OutcomeUnknown."""
        handle_key = self._area.child(name)
        ended: Pin | None = None
        for delay_s in (0.0, *AGAIN.delays_s()):
            self._clock.sleep(delay_s)
            sight = self._anchor.read()
            records = read_again(lambda: self._store.list(self._scope, handle_key), clock=self._clock).records
            pin = next((pin for pin in pins_in(records) if pin.handle == handle_key), None)
            if pin is None or (only is not None and (pin.key, pin.version) != (only.key, only.version)):
                return ended
            if self._anchor.unpin(sight, Delete(pin.key, pin.version)):
                return pin
            ended = pin  # perhaps by an earlier request of this call
        raise moves_too_fast(self._area)


def pins_in(records: Iterable[Record]) -> list[Pin]:
    """The pins among the records of a scope. Raises CorruptRecord."""
    return [decode_as(Pin, record, key=record.key, version=record.version) for record in records if is_pin(record)]


def is_pin(record: Record) -> bool:
    """Whether a record is a pin."""
    is_lock = locked_by(record.key) is not None and record.key.count("/") == _DEPTH
    return is_lock and record.session is None and record.key.name.startswith(PIN)
