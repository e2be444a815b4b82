"""The read-only picture: before, during and after a leadership; it changes nothing."""

from __future__ import annotations

import threading
from datetime import timedelta

from tenure.checkpoints.store import CHECKPOINTS
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.handles.store import HandleStore
from tenure.operate.history import TermHistory, history
from tenure.operate.snapshot import Snapshot, take_snapshot
from tenure.storage.blobs import FileBlobs
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE, TTL, CLOCK = Scope("rows"), timedelta(seconds=30), SystemClock()
EMPTY = Snapshot(
    scope="rows", store="memory", leader=None, epoch=0, paused=False, switchover=None, members=(), queries=()
)


class Site:
    """One store and members of it."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.store = MemoryStore(self.server)

    def election(self, name: str) -> Election:
        return Election(self.store, SCOPE, member=name, clock=CLOCK)

    def keeper(self) -> SessionKeeper:
        return SessionKeeper(self.store, ttl=TTL, clock=CLOCK)

    def lead(self, name: str, keeper: SessionKeeper) -> Term:
        election = self.election(name)
        election.join(keeper, host="here", pid=7)
        term = election.campaign(keeper, stop=threading.Event())
        assert term is not None
        return term

    def plan(self, term: Term, query: str, *batches: int) -> None:
        area = HandleStore(self.store, SCOPE, area=CHECKPOINTS.child(query), blobs=FileBlobs("/none"), clock=CLOCK)
        for batch in batches:
            area.add(term, f"{batch:012d}", b"{}")


def test_a_scope_in_which_nothing_ever_happened() -> None:
    site = Site()
    assert take_snapshot(site.store, SCOPE) == EMPTY
    assert history(site.store, SCOPE) == TermHistory(())


def test_a_leader_a_standby_and_the_newest_batch_of_each_query() -> None:
    site = Site()
    with site.keeper() as first, site.keeper() as second:
        term = site.lead("anna", first)
        site.election("ben").join(second, host="there", pid=8)
        site.plan(term, "a", 8, 9, 10)
        site.plan(term, "b", 0)
        before = site.store.list(SCOPE, "")
        found = take_snapshot(site.store, SCOPE)
        assert (found.leader, found.epoch) == ("anna", 1)
        assert {(one.member, one.host, one.pid) for one in found.members} == {("anna", "here", 7), ("ben", "there", 8)}
        assert [(one.query, one.batch, one.epoch) for one in found.queries] == [("a", 10, 1), ("b", 0, 1)]
        (held,) = history(site.store, SCOPE).terms
        assert (held.epoch, held.holder, held.until, held.why) == (1, "anna", "", "")
        assert site.store.list(SCOPE, "") == before


def test_a_query_is_as_far_behind_as_its_leader_says() -> None:
    site = Site()
    with site.keeper() as first, site.keeper() as second:
        election = site.election("anna")
        election.join(first, host="here", pid=7)
        term = election.campaign(first, stop=threading.Event())
        assert term is not None
        election.announce(first, State.LEADING, behind={"a": 12})
        standby = site.election("ben")
        standby.join(second, host="there", pid=8)
        site.plan(term, "a", 8)
        site.plan(term, "b", 0)
        found = take_snapshot(site.store, SCOPE)
        assert [(one.query, one.behind) for one in found.queries] == [("a", 12), ("b", None)]
