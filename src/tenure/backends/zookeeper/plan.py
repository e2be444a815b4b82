"""From a commit of the contract to the operations of one ZooKeeper multi.

Promise: pure. A record is a node whose data begins with `RECORD`. A node that exists only as a parent is a folder, and
no record. The first plan assumes the usual case: folders exist, and an absent record has no folder. When ZooKeeper
refuses the plan, the store reads the nodes: either a guard does not hold (`first_failing`), or the store tries the plan
for the nodes that it read (`view`). Each operation checks the assumptions of the plan, so a wrong plan writes nothing.

ZooKeeper compares only the number of changes since a node was made. A record that was deleted and made anew can have
the same number as before (`Guarantees.versions_survive_deletion` is false). For a record of a session the plan also
checks that the session lives. ZooKeeper has no operation for "there is no node": the multi makes a node and removes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenure.coordination.records import (
    Absent,
    Delete,
    Exact,
    Guard,
    Key,
    NoneUnder,
    Put,
    SessionId,
    Version,
    Write,
    implied_guard,
)

RECORD = b"\x01"
FOLDER = b""
MARKERS = "~sessions"
"""Below a scope: a node for each living session that has bound a record in the scope. No key can have this name."""


def marker_of(session: SessionId) -> str:
    """The path of a session's marker."""
    return f"{MARKERS}/{session}"


@dataclass(frozen=True, slots=True)
class State:
    """The content of a version: the transaction that wrote the node, the number of changes since the node was made, and
    the session that owns it (None: no session)."""

    zxid: int
    changes: int
    session: SessionId | None

    def version(self) -> Version:
        """The contract's opaque version."""
        return Version(f"{self.zxid:x}.{self.changes}.{self.session or ''}")


def state_of(version: Version) -> State:
    """The state that `State.version` encoded."""
    zxid, changes, session = version.split(".", 2)
    return State(int(zxid, 16), int(changes), SessionId(session) if session else None)


@dataclass(frozen=True, slots=True)
class Node:
    """A node that was read."""

    state: State
    is_record: bool


View = Mapping[str, Node | None]
"""Path below the scope -> the node; None: there is no node. A missing path was not read."""


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
class Plan:
    """The operations, and the state of each put after them: changes and session."""

    operations: tuple[Operation, ...]
    puts: Mapping[Key, tuple[int, SessionId | None]]


def ancestors(path: str) -> list[str]:
    """The paths above `path`, the highest first."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def paths_to_read(guards: Sequence[Guard], writes: Sequence[Write]) -> tuple[set[str], set[str]]:
    """The nodes that the view of this commit needs; and those among them of which all nodes below are needed, too."""
    keys: set[str] = {guard.key for guard in guards} | {write.key for write in writes}
    above = {ancestor for key in keys for ancestor in ancestors(key)}
    return keys | above, {write.key for write in writes if isinstance(write, Delete)}


def first_failing(guards: Sequence[Guard], writes: Sequence[Write], view: View) -> Guard | None:
    """The first guard that did not hold when the view was read, in the order of the contract; None: all did."""
    for guard in (*guards, *map(implied_guard, writes)):
        node = view.get(guard.key)
        is_record = node is not None and node.is_record
        if isinstance(guard, Exact):
            holds = is_record and node is not None and node.state.version() == guard.version
        elif isinstance(guard, Absent):
            holds = not is_record
        else:
            holds = not any(
                below is not None and below.is_record and path.startswith(guard.key + "/")
                for path, below in view.items()
            )
        if not holds:
            return guard
    return None


def make_plan(guards: Sequence[Guard], writes: Sequence[Write], view: View | None = None) -> Plan:
    """The operations: guards first, then deletes, the deepest first, then puts, the highest first."""
    planner = _Planner(view or {})
    for guard in guards:
        planner.guard(guard)
    alone = {guard.key for guard in guards if isinstance(guard, NoneUnder)}
    by_depth = sorted(writes, key=lambda write: write.key.count("/"))
    for write in reversed(by_depth):
        if isinstance(write, Delete):
            planner.delete(write, with_folders=write.key in alone)
    for write in by_depth:
        if isinstance(write, Put):
            planner.put(write)
    return Plan(tuple(planner.operations), planner.puts)


class _Planner:
    """Keeps the nodes as they are after the operations so far."""

    def __init__(self, view: View) -> None:
        self._nodes = dict(view)
        self.operations: list[Operation] = []
        self.puts: dict[Key, tuple[int, SessionId | None]] = {}

    def guard(self, guard: Guard) -> None:
        if isinstance(guard, Exact):
            state = state_of(guard.version)
            self._lives(state)
            self.operations.append(Check(guard.key, state.changes))
        elif isinstance(guard, Absent):
            folder = self._nodes.get(guard.key)
            if folder is not None:
                self.operations.append(Check(guard.key, folder.state.changes))
                return
            made = [*self._make_folders(guard.key), guard.key]
            self._create(guard.key, FOLDER)
            for path in reversed(made):
                self._remove(path, 0)
        # NoneUnder is checked by the removal itself: ZooKeeper does not remove a node with children.

    def delete(self, write: Delete, *, with_folders: bool) -> None:
        state = state_of(write.replaces)
        self._lives(state)
        changes = state.changes
        below = [path for path, node in self._nodes.items() if node is not None and path.startswith(write.key + "/")]
        if below and not with_folders:
            self._set(write.key, FOLDER, changes)
            return
        for path in sorted(below, key=lambda path: path.count("/"), reverse=True):
            folder = self._nodes[path]
            assert folder is not None
            self._remove(path, folder.state.changes)
        self._remove(write.key, changes)

    def put(self, write: Put) -> None:
        data = RECORD + write.value
        if write.replaces is not None:
            was = state_of(write.replaces)
            self._lives(was)
            if was.session == write.session:
                self._set(write.key, data, was.changes)
                self.puts[write.key] = (was.changes + 1, write.session)
                return
            self._remove(write.key, was.changes)
        else:
            folder = self._nodes.get(write.key)
            if folder is not None and write.session is None:
                self._set(write.key, data, folder.state.changes)
                self.puts[write.key] = (folder.state.changes + 1, None)
                return
            if folder is not None:
                self._remove(write.key, folder.state.changes)
        self._make_folders(write.key)
        self._create(write.key, data, ephemeral=write.session is not None)
        self.puts[write.key] = (0, write.session)

    def _lives(self, state: State) -> None:
        """Check that the session of a record lives: after its end the number of changes proves nothing."""
        if state.session is not None:
            self.operations.append(Check(marker_of(state.session), 0))

    def _make_folders(self, path: str) -> list[str]:
        """Make the parents that the view misses; return them, the highest first."""
        missing = [above for above in ancestors(path) if above in self._nodes and self._nodes[above] is None]
        for above in missing:
            self._create(above, FOLDER)
        return missing

    def _create(self, path: str, data: bytes, *, ephemeral: bool = False) -> None:
        self.operations.append(Create(path, data, ephemeral))
        self._nodes[path] = Node(State(0, 0, None), is_record=data != FOLDER)

    def _set(self, path: str, data: bytes, changes: int) -> None:
        self.operations.append(SetData(path, data, changes))
        self._nodes[path] = Node(State(0, changes + 1, None), is_record=data != FOLDER)

    def _remove(self, path: str, changes: int) -> None:
        self.operations.append(Remove(path, changes))
        self._nodes[path] = None
