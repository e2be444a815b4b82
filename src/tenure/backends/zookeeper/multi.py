"""From a commit of the contract to the operations of one ZooKeeper multi.

Promise: pure. A record is a node directly below the node of its scope; its data is the value. The operations depend on
the commit alone. When ZooKeeper refuses the multi, nothing was written, and the store reads the nodes: a guard does not
hold (`first_failing`), or the nodes have changed meanwhile, and the store tries again.

ZooKeeper compares only the number of changes since a node was made. A record that was deleted and made anew can have
the same number as before (`Guarantees.versions_survive_deletion` is false). For a record of a session the multi also
checks that the session lives. ZooKeeper has no operation for "there is no node": where the commit does not make the
record itself, the multi makes a node and removes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.coordination.records import Exact, Guard, Key, Put, SessionId, Version, Write, implied_guard, wanted_version

MARKERS: Final = "~sessions"
"""Below a scope: a node for each living session that has bound a record in the scope. No key can have this name."""

_SLASH: Final = ":"
"""Stands for the slash of a key in the name of its node. No key has a colon."""


def node_name(key: Key) -> str:
    """The name of the node of a record below the node of its scope."""
    return key.replace("/", _SLASH)


def session_name(number: int) -> SessionId:
    """ZooKeeper's number of a session, as ZooKeeper prints it."""
    return SessionId(f"0x{number & 0xFFFF_FFFF_FFFF_FFFF:x}")


def key_of(name: str) -> Key | None:
    """The key of a node below the node of a scope; None: the node is no record."""
    return Key.found(name.replace(_SLASH, "/"))


def marker_of(session: SessionId) -> str:
    """The path of a session's marker."""
    return f"{MARKERS}/{session}"


@dataclass(frozen=True, slots=True)
class NodeState:
    """The content of a version: the transaction that wrote the node, the number of changes since the node was made, and
    the session that owns it (None: no session)."""

    zxid: int
    changes: int
    session: SessionId | None

    def version(self) -> Version:
        """The contract's opaque version."""
        return Version(f"{self.zxid:x}.{self.changes}.{self.session or ''}")


def state_of(version: Version) -> NodeState:
    """The state that `NodeState.version` encoded."""
    zxid, changes, session = version.split(".", 2)
    return NodeState(int(zxid, 16), int(changes), SessionId(session) if session else None)


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    changes: int


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    changes: int


@dataclass(frozen=True, slots=True)
class Remove:
    path: str
    changes: int


Operation = Check | Create | SetData | Remove


@dataclass(frozen=True, slots=True)
class Multi:
    """The operations, and the state of each put after them: changes and session."""

    operations: tuple[Operation, ...]
    puts: Mapping[Key, tuple[int, SessionId | None]]


def first_failing(
    guards: Sequence[Guard], writes: Sequence[Write], found: Mapping[Key, Version | None]
) -> Guard | None:
    """The first guard that did not hold when the versions were read, in the order of the contract; None: all did.
    `found`: the version of each key of the commit; None: there is no record."""
    for guard in (*guards, *map(implied_guard, writes)):
        if found[guard.key] != wanted_version(guard):
            return guard
    return None


def multi_of(guards: Sequence[Guard], writes: Sequence[Write]) -> Multi:
    """The operations: guards first, then the writes."""
    made = {write.key for write in writes if write.replaces is None}
    operations: list[Operation] = []
    puts: dict[Key, tuple[int, SessionId | None]] = {}
    for guard in guards:
        path = node_name(guard.key)
        if isinstance(guard, Exact):
            state = state_of(guard.version)
            operations += [*_lives(state), Check(path, state.changes)]
        elif guard.key not in made:
            operations += [Create(path, b""), Remove(path, 0)]
    for write in writes:
        path = node_name(write.key)
        was = None if write.replaces is None else state_of(write.replaces)
        if was is not None:
            operations += _lives(was)
        if isinstance(write, Put) and was is not None and was.session == write.session:
            operations.append(SetData(path, write.value, was.changes))
            puts[write.key] = (was.changes + 1, write.session)
            continue
        if was is not None:
            operations.append(Remove(path, was.changes))
        if isinstance(write, Put):
            operations.append(Create(path, write.value, ephemeral=write.session is not None))
            puts[write.key] = (0, write.session)
    return Multi(tuple(operations), puts)


def _lives(state: NodeState) -> list[Operation]:
    """The check that the session of a record lives: after its end the number of changes proves nothing."""
    return [] if state.session is None else [Check(marker_of(state.session), 0)]
