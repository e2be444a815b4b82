"""Conformance: random commits, sessions and guards on one store, against a model kept here.

Promise: after every step both clients of the store list exactly the records of the model, and every answer is the
answer of the model. The model follows the contract, and shares no code with a store.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tenure.coordination.records import (
    Absent,
    Commit,
    Exact,
    Guard,
    Key,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Version,
    Write,
)
from tenure.coordination.store import CoordinationStore, Session
from tenure.errors import GuardFailed, SessionEnded
from tests.kit.conformance.fixture import StoreRig
from tests.kit.conformance.moves import SCOPES, CommitMove, Known, commit_moves, resolve


def contract_machine(make_rig: Callable[[], StoreRig]) -> type[RuleBasedStateMachine]:
    """A state machine class for the stores of `make_rig`; run its `TestCase`."""
    return type("Machine", (ContractMachine,), {"make_rig": staticmethod(make_rig)})


class ContractMachine(RuleBasedStateMachine):
    """The rules. A subclass has `make_rig`."""

    make_rig: Callable[[], StoreRig]

    @initialize()
    def start(self) -> None:
        self.rig = self.make_rig()
        self.store: CoordinationStore = self.rig.client()
        self.other: CoordinationStore = self.rig.client()
        self.records: dict[tuple[Scope, Key], Record] = {}
        self.known = Known({}, lambda scope, key: (scope, key) in self.records)
        self.sessions: list[Session] = []
        self.living: set[SessionId] = set()
        self.revisions: dict[Scope, Revision] = {scope: self.store.list(scope).revision for scope in SCOPES}

    def teardown(self) -> None:
        if hasattr(self, "rig"):
            self.rig.close()

    @rule(move=commit_moves)
    def commit(self, move: CommitMove) -> None:
        guarantees = self.store.guarantees
        guards, writes = resolve(move, self.known, [session.id for session in self.sessions], guarantees)
        expected = self.first_refusal(move.scope, guards, writes)
        ended = self.ended_session(writes)
        done = self.answer(move.scope, guards, writes)
        if isinstance(done, GuardFailed):
            assert done.guard == expected
            return
        if isinstance(done, SessionEnded):
            # Where a guard fails and a session has ended, the contract allows either error.
            assert ended is not None
            assert done.session in {write.session for write in writes if isinstance(write, Put)} - self.living
            return
        assert expected is None
        assert ended is None
        assert set(done.versions) == {write.key for write in writes if isinstance(write, Put)}
        if writes:
            assert done.revision > self.revisions[move.scope]
            self.revisions[move.scope] = done.revision
        for write in writes:
            self.apply(move.scope, write, done.versions.get(write.key))

    @precondition(lambda self: len(self.sessions) < 6)
    @rule()
    def open_session(self) -> None:
        session = self.store.open_session(ttl=self.rig.ttl)
        assert session.id not in {known.id for known in self.sessions}
        self.sessions.append(session)
        self.living.add(session.id)

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 5))
    def renew(self, which: int) -> None:
        session = self.sessions[which % len(self.sessions)]
        try:
            session.renew()
        except SessionEnded:
            assert session.id not in self.living
        else:
            assert session.id in self.living

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 5))
    def close_session(self, which: int) -> None:
        session = self.sessions[which % len(self.sessions)]
        session.close()
        self.end({session.id})

    @precondition(lambda self: self.living and self.rig.time_is_free)
    @rule(kept=st.sets(st.integers(0, 5)))
    def outlive(self, kept: set[int]) -> None:
        """Sessions in `kept` are renewed half way; the other sessions end."""
        for number, session in enumerate(self.sessions):
            if number in kept and session.id in self.living:
                session.renew()
        self.rig.pass_time(self.rig.ttl / 2)
        renewed = {self.sessions[number].id for number in kept if number < len(self.sessions)} & self.living
        for session in self.sessions:
            if session.id in renewed:
                session.renew()
        self.rig.pass_time(self.rig.ttl / 2 + self.rig.grace)
        for session in self.sessions:
            if session.id in renewed:
                session.renew()
        self.end(self.living - renewed)

    @invariant()
    def every_client_shows_what_is_expected(self) -> None:
        if not hasattr(self, "rig"):
            return
        for scope in SCOPES:
            expected = [record for (where, _), record in sorted(self.records.items()) if where == scope]
            for client in (self.store, self.other):
                listing = client.list(scope)
                assert list(listing.records) == expected
                assert listing.revision >= self.revisions[scope]
            below = [record.key for record in self.other.list(scope, "a").records]
            assert below == [record.key for record in expected if record.key.startswith("a/")]

    def answer(
        self, scope: Scope, guards: tuple[Guard, ...], writes: tuple[Write, ...]
    ) -> Commit | GuardFailed | SessionEnded:
        try:
            return self.store.commit(scope, guards=guards, writes=writes)
        except (GuardFailed, SessionEnded) as refused:
            return refused

    # --- the model ----------------------------------------------------------------------------------------------

    def apply(self, scope: Scope, write: Write, version: Version | None) -> None:
        if isinstance(write, Put):
            assert version is not None
            history = self.known.history.setdefault((scope, write.key), [])
            if self.store.guarantees.versions_survive_deletion:
                assert version not in history
            history.append(version)
            self.records[scope, write.key] = Record(write.key, write.value, version, write.session)
        else:
            del self.records[scope, write.key]
            self.known.gone(scope, write.key)

    def end(self, sessions: set[SessionId]) -> None:
        self.living -= sessions
        for (scope, key), record in self.records.items():
            if record.session in sessions:
                self.known.gone(scope, key)
        self.records = {where: record for where, record in self.records.items() if record.session not in sessions}

    def ended_session(self, writes: tuple[Write, ...]) -> SessionId | None:
        bound = [write.session for write in writes if isinstance(write, Put) and write.session is not None]
        return next((session for session in bound if session not in self.living), None)

    def first_refusal(self, scope: Scope, guards: tuple[Guard, ...], writes: tuple[Write, ...]) -> Guard | None:
        own: list[Guard] = [
            Absent(write.key) if write.replaces is None else Exact(write.key, write.replaces) for write in writes
        ]
        for guard in (*guards, *own):
            record = self.records.get((scope, guard.key))
            if isinstance(guard, Exact):
                holds = record is not None and record.version == guard.version
            elif isinstance(guard, Absent):
                holds = record is None
            else:
                holds = not any(where == scope and key.startswith(guard.key + "/") for where, key in self.records)
            if not holds:
                return guard
        return None
