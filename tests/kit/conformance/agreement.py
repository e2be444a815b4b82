"""Conformance: a store and the memory store get the same calls, and must give the same answers.

Promise: every answer is compared: each record that is read or listed, each refusal and its reason. Versions are opaque,
so the states that they name are compared; of revisions, whether they grew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tenure.coordination.records import Commit, Exact, Guard, Key, Record, Revision, Scope, SessionId, Version, Write
from tenure.coordination.store import CoordinationStore, Session
from tenure.errors import GuardFailed, SessionEnded
from tests.kit.clock import ManualClock
from tests.kit.conformance.fixture import StoreRig
from tests.kit.conformance.moves import KEYS, SCOPES, CommitMove, Known, commit_moves, resolve
from tests.kit.memory import MemoryServer, MemoryStore


class MemoryRig(StoreRig):
    """A memory store on a manual clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._server = MemoryServer(self.clock)

    def client(self) -> CoordinationStore:
        return MemoryStore(self._server)

    def kill(self, client: CoordinationStore) -> None:
        client.close()

    def restart(self) -> CoordinationStore:
        self._server = MemoryServer(self.clock)
        return self.client()

    def pass_time(self, by: timedelta) -> None:
        self.clock.advance(by)

    def close(self) -> None:
        """The rig holds nothing outside this object."""


@dataclass(frozen=True)
class Answer:
    """The answer of a store, in shared names."""

    kind: str
    facts: Any = None
    revision_grew: bool = False


class Side:
    """A store, and the translation of its versions and sessions into names that both stores share."""

    def __init__(self, rig: StoreRig) -> None:
        self.rig = rig
        self.store: CoordinationStore = rig.client()
        self.other: CoordinationStore = rig.client()
        self.sessions: list[Session] = []
        self.revisions: dict[Scope, Revision] = {scope: self.store.list(scope).revision for scope in SCOPES}
        self._own: dict[Version, Version] = {}  # shared name -> this store's version
        self._shared: dict[tuple[Scope, Key, Version], Version] = {}

    def commit(self, scope: Scope, guards: tuple[Guard, ...], writes: tuple[Write, ...], number: int) -> Answer:
        try:
            done = self.store.commit(
                scope, guards=[self._in(guard) for guard in guards], writes=[self._in(write) for write in writes]
            )
        except GuardFailed as refused:
            return Answer("guard failed", self._out(scope, refused.guard))
        except SessionEnded as refused:
            return Answer("session ended", self._session_name(SessionId(refused.session)))
        return Answer("done", self._learn(scope, done, number), self._grew(scope, done.revision))

    def listing(self, *, client: Literal["store", "other"], scope: Scope, prefix: str = "") -> Answer:
        listing = (self.store if client == "store" else self.other).list(scope, prefix)
        return Answer("listing", tuple(self._out(scope, record) for record in listing.records))

    def read(self, scope: Scope, key: Key) -> Answer:
        record = self.store.read(scope, key)
        return Answer("record", None if record is None else self._out(scope, record))

    def session_call(self, which: int, call: str) -> Answer:
        session = self.sessions[which % len(self.sessions)]
        try:
            session.renew() if call == "renew" else session.close()
        except SessionEnded as refused:
            return Answer("session ended", self._session_name(SessionId(refused.session)))
        return Answer("done")

    def open_session(self) -> None:
        self.sessions.append(self.store.open_session(ttl=self.rig.ttl))

    def growth(self, *, scope: Scope) -> Answer:
        """Whether the scope's revision has grown since the last answer."""
        return Answer("growth", None, self._grew(scope, self.other.list(scope).revision))

    def _grew(self, scope: Scope, revision: Revision) -> bool:
        before, self.revisions[scope] = self.revisions[scope], revision
        assert revision >= before
        return revision > before

    def _learn(self, scope: Scope, done: Commit, number: int) -> dict[Key, Version]:
        for key, version in done.versions.items():
            shared = Version(f"{scope}:{key}:{number}")
            self._own[shared] = version
            assert (scope, key, version) not in self._shared, "a version was used twice"
            self._shared[scope, key, version] = shared
        return {key: self._shared[scope, key, version] for key, version in done.versions.items()}

    def _session_name(self, session: SessionId) -> SessionId:
        return SessionId(str([known.id for known in self.sessions].index(session)))

    def _in(self, word: Any) -> Any:
        """A guard or write in this store's own names."""
        if isinstance(word, Exact):
            return replace(word, version=self._own[word.version])
        if getattr(word, "replaces", None) is not None:
            word = replace(word, replaces=self._own[word.replaces])
        if getattr(word, "session", None) is not None:
            word = replace(word, session=self.sessions[int(word.session)].id)
        return word

    def _out(self, scope: Scope, word: Any) -> Any:
        """A guard or record in shared names."""
        if isinstance(word, Exact | Record):
            word = replace(word, version=self._shared[scope, word.key, word.version])
        if isinstance(word, Record) and word.session is not None:
            word = replace(word, session=self._session_name(word.session))
        return word


