"""A watch on a node and all nodes below it that stays: ZooKeeper's persistent recursive watch, which kazoo lacks.

Promise: each change of a node below is one event, also while the watch is answered. The watch ends with the line.
Servers older than 3.6 have no such watch. Uses `KazooClient._call` and `_prefix_root`, which kazoo does not document,
so its version is pinned.
"""

from __future__ import annotations

from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.protocol.paths import _prefix_root
from kazoo.protocol.serialization import int_struct, write_string

_RECURSIVE: Final = 1


class AddWatch:
    """The request, as kazoo's connection sends it."""

    type: Final = 106

    def __init__(self, path: str) -> None:
        self._path = path

    def serialize(self) -> bytearray:
        """The path, and the kind of watch."""
        packed = bytearray(write_string(self._path))
        packed += int_struct.pack(_RECURSIVE)
        return packed

    def deserialize(self, packed: bytes, offset: int) -> bool:
        """The answer has nothing but its error."""
        return True


def watch_async(client: KazooClient, path: str) -> Any:
    """Ask for the watch; kazoo's promise of the answer."""
    answer = client.handler.async_result()
    client._call(AddWatch(_prefix_root(client.chroot, path)), answer)
    return answer
