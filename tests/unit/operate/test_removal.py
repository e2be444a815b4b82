"""Which scopes may be removed, and a removal that ends at each step."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.clock import SystemClock, timestamp
from tenure.coordination.candidates import Identity
from tenure.coordination.held_term import held
from tenure.coordination.records import Key, Put, Record, Scope, SessionId, Version
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import EPOCH
from tenure.errors import StoreUnavailable, UsageError
from tenure.handles.areas import area_of
from tenure.operate.orders import Orders
from tenure.operate.removal import Retired
from tenure.operate.removal_rules import RemovalRefused, ScopeRemoval, is_removed, removal
from tenure.operate.scopes import scope_statuses
from tenure.results.result import Ending, Result, Stage
from tenure.scope_context import ScopeContext
from tests.kit.memory import GUARANTEES, MemoryServer, MemoryStore

SCOPE, TTL = Scope("rows"), timedelta(seconds=100)


class Retiring:
    """A scope on a memory store, and what stands in it."""

    def __init__(self, folder: Any, *, most: int = 100) -> None:
        self.clock = SystemClock()
        self.server = MemoryServer(self.clock)
        self.store = Narrow(self.server, most)
        self.context = ScopeContext(self.store, SCOPE, f"file://{folder}/rows", self.clock)

    def lead(self, *, end: bool = True, clean: bool = True, checkpoint: bool = False, handle: bool = False) -> None:
        """One term."""
        with held(self.store, SCOPE, Identity("anna", "here", 7), ttl=TTL, timeout=None, clock=self.clock) as term:
            if checkpoint:
                self.context.checkpoints("copy").plan(
                    term, Checkpoint("copy", "id", 0, "v1\n{}\n{}", "runs/copy/e00000001-anna-0", 1, "2026-01-02")
                )
            if handle:
                self.context.handles(area_of("daily")).add(term, "one", b"x")
            if end:
                result = Result(Ending.FINISHED, Stage.DIRTY, term.epoch, "anna", timestamp(self.clock))
                self.context.results().write_dirty(term, result)
                if clean:
                    self.context.results().mark_clean(term)

    def records(self) -> tuple[Record, ...]:
        return self.store.list(SCOPE, "").records

    def why(self, **given: Any) -> str:
        """Why the scope is not removed."""
        found = removal(self.records(), keeps_epoch=False, **given)
        assert isinstance(found, RemovalRefused)
        return found.why


class Narrow(MemoryStore):
    """A store with few writes in a commit, which is away from some commit on."""

    def __init__(self, server: MemoryServer, most: int) -> None:
        super().__init__(server)
        self.guarantees = replace(GUARANTEES, max_writes=most)
        self.commits_before_outage = -1

    def commit(self, scope: Scope, **words: Any) -> Any:
        if self.commits_before_outage == 0:
            raise StoreUnavailable("the store is away", fix="wait")
        self.commits_before_outage -= 1
        return super().commit(scope, **words)


@pytest.fixture
def retiring(tmp_path: Any) -> Retiring:
    return Retiring(tmp_path)


def test_a_scope_that_has_ended_goes_with_all_its_records(retiring: Retiring) -> None:
    retiring.lead()
    Orders(retiring.store, SCOPE, clock=retiring.clock).pause()
    before = {record.key for record in retiring.records()}
    assert set(Retired(retiring.store, SCOPE).remove()) == before
    assert retiring.records() == ()
    assert scope_statuses(retiring.store) == []


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"clean": False}, "its cleanup is not done"),
        ({"end": False, "checkpoint": True}, "it still has checkpoints: checkpoints/copy/"),
        ({"handle": True}, "it still has handles: handles/daily/one"),
        ({"end": False}, "it has no result, and nobody has looked into its storage"),
    ],
)
def test_a_scope_that_is_needed_stays(retiring: Retiring, made: dict[str, bool], why: str) -> None:
    retiring.lead(**made)
    assert retiring.why().startswith(why)
    with pytest.raises(UsageError, match="scope 'rows' is not removed: "):
        Retired(retiring.store, SCOPE).remove()


def test_a_scope_whose_members_live_stays(retiring: Retiring) -> None:
    retiring.lead()
    who = Identity("ben", "here", 8)
    with held(retiring.store, SCOPE, who, ttl=TTL, timeout=None, clock=retiring.clock):
        assert retiring.why() == "its members live: ben"


def test_a_scope_in_which_a_process_has_a_record_stays(retiring: Retiring) -> None:
    retiring.lead()
    bound = Record(Key("x"), b"{}", Version("1"), SessionId("s"))
    found = removal((*retiring.records(), bound), keeps_epoch=False)
    assert found == RemovalRefused("a process still holds x", "end that process, or wait for its ttl")


def test_a_scope_that_never_ended_goes_where_its_storage_is_empty(retiring: Retiring) -> None:
    retiring.lead(end=False)
    assert retiring.why(storage_is_empty=False) == "it has no result, and its storage has files"
    assert isinstance(removal(retiring.records(), keeps_epoch=False, storage_is_empty=True), ScopeRemoval)


def test_the_epoch_stays_where_a_version_may_come_again(retiring: Retiring) -> None:
    """Or a leader of the removed scope that wakes up could find the version of its own term."""
    retiring.lead()
    found = removal(retiring.records(), keeps_epoch=True)
    assert isinstance(found, ScopeRemoval)
    assert EPOCH not in found.keys
    kept = [record for record in retiring.records() if record.key == EPOCH]
    assert is_removed(kept)


def test_the_history_goes_before_the_result(retiring: Retiring) -> None:
    retiring.lead()
    found = removal(retiring.records(), keeps_epoch=False)
    assert isinstance(found, ScopeRemoval)
    assert {record.key for record in found.last} == {"epoch", "identity", "results", "results/result"}
    assert all(record.key.is_under("terms") for record in found.first)


@pytest.mark.parametrize("commits", range(4))
def test_a_removal_that_is_interrupted_is_completed_by_the_next(tmp_path: Any, commits: int) -> None:
    """One record a commit, but for the last commit."""
    retiring = Retiring(tmp_path)
    for _ in range(2):
        retiring.lead(end=False)
    retiring.lead()
    retiring.store = Narrow(retiring.server, 9 if commits < 3 else 100)
    retiring.store.commits_before_outage = commits if commits < 3 else 0
    retired = Retired(retiring.store, SCOPE)
    with pytest.raises(StoreUnavailable):
        retired.remove()
    assert {record.key for record in retiring.records()} >= {"epoch", "identity", "results/result"}
    retiring.store = Narrow(retiring.server, 100)
    Retired(retiring.store, SCOPE).remove()
    assert retiring.records() == ()


def test_a_member_that_joins_meanwhile_is_noticed(retiring: Retiring, monkeypatch: pytest.MonkeyPatch) -> None:
    retiring.lead()
    commit = Retired._commit
    with SessionKeeper(retiring.store, ttl=TTL, clock=retiring.clock) as keeper:

        def joined_after(self: Retired, records: Any, guards: Any) -> None:
            commit(self, records, guards)
            put = Put(Key("members/ben"), b"{}", replaces=None, session=keeper.session_id)
            retiring.store.commit(SCOPE, guards=(), writes=(put,))

        monkeypatch.setattr(Retired, "_commit", joined_after)
        with pytest.raises(UsageError, match="its members live: ben"):
            Retired(retiring.store, SCOPE).remove()
    assert {record.key for record in retiring.records()} >= {"epoch", "identity", "results/result"}
