"""The payloads of many handles.

Promise: each payload is read once, and the errors of `read` are raised. This thread reads a disk nearby, since handing
over a small blob costs more than reading it. Several threads read a storage that answers slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tenure.clock import Clock
from tenure.handles.handle import Handle

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
