"""Reads over one connection, many at a time: what is asked is sent at once, and the answers are waited for together.

Promise: what an answer says was so after everything that this connection was answered before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError

from tenure.backends.zookeeper.connection import Connection
from tenure.backends.zookeeper.errors import NOT_ANSWERED, unavailable
from tenure.backends.zookeeper.plan import MARKERS, RECORD, Node, State
from tenure.backends.zookeeper.session import session_name
from tenure.coordination.records import Key, Record, Scope

Found = tuple[bytes, Any]
"""A node as kazoo reads it: data and stat."""


def ask(connection: Connection, request: Callable[[KazooClient], Sequence[Any]], what: str) -> list[Any]:
    """Read. An answer may be that there is no such node. Raises StoreUnavailable for any other."""
    try:
        answers = connection.ask(request)
    except NOT_ANSWERED as error:
        raise unavailable(error, what) from error
    for answer in answers:
        if isinstance(answer, KazooException) and not isinstance(answer, NoNodeError):
            raise unavailable(answer, what)
    return answers


def nodes_at(connection: Connection, paths: Sequence[str]) -> dict[str, Found | None]:
    """The nodes at these full paths; None: there is none."""
    found = ask(connection, lambda client: [client.get_async(path) for path in paths], "read records")
    return {path: None if isinstance(node, NoNodeError) else node for path, node in zip(paths, found, strict=True)}


def nodes_below(connection: Connection, scope: Scope, tops: Iterable[str]) -> dict[str, Found]:
    """All nodes strictly below these: path -> data and stat. Those that go meanwhile are left out."""
    found: dict[str, Found] = {}
    level = [f"/{scope}/{top}".rstrip("/") for top in tops]
    while level:
        paths = _children(connection, level)
        there = {path: node for path, node in nodes_at(connection, paths).items() if node is not None}
        found |= there
        level = [path for path, (_, stat) in there.items() if stat.numChildren]
    start = len(f"/{scope}/")
    return {path[start:]: node for path, node in found.items()}


def _children(connection: Connection, parents: Sequence[str]) -> list[str]:
    found = ask(connection, lambda client: [client.get_children_async(path) for path in parents], "list records")
    named = [(path, names) for path, names in zip(parents, found, strict=True) if not isinstance(names, NoNodeError)]
    return [f"{path}/{name}" for path, names in named for name in names if name != MARKERS]


def node_of(found: Found) -> Node:
    """What the planning of a commit needs to know of it."""
    data, stat = found
    session = session_name(stat.ephemeralOwner) if stat.ephemeralOwner else None
    return Node(State(stat.mzxid, stat.version, session), is_record=data[:1] == RECORD)


def record_of(path: str, found: Found) -> Record | None:
    """None: it is a folder."""
    node = node_of(found)
    if not node.is_record:
        return None
    return Record(Key(path), found[0][len(RECORD) :], node.state.version(), node.state.session)
