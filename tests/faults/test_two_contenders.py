"""Two contenders, any order of elections, writes, losses, late requests and expiries: one history that is right.

Checked on what the store really did, commit by commit: S1 epochs go up by one and have one owner; S2 no write
of an epoch that is not in office; S3 what was answered is what happened. With the fence off the same machine
must find a violation: a green run proves something only because of that.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import sampled_from

from tenure.coordination.encoding import decode
from tenure.coordination.records import Commit, Delete, Guard, Put, Scope, Write
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import EPOCH, LEADER, Term
from tenure.errors import HandleError, SessionEnded, StoreError, TermLost
from tests.faults.lab import AREA, SCOPE, Lab, Member, big
from tests.kit.faulty import Late
from tests.kit.memory import MemoryStore
from tests.properties import examples
from tests.support.unfenced import UnfencedStore

Wrap = Callable[[CoordinationStore], CoordinationStore]


@dataclass
class Applied:
    """One commit that the store applied, and who was in office just before it."""

    leader_epoch: int | None
    writes: tuple[Write, ...]


class Recorder(MemoryStore):
    """The store itself; it writes down what it applies."""

    history: list[Applied]

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        leader = self.read(scope, LEADER)
        epoch = None if leader is None else decode(leader, fields={"epoch": int})["epoch"]
        commit = super().commit(scope, guards=guards, writes=writes)
        self.history.append(Applied(epoch, tuple(writes)))
        return commit


NAMES = ("a", "b")
TROUBLES = ("none", "reply lost", "request lost", "late", "late until healed")


class Contenders(RuleBasedStateMachine):
    """`wrap` is what a mutant changes."""

    wrap: Wrap = staticmethod(lambda store: store)

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.lab = Lab(Path(self._directory.name))
        self.history: list[Applied] = []
        self.members: dict[str, Member] = {}
        self.terms: dict[str, Term] = {}
        self.late: list[Late] = []
        self.outcomes: dict[str, str] = {}  # name of a handle -> ok, fail, info
        self.removed: dict[str, str] = {}
        self.count = 0

    @initialize()
    def begin(self) -> None:
        for name in NAMES:
            self.new_session(name)

    def new_session(self, name: str) -> None:
        def wrapped(inner: CoordinationStore) -> CoordinationStore:
            recorder = Recorder(self.lab.server)
            recorder.history = self.history
            return type(self).wrap(recorder)

        self.members[name] = self.lab.member(name, wrap=wrapped)

    def alive(self, name: str) -> bool:
        return not self.members[name].keeper.liveness.over

    # --- rules ---

    @rule(name=sampled_from(NAMES))
    def elect(self, name: str) -> None:
        record = self.lab.truth.read(SCOPE, LEADER)
        member = self.members[name]
        if record is not None and record.session != member.keeper.session_id:
            return  # another one leads: a campaign would wait
        if name in self.terms and not self.terms[name].lost:
            return
        try:
            self.terms[name] = member.lead()
        except (SessionEnded, StoreError):
            self.new_session(name)

    @precondition(lambda self: self.terms)
    @rule(name=sampled_from(NAMES), trouble=sampled_from(TROUBLES))
    def propose(self, name: str, trouble: str) -> None:
        if name not in self.terms:
            return
        self.make(name, trouble)
        self.count += 1
        handle = f"h{self.count}"
        self.outcomes[handle] = "info"
        try:
            self.members[name].handles.add(self.terms[name], handle, big(handle))
            self.outcomes[handle] = "ok"
        except TermLost as lost:
            self.outcomes[handle] = "info" if lost.write_is_unknown else "fail"

    @precondition(lambda self: self.terms)
    @rule(name=sampled_from(NAMES), trouble=sampled_from(TROUBLES))
    def remove_oldest(self, name: str, trouble: str) -> None:
        if name not in self.terms:
            return
        self.make(name, trouble)
        here = self.members[name].handles.list()
        if not here:
            return
        oldest = here[0].name
        self.removed[oldest] = "info"
        try:
            self.members[name].handles.remove(self.terms[name], oldest)
            self.removed[oldest] = "ok"
        except TermLost as lost:
            if not lost.write_is_unknown:
                del self.removed[oldest]
        except HandleError:
            del self.removed[oldest]

    @rule(name=sampled_from(NAMES), trouble=sampled_from(TROUBLES))
    def make(self, name: str, trouble: str) -> None:
        """The next commit of this member meets a fault."""
        store = self.members[name].store
        if trouble == "reply lost":
            store.lose_reply()
        elif trouble == "request lost":
            store.lose_request()
        elif trouble != "none":
            self.late.append(store.be_late(times=1 if trouble == "late" else None)[1])

    @rule(name=sampled_from(NAMES))
    def heal(self, name: str) -> None:
        self.members[name].store.heal()

    @rule()
    def deliver(self) -> None:
        for late in self.late:
            late.deliver()

    @rule(name=sampled_from(NAMES))
    def session_expires(self, name: str) -> None:
        self.members[name].dies()

    @rule(name=sampled_from(NAMES))
    def learns(self, name: str) -> None:
        """The member notices that its session is over, forgets its term and opens a new session."""
        member = self.members[name]
        record = self.lab.truth.read(SCOPE, LEADER)
        if record is None or record.session != member.keeper.session_id:
            self.terms.pop(name, None)
            self.new_session(name)

    @rule(name=sampled_from(NAMES))
    def resign(self, name: str) -> None:
        term = self.terms.pop(name, None)
        if term is None:
            return
        try:
            self.members[name].election.resign(term)
        except TermLost:
            return

    @rule(name=sampled_from(NAMES))
    def renew(self, name: str) -> None:
        member = self.members[name]
        if self.alive(name):
            try:
                member.keeper.renew()
            except SessionEnded:
                return

    # --- what must hold ---

    @invariant()
    def s1_epochs_go_up_by_one(self) -> None:
        grants = [found for applied in self.history if (found := grant_in(applied)) is not None]
        assert grants == list(range(1, len(grants) + 1)), f"S1: {grants}"

    @invariant()
    def s2_only_the_epoch_in_office_writes(self) -> None:
        for applied in self.history:
            for write in applied.writes:
                if isinstance(write, Put) and write.key.is_under(AREA) and "=" not in write.key:
                    epoch = fields_of(write)["epoch"]
                    assert epoch == applied.leader_epoch, f"S2: a write of {epoch} under {applied.leader_epoch}"

    @invariant()
    def s3_answers_are_honest(self) -> None:
        effects: dict[str, int] = {}
        gone: dict[str, int] = {}
        uids: list[str] = []
        for applied in self.history:
            for write in applied.writes:
                if not write.key.is_under(AREA) or "=" in write.key:
                    continue
                if isinstance(write, Put):
                    effects[write.key.name] = effects.get(write.key.name, 0) + 1
                    uids.append(fields_of(write)["uid"])
                else:
                    gone[write.key.name] = gone.get(write.key.name, 0) + 1
        assert len(uids) == len(set(uids)), "S3: a write was applied twice"
        for name, outcome in self.outcomes.items():
            allowed = {"ok": {1}, "fail": {0}, "info": {0, 1}}[outcome]
            assert effects.get(name, 0) in allowed, f"S3: {name} is {outcome}, applied {effects.get(name, 0)} times"
        assert set(effects) <= set(self.outcomes), "S3: an effect without a call"
        assert set(gone) <= set(self.removed), "S3: a removal without a call"
        for name, outcome in self.removed.items():
            assert outcome == "info" or gone.get(name, 0) == 1, f"S3: removal of {name} is {outcome}"

    @invariant()
    def i4_every_pointer_has_its_blob(self) -> None:
        self.lab.audit()

    def teardown(self) -> None:
        self._directory.cleanup()


def fields_of(write: Put) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write.value)
    return found


def grant_in(applied: Applied) -> int | None:
    """The epoch that this commit began; None when it is no grant."""
    puts = {write.key: write for write in applied.writes if isinstance(write, Put)}
    if LEADER not in puts:
        return None
    assert EPOCH in puts
    assert not any(isinstance(write, Delete) for write in applied.writes)
    epoch: int = fields_of(puts[LEADER])["epoch"]
    return epoch


QUICKLY = settings(
    max_examples=examples(120),
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.hypothesis  # its plugin does not see the machine
def test_two_contenders_keep_one_history() -> None:
    run_state_machine_as_test(Contenders, settings=QUICKLY)


def blind(store: CoordinationStore) -> CoordinationStore:
    return UnfencedStore(store, drop_guards=False, blind=True)


@pytest.mark.parametrize("wrap", [UnfencedStore, blind], ids=["no fence", "writes that replace anything"])
def test_the_same_machine_finds_a_missing_fence(wrap: Wrap) -> None:
    class Mutant(Contenders):
        pass

    Mutant.wrap = staticmethod(wrap)
    hunt = settings(QUICKLY, max_examples=2000, derandomize=True, report_multiple_bugs=False, phases=[Phase.generate])
    with pytest.raises(AssertionError, match=r"S[123]: "):
        run_state_machine_as_test(Mutant, settings=hunt)
