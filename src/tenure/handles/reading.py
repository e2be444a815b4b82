"""The payloads of many handles.

Promise: each is read once, by the function that is given, here or in a thread; what that raises is raised. A disk
nearby is read by one thread, since to hand a small blob over costs more than to read it; a storage that is waited for,
by several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tenure.clock import Clock
from tenure.handles.handle import Handle

READERS: Final = 8
_SLICES: Final = 4 * READERS
"""Into so many parts what is to be read is cut, where there is enough of it."""

_NEARBY_S: Final = 0.0002
"""A blob that takes longer is waited for, in most of that time."""


def read_all(
    handles: Sequence[Handle], read: Callable[[Handle], bytes | None], *, clock: Clock
) -> dict[str, bytes | None]:
    """What is in the handles, or what `read` returns for those with a blob, by name and in their order."""
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
