"""Reads over one connection, many at a time: all requests are sent at once, and their answers awaited together.

Promise: an answer is as new as every earlier answer on this connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError, UnimplementedError

from tenure.backends.zookeeper.connection import Connection, barrier
from tenure.backends.zookeeper.errors import NOT_ANSWERED, unavailable
from tenure.backends.zookeeper.multi_read import AT_ONCE, read_async
from tenure.backends.zookeeper.plan import MARKERS, RECORD, Node, State
from tenure.backends.zookeeper.session import session_name
from tenure.coordination.records import Key, Record, Scope

Found = tuple[bytes | None, Any]
"""A node as kazoo reads it: data (None: no data, as after `zkCli.sh create`) and stat."""


def ask(connection: Connection, request: Callable[[KazooClient], Sequence[Any]], what: str) -> list[Any]:
    """The answers to reads, NoNodeError included. Raises StoreUnavailable."""
    return _good(_answers(connection, request, what), what)


def nodes_at(connection: Connection, paths: Sequence[str]) -> dict[str, Found | None]:
    """The nodes at these full paths; None: there is no node."""
    what = "read records"
    if len(paths) > 1 and connection.reads_many:
        parts = [paths[start : start + AT_ONCE] for start in range(0, len(paths), AT_ONCE)]
        answers = _answers(connection, lambda client: [read_async(client, part) for part in parts], what)
        if any(isinstance(answer, UnimplementedError) for answer in answers):
            connection.reads_many = False
            return nodes_at(connection, paths)
        found = _good([node for part in _good(answers, what) for node in part], what)
    else:
        found = ask(connection, lambda client: [client.get_async(path) for path in paths], what)
    return {path: None if isinstance(node, NoNodeError) else node for path, node in zip(paths, found, strict=True)}


def nodes_below(connection: Connection, scope: Scope, tops: Iterable[str]) -> dict[str, Found]:
    """All nodes strictly below these: path -> data and stat, without nodes that go meanwhile."""
    return _with_those_below(connection, scope, _children(connection, [_full(scope, top) for top in tops]))


def listing(connection: Connection, scope: Scope, top: str) -> tuple[dict[str, Found], int, int]:
    """All nodes strictly below `top`, and the scope's revision before and after they were read."""

    def request(client: KazooClient) -> Sequence[Any]:
        asked = [barrier(client), *ask_revision(client, scope)]
        return [*asked, client.get_children_async(_full(scope, top)), *ask_revision(client, scope)]

    _, root, markers, names, root_after, markers_after = ask(connection, request, "list records")
    before, after = revision_of(root, markers), revision_of(root_after, markers_after)
    paths = [] if isinstance(names, NoNodeError) else _named(_full(scope, top), names)
    if not paths:
        return {}, before, after
    found = _with_those_below(connection, scope, paths)
    return found, before, revision_of(*ask(connection, lambda client: ask_revision(client, scope), "read a revision"))


def ask_revision(client: KazooClient, scope: Scope) -> list[Any]:
    """Ask for the arguments of `revision_of`. Without a barrier: at least as new as the reads before."""
    return [client.exists_async(f"/{scope}"), client.exists_async(f"/{scope}/{MARKERS}")]


def revision_of(root: Any, markers: Any) -> int:
    """The scope's revision: the newest commit, or end of a session, by the stats of its two nodes; None: no node."""
    return 0 if root is None else max(root.mzxid, 0 if markers is None else markers.pzxid)


def _with_those_below(connection: Connection, scope: Scope, level: Sequence[str]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    while level:
        there = {path: node for path, node in nodes_at(connection, level).items() if node is not None}
        found |= there
        parents = [path for path, (_, stat) in there.items() if stat.numChildren]
        level = _children(connection, parents) if parents else []
    start = len(f"/{scope}/")
    return {path[start:]: node for path, node in found.items()}


def _children(connection: Connection, parents: Sequence[str]) -> list[str]:
    found = ask(connection, lambda client: [client.get_children_async(path) for path in parents], "list records")
    there = [(path, names) for path, names in zip(parents, found, strict=True) if not isinstance(names, NoNodeError)]
    return [child for path, names in there for child in _named(path, names)]


def _named(parent: str, names: Iterable[str]) -> list[str]:
    return [f"{parent}/{name}" for name in names if name != MARKERS]


def _full(scope: Scope, path: str) -> str:
    return f"/{scope}/{path}".rstrip("/")


def _answers(connection: Connection, request: Callable[[KazooClient], Sequence[Any]], what: str) -> list[Any]:
    try:
        return connection.ask(request)
    except NOT_ANSWERED as error:
        raise unavailable(error, what) from error


def _good(answers: list[Any], what: str) -> list[Any]:
    for answer in answers:
        if isinstance(answer, KazooException) and not isinstance(answer, NoNodeError):
            raise unavailable(answer, what)
    return answers


def node_of(found: Found) -> Node:
    """The node as the plan of a commit needs it."""
    data, stat = found
    session = session_name(stat.ephemeralOwner) if stat.ephemeralOwner else None
    return Node(State(stat.mzxid, stat.version, session), is_record=data is not None and data[:1] == RECORD)


def record_of(path: str, found: Found) -> Record | None:
    """The record of a node; None: the node is a folder."""
    data, _ = found
    node = node_of(found)
    if data is None or not node.is_record:
        return None
    return Record(Key(path), data[len(RECORD) :], node.state.version(), node.state.session)
