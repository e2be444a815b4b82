"""Who reads the blobs: this thread where they are near, several where they are waited for."""

from __future__ import annotations

import threading

import pytest

from tenure.coordination.records import Key, Version
from tenure.errors import CorruptBlob
from tenure.handles.handle import Handle
from tenure.handles.store import read_all
from tenure.storage.blobs import Blob
from tests.kit.clock import ManualClock


def handles(count: int, *, inline: int = 0) -> list[Handle]:
    made = [Handle(Key(f"h/i{n}"), Version("1"), 1, b"here", None) for n in range(inline)]
    return made + [Handle(Key(f"h/b{n:03d}"), Version("1"), 1, None, Blob(f"b{n}", 1, "")) for n in range(count)]


class Storage:
    """Gives each blob's name, after a while."""

    def __init__(self, clock: ManualClock, *, takes_s: float) -> None:
        self._clock = clock
        self._takes_s = takes_s
        self.read_by: dict[str, int] = {}

    def read(self, handle: Handle) -> bytes | None:
        assert handle.name not in self.read_by, "it is read twice"
        self.read_by[handle.name] = threading.get_ident()
        if self._takes_s:
            self._clock.sleep(self._takes_s)
        return handle.name.encode()


@pytest.mark.parametrize("takes_s", [0, 0.03])
@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 64, 100, 1000])
def test_each_blob_is_read_once_and_the_order_stays(count: int, takes_s: float) -> None:
    clock = ManualClock(sleeping_advances=True)
    storage = Storage(clock, takes_s=takes_s)
    wanted = handles(count, inline=2)
    found = read_all(wanted, storage.read, clock=clock)
    assert list(found) == [handle.name for handle in wanted]
    assert all(data == (b"here" if name[0] == "i" else name.encode()) for name, data in found.items())
    assert len(storage.read_by) == count


@pytest.mark.parametrize(("takes_s", "alone"), [(0, True), (0.0001, True), (0.03, False)])
def test_a_storage_that_is_waited_for_is_read_by_several(takes_s: float, alone: bool) -> None:
    clock = ManualClock(sleeping_advances=True)
    storage = Storage(clock, takes_s=takes_s)
    read_all(handles(64), storage.read, clock=clock)
    mine = [name for name, thread in storage.read_by.items() if thread == threading.get_ident()]
    assert len(mine) == (64 if alone else 2)


@pytest.mark.parametrize("takes_s", [0, 0.03])
def test_what_cannot_be_read_is_raised(takes_s: float) -> None:
    clock = ManualClock(sleeping_advances=True)
    storage = Storage(clock, takes_s=takes_s)

    def read(handle: Handle) -> bytes | None:
        if handle.name == "b050":
            raise CorruptBlob("b050")
        return storage.read(handle)

    with pytest.raises(CorruptBlob, match="b050"):
        read_all(handles(64), read, clock=clock)
