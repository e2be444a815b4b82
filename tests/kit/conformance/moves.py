"""Random commits: drawn without knowledge of the store, resolved to the known versions when they are made.

Promise: pure. The contract fixes the answer of every commit that is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from hypothesis import strategies as st

from tenure.coordination.records import (
    Absent,
    Delete,
    Exact,
    Guard,
    Key,
    Put,
    Scope,
    SessionId,
    Version,
    Write,
)
from tenure.coordination.store import Guarantees

SCOPES: Final = (Scope("left"), Scope("right"))
PERMANENT: Final = tuple(map(Key, ("a", "ab", "a/x", "a/xy", "a/x/deep", "b")))
BINDABLE: Final = tuple(map(Key, ("live/1", "live/1/lock", "leader")))
KEYS: Final = PERMANENT + BINDABLE

Which = Literal["now", "old", "none"]
"""Which version a guard or write names: the current version, an earlier version, or the absence of the record."""


@dataclass(frozen=True)
class GuardMove:
    key: Key
    which: Which
    age: int


@dataclass(frozen=True)
class WriteMove:
    key: Key
    which: Which
    age: int
    value: bytes | None
    """None: delete."""
    session: int | None


@dataclass(frozen=True)
class CommitMove:
    scope: Scope
    guards: tuple[GuardMove, ...]
    writes: tuple[WriteMove, ...]


@dataclass
class Known:
    """Every version that each record had, the newest last, and whether the record is present. Versions from before a
    deletion are named only where the store's `versions_survive_deletion` holds."""

    history: dict[tuple[Scope, Key], list[Version]]
    present: Callable[[Scope, Key], bool]
    before: dict[tuple[Scope, Key], int] = field(default_factory=dict)
    """How many of the versions are from before the record's last deletion."""

    def gone(self, scope: Scope, key: Key) -> None:
        """The record was deleted."""
        self.before[scope, key] = len(self.history.get((scope, key), []))

    def pick(self, scope: Scope, key: Key, which: Which, age: int, guarantees: Guarantees) -> Version | None:
        known = self.history.get((scope, key), [])
        if not guarantees.versions_survive_deletion:
            known = known[self.before.get((scope, key), 0) :]
        if which == "none" or not known:
            return None
        if which == "now":
            return known[-1] if self.present(scope, key) else None
        return known[age % len(known)]


_which: Final = st.sampled_from(["now", "now", "now", "old", "none"])
_ages: Final = st.integers(0, 7)
_guards: Final = st.builds(GuardMove, st.sampled_from(KEYS), _which, _ages)
_writes: Final = st.builds(
    WriteMove,
    st.sampled_from(KEYS),
    _which,
    _ages,
    st.one_of(st.none(), st.sampled_from([b"", b"1", b"2"])),
    st.one_of(st.none(), st.integers(0, 5)),
)
commit_moves: Final = st.builds(
    CommitMove,
    st.sampled_from(SCOPES),
    st.lists(_guards, max_size=3).map(tuple),
    st.lists(_writes, max_size=4, unique_by=lambda move: move.key).map(tuple),
)


def resolve(
    move: CommitMove, known: Known, sessions: Sequence[SessionId], guarantees: Guarantees
) -> tuple[tuple[Guard, ...], tuple[Write, ...]]:
    """The guards and writes of the move, by the versions that are known now."""
    guards: list[Guard] = []
    writes: list[Write] = []
    the_one: SessionId | None = None
    for guard in move.guards:
        version = known.pick(move.scope, guard.key, guard.which, guard.age, guarantees)
        guards.append(Absent(guard.key) if version is None else Exact(guard.key, version))
    for write in move.writes:
        version = known.pick(move.scope, write.key, write.which, write.age, guarantees)
        if write.value is not None:
            bound = write.session is not None and bool(sessions) and write.key in BINDABLE
            session = sessions[(write.session or 0) % len(sessions)] if bound else None
            if session is not None and guarantees.one_session_a_commit:
                session = the_one = the_one or session
            writes.append(Put(write.key, write.value, version, session))
        elif version is not None:
            writes.append(Delete(write.key, version))
    return tuple(guards), tuple(writes)
