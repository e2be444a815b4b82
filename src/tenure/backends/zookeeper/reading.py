"""Reads over one connection, many at a time: all requests are sent at once, and their answers awaited together. Many
nodes go in one request: ZooKeeper's multi-read, which kazoo does not offer.

Promise: an answer is as new as every earlier answer on this connection. A multi-read has one answer for each path, in
their order: data and stat, or the error of this path. One round trip replaces many turns of kazoo's thread. Servers
older than 3.6 have no such request.

Not promised: that the nodes are read at one instant. Uses `KazooClient._call`, `_prefix_root` and kazoo's parts of
requests, which kazoo does not document, so its version is pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, KazooException, NoNodeError
from kazoo.protocol.paths import _prefix_root
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, multiheader_struct, stat_struct

from tenure.backends.zookeeper.connection import Connection, barrier
from tenure.backends.zookeeper.errors import NOT_ANSWERED, unavailable
from tenure.backends.zookeeper.multi import MARKERS, NodeState, key_of, node_name, session_name
from tenure.coordination.records import Key, Record, Scope

Found = tuple[bytes | None, Any]
"""A node as kazoo reads it: data (None: no data, as after `zkCli.sh create`) and stat."""


def ask(connection: Connection, request: Callable[[KazooClient], Sequence[Any]], what: str) -> list[Any]:
    """The answers to reads, NoNodeError included. Raises StoreUnavailable."""
    try:
        return _good(connection.ask(request), what)
    except NOT_ANSWERED as error:
        raise unavailable(error, what) from error


def nodes_at(connection: Connection, paths: Sequence[str]) -> dict[str, Found | None]:
    """The nodes at these full paths; None: there is no node."""
    what = "read records"
    parts = [paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE)]
    answers = ask(connection, lambda client: [read_async(client, part) for part in parts], what)
    found = _good([node for part in answers for node in part], what)
    return {path: None if isinstance(node, NoNodeError) else node for path, node in zip(paths, found, strict=True)}


def listing(connection: Connection, scope: Scope, prefix: str) -> tuple[list[Record], int, int]:
    """All records strictly below `prefix`, and the scope's revision before and after they were read."""

    def request(client: KazooClient) -> Sequence[Any]:
        asked = [barrier(client), *ask_revision(client, scope)]
        return [*asked, client.get_children_async(f"/{scope}"), *ask_revision(client, scope)]

    _, root, markers, names, root_after, markers_after = ask(connection, request, "list records")
    before, after = revision_of(root, markers), revision_of(root_after, markers_after)
    keys = [key_of(name) for name in names] if not isinstance(names, NoNodeError) else []
    wanted = {path_of(scope, key): key for key in keys if key is not None and key.is_under(prefix)}
    if not wanted:
        return [], before, after
    found = nodes_at(connection, list(wanted))
    records = [record for path, node in found.items() if (record := record_of(wanted[path], node)) is not None]
    return records, before, read_revision(connection, scope)


def read_revision(connection: Connection, scope: Scope) -> int:
    """The scope's revision. Without a barrier: at least as new as the answers before."""
    return revision_of(*ask(connection, lambda client: ask_revision(client, scope), "read a revision"))


def ask_revision(client: KazooClient, scope: Scope) -> list[Any]:
    """Ask for the arguments of `revision_of`."""
    return [client.exists_async(f"/{scope}"), client.exists_async(f"/{scope}/{MARKERS}")]


def revision_of(root: Any, markers: Any) -> int:
    """The scope's revision: the newest commit, or end of a session, by the stats of its two nodes; None: no node."""
    return 0 if root is None else max(root.mzxid, 0 if markers is None else markers.pzxid)


def _good(answers: list[Any], what: str) -> list[Any]:
    for answer in answers:
        if isinstance(answer, KazooException) and not isinstance(answer, NoNodeError):
            raise unavailable(answer, what)
    return answers


def path_of(scope: Scope, key: Key) -> str:
    """The full path of a record's node."""
    return f"/{scope}/{node_name(key)}"


def record_of(key: Key, found: Found | None) -> Record | None:
    """The record of a node; None: there is no node, or one without data, which another program has made."""
    if found is None:
        return None
    data, stat = found
    if data is None:
        return None
    session = session_name(stat.ephemeralOwner) if stat.ephemeralOwner else None
    return Record(key, data, NodeState(stat.mzxid, stat.version, session).version(), session)


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
