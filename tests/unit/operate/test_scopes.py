"""All scopes of a store: a live one, a paused one, an ended one, one that does not decode, one that never led."""

from __future__ import annotations

import threading
from datetime import timedelta

from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, encode_checkpoint
from tenure.checkpoints.store import CHECKPOINTS
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.handles.store import HandleStore
from tenure.operate.orders import Orders
from tenure.operate.scopes import ScopeStatus, scope_statuses
from tenure.results.result import Ending, Result, Stage
from tenure.results.store import RESULTS, ResultStore
from tenure.storage.blobs import FileBlobs
from tests.kit.conformance.fixture import put_new
from tests.kit.memory import MemoryStore

CLOCK, TTL = SystemClock(), timedelta(seconds=60)


def lead(store: MemoryStore, scope: Scope, member: str, keeper: SessionKeeper) -> Term:
    election = Election(store, scope, member=member, clock=CLOCK)
    election.join(keeper, host="here", pid=7)
    term = election.campaign(keeper, stop=threading.Event())
    assert term is not None
    return term


def plan(store: MemoryStore, term: Term, query: str, batch: int, *, at: str) -> None:
    area = HandleStore(store, term.scope, area=CHECKPOINTS.child(query), blobs=FileBlobs("/none"), clock=CLOCK)
    planned = Checkpoint(query, "id", batch, "{}", "runs/x", term.epoch, at)
    area.add(term, checkpoint_name(batch), encode_checkpoint(planned))


def test_an_empty_store_has_none() -> None:
    assert scope_statuses(MemoryStore()) == []


def test_each_scope_is_as_it_is() -> None:
    store = MemoryStore()
    shop, ended, asleep = Scope("shop"), Scope("ended"), Scope("asleep")
    with SessionKeeper(store, ttl=TTL, clock=CLOCK) as first, SessionKeeper(store, ttl=TTL, clock=CLOCK) as second:
        term = lead(store, shop, "anna", first)
        plan(store, term, "a", 1, at="2026-03-01T12:00:01+00:00")
        plan(store, term, "a", 2, at="2026-03-01T12:00:02+00:00")
        plan(store, term, "b", 0, at="2026-03-01T12:00:00+00:00")
        Election(store, shop, member="ben", clock=CLOCK).join(second, host="here", pid=8)
        with SessionKeeper(store, ttl=TTL, clock=CLOCK) as third:
            over = lead(store, ended, "carl", third)
            handles = HandleStore(store, ended, area=RESULTS, blobs=FileBlobs("/none"), clock=CLOCK)
            ResultStore(handles).write_dirty(over, Result(Ending.FINISHED, Stage.DIRTY, 1, "carl", "now"))
        put_new(store, "members/dora", b"{}", scope=asleep)
        Orders(store, asleep, clock=CLOCK).pause()
        put_new(store, "epoch", b"damaged", scope=Scope("bad"))
        put_new(store, "members/emil", b"{}", scope=Scope("bad"))
        bad, *rest = sorted(scope_statuses(store), key=lambda one: one.trouble is None)
    assert rest == [
        ScopeStatus("asleep", None, 0, ("dora",), paused=True, ended=None, planned_at=None),
        ScopeStatus("ended", None, 1, (), paused=False, ended="finished", planned_at=None),
        ScopeStatus("shop", "anna", 1, ("anna", "ben"), False, None, planned_at="2026-03-01T12:00:02+00:00"),
    ]
    assert (bad.scope, bad.members, bad.leader) == ("bad", ("emil",), None)
    assert (bad.trouble or "").startswith("record 'epoch' does not decode")
