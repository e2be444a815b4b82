"""Many nodes in one request: ZooKeeper's multi-read, which kazoo does not offer.

Promise: one answer for each path, in their order: data and stat, or the error of this path. One round trip replaces
many turns of kazoo's thread. Servers older than 3.6 have no such request.

Not promised: that the nodes are read at one instant. Uses `KazooClient._call`, `_prefix_root` and kazoo's parts of
requests, which kazoo does not document, so its version is pinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.paths import _prefix_root
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, multiheader_struct, stat_struct

AT_ONCE: Final = 100
"""Nodes of one request: a server makes the whole answer before it sends that, and a node can have a megabyte."""


class MultiRead:
    """The request, as kazoo's connection sends it and reads its answer."""

    type: Final = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytearray:
        """The operations, each behind a header, and a last header."""
        packed = bytearray()
        for path in self._paths:
            packed += MultiHeader(GetData.type, False, -1).serialize() + GetData(path, None).serialize()
        packed += multiheader_struct.pack(-1, True, -1)
        return packed

    def deserialize(self, packed: bytes, offset: int) -> list[Any]:
        """Data (None: the node has none) and stat for each path, or an error."""
        found: list[Any] = []
        header, offset = MultiHeader.deserialize(packed, offset)
        while not header.done:
            if header.type == GetData.type:
                data, stat = GetData.deserialize(packed, offset)
                offset += int_struct.size + len(data or b"") + stat_struct.size
                found.append((data, stat))
            else:
                found.append(EXCEPTIONS[int_struct.unpack_from(packed, offset)[0]]())
                offset += int_struct.size
            header, offset = MultiHeader.deserialize(packed, offset)
        if len(found) != len(self._paths):
            raise ValueError(f"{len(found)} answers to {len(self._paths)} reads")
        return found


def read_async(client: KazooClient, paths: Sequence[str]) -> Any:
    """Ask for these nodes; kazoo's promise of the answers."""
    answer = client.handler.async_result()
    client._call(MultiRead([_prefix_root(client.chroot, path) for path in paths]), answer)
    return answer