def agreement_machine(make_rig: Callable[[], StoreRig]) -> type[RuleBasedStateMachine]:
    """A state machine class that compares the stores of `make_rig` with memory stores; run its `TestCase`."""
    return type("Machine", (AgreementMachine,), {"make_rig": staticmethod(make_rig)})


class AgreementMachine(RuleBasedStateMachine):
    """The rules. A subclass has `make_rig`."""

    make_rig: Callable[[], StoreRig]

    @initialize()
    def start(self) -> None:
        self.sides: tuple[Side, ...] = (Side(MemoryRig()), Side(self.make_rig()))
        self.present: set[tuple[Scope, Key]] = set()
        self.known = Known({}, lambda scope, key: (scope, key) in self.present)
        self.commits = 0
        one, other = (side.store.guarantees for side in self.sides)
        self.weakest = replace(
            one,
            versions_survive_deletion=one.versions_survive_deletion and other.versions_survive_deletion,
            revision_is_the_scopes_own=one.revision_is_the_scopes_own and other.revision_is_the_scopes_own,
            one_session_a_commit=one.one_session_a_commit or other.one_session_a_commit,
        )
        self.time_is_free = all(side.rig.time_is_free for side in self.sides)

    def teardown(self) -> None:
        for side in getattr(self, "sides", ()):
            side.rig.close()

    def agreed(self, ask: Callable[[Side], Answer]) -> Answer:
        one, other = (ask(side) for side in self.sides)
        if not self.weakest.revision_is_the_scopes_own:
            assert other.revision_grew or not one.revision_grew
            other = replace(other, revision_grew=one.revision_grew)
        assert one == other
        return one

    @rule(move=commit_moves)
    def commit(self, move: CommitMove) -> None:
        names = [SessionId(str(number)) for number in range(len(self.sides[0].sessions))]
        guards, writes = resolve(move, self.known, names, self.weakest)
        self.commits += 1
        answer = self.agreed(lambda side: side.commit(move.scope, guards, writes, self.commits))
        if answer.kind == "done":
            for key, version in answer.facts.items():
                self.known.history.setdefault((move.scope, key), []).append(version)

    @rule(scope=st.sampled_from(SCOPES), key=st.sampled_from(KEYS))
    def read(self, scope: Scope, key: Key) -> None:
        self.agreed(lambda side: side.read(scope, key))

    @precondition(lambda self: len(self.sides[0].sessions) < 6)
    @rule()
    def open_session(self) -> None:
        for side in self.sides:
            side.open_session()

    @precondition(lambda self: self.sides[0].sessions)
    @rule(which=st.integers(0, 5), call=st.sampled_from(["renew", "renew", "close"]))
    def session_call(self, which: int, call: str) -> None:
        self.agreed(lambda side: side.session_call(which, call))

    @precondition(lambda self: self.sides[0].sessions and self.time_is_free)
    @rule(share=st.sampled_from([0.4, 0.6, 1.0]))
    def pass_time(self, share: float) -> None:
        for side in self.sides:
            side.rig.pass_time(side.rig.ttl * share)

    @invariant()
    def both_show_the_same(self) -> None:
        if not hasattr(self, "sides"):
            return
        for scope in SCOPES:
            everything = self.agreed(partial(Side.listing, client="store", scope=scope))
            assert everything == self.agreed(partial(Side.listing, client="other", scope=scope))
            self.agreed(partial(Side.listing, client="other", scope=scope, prefix="a"))
            self.agreed(partial(Side.growth, scope=scope))
            present = {(scope, record.key) for record in everything.facts}
            for at in self.present - present:
                if at[0] == scope:
                    self.known.gone(*at)
            self.present = {at for at in self.present if at[0] != scope} | present
