"""`tenure.lead`: a term in a process of one's own."""

from __future__ import annotations

import contextlib
import os
import threading
from datetime import timedelta
from pathlib import Path

import pytest

import tenure
from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.held_term import held
from tenure.coordination.records import Delete, Scope
from tenure.coordination.term import LEADER
from tenure.errors import TermLost, UsageError
from tenure.operate.history import history
from tenure.operate.orders import Orders
from tenure.operate.snapshot import take_snapshot
from tests.kit.memory import MemoryStore
from tests.kit.waiting import NEVER_S, wait_until

SCOPE = Scope("report")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"sqlite://{tmp_path}/ha.db"


def opened(store: str) -> contextlib.closing[SqliteStore]:
    return contextlib.closing(SqliteStore(store.removeprefix("sqlite://")))


def enter(store: str, member: str) -> None:
    """Wait half a second for the leadership, and leave it."""
    with tenure.lead("report", store=store, member=member, timeout=timedelta(seconds=0.5)):
        pass


def test_the_block_is_the_leaders(store: str) -> None:
    with tenure.lead("report", store=store, member="anna") as leadership:
        assert (leadership.scope, leadership.epoch, leadership.lost) == ("report", 1, False)
        leadership.check()
        with opened(store) as look:
            assert take_snapshot(look, SCOPE).leader == "anna"
        with pytest.raises(TimeoutError, match="anna leads scope 'report', epoch 1"):
            enter(store, "ben")
    with opened(store) as look:
        assert take_snapshot(look, SCOPE).members == ()
        assert [term.why for term in history(look, SCOPE).terms] == ["resigned"]


def test_who_leads_is_told_also_when_no_time_was_left_for_a_look(store: str) -> None:
    """A busy machine takes the whole timeout to join, and the error said that nobody leads."""
    with (
        tenure.lead("report", store=store, member="anna"),
        pytest.raises(TimeoutError, match="anna leads scope 'report', epoch 1"),
        tenure.lead("report", store=store, member="ben", timeout=timedelta(0)),
    ):
        pass


def test_the_next_one_leads_when_the_block_ends_however_it_ends(store: str) -> None:
    led = threading.Event()

    def follow() -> None:
        with tenure.lead("report", store=store, member="ben") as leadership:
            assert leadership.epoch == 2
            led.set()

    thread = threading.Thread(target=follow)

    def fail() -> None:
        with tenure.lead("report", store=store, member="anna"):
            thread.start()
            assert not led.wait(timeout=0.5)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert led.wait(timeout=NEVER_S)
    thread.join(timeout=NEVER_S)


def test_a_leadership_that_was_taken_away_is_lost(store: str) -> None:
    with tenure.lead("report", store=store, member="anna") as leadership, opened(store) as hand:
        done = threading.Event()

        def follow() -> None:
            with tenure.lead("report", store=store, member="ben"):
                done.wait(timeout=NEVER_S)

        thread = threading.Thread(target=follow)
        thread.start()
        wait_until(lambda: len(take_snapshot(hand, SCOPE).members) == 2)
        Orders(hand, SCOPE, clock=SystemClock()).failover(to="ben")
        with pytest.raises(TermLost, match="term 1 of scope 'report' is over"):
            leadership.check()
        assert leadership.lost
        done.set()
        thread.join(timeout=NEVER_S)
    with opened(store) as look:
        assert [term.why for term in history(look, SCOPE).terms] == ["failover", "resigned"]


def test_a_leadership_that_is_taken_away_is_noticed_without_asking(store: str) -> None:
    with tenure.lead("report", store=store, member="anna") as leadership:
        with opened(store) as hand:
            hand.commit(SCOPE, guards=(), writes=[_delete_leader(hand)])
        wait_until(lambda: leadership.lost)


def _delete_leader(store: SqliteStore) -> Delete:

    record = store.read(SCOPE, LEADER)
    assert record is not None
    return Delete(LEADER, record.version)


def test_a_forked_child_does_not_lead(store: str) -> None:
    with tenure.lead("report", store=store, member="anna") as leadership:
        child = os.fork()
        if child == 0:
            refused = False
            try:
                leadership.check()
            except TermLost:
                refused = True
            os._exit(0 if leadership.lost and refused else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        leadership.check()


def test_a_forked_child_that_leaves_the_block_gives_up_nothing() -> None:
    """The child has a copy of the memory store: what the child does to the term is seen there."""
    memory, clock, child = MemoryStore(), SystemClock(), -1
    who = Identity("anna", host="here", pid=os.getpid())
    try:
        with held(memory, SCOPE, who, ttl=timedelta(seconds=60), timeout=None, clock=clock) as term:
            child = os.fork()
            if child:
                _, status = os.waitpid(child, 0)
    finally:
        if child == 0:
            os._exit(0 if memory.read(SCOPE, LEADER) is not None and not term.lost else 1)
    assert os.waitstatus_to_exitcode(status) == 0
    assert memory.read(SCOPE, LEADER) is None


def test_scopes_of_one_process_share_one_client(store: str) -> None:
    clients = set[int]()
    with contextlib.ExitStack() as stack:
        for name in ("a", "b", "c"):
            leadership = stack.enter_context(tenure.lead(name, store=store, member="anna"))
            clients.add(id(leadership._store))
        stack.enter_context(tenure.lead("d", store=store, member="anna")).check()
    assert len(clients) == 1


def test_a_name_that_a_live_member_has(store: str) -> None:
    """A former session would have ended within two ttls. Before that, nobody can tell whether this is one."""
    with tenure.lead("report", store=store, member="anna"):
        with (
            pytest.raises(UsageError, match="a live member of scope 'report' is named 'anna'"),
            tenure.lead("report", store=store, member="anna", ttl="500ms"),
        ):
            pass
        stands = f"a session of member 'anna' .* still stands, of process {os.getpid()} on .* lives, or"
        with pytest.raises(TimeoutError, match=stands):
            enter(store, "anna")


def test_an_order_that_a_service_does_not_obey_is_refused_at_once(store: str) -> None:
    """An operator waited for a minute, and read that nobody had led."""
    with tenure.lead("report", store=store, member="anna"), opened(store) as hand:
        done = threading.Event()

        def follow() -> None:
            with tenure.lead("report", store=store, member="ben"):
                done.wait(timeout=NEVER_S)

        thread = threading.Thread(target=follow)
        thread.start()
        wait_until(lambda: len(take_snapshot(hand, SCOPE).members) == 2)
        orders = Orders(hand, SCOPE, clock=SystemClock())
        told = "member 'anna' of scope 'report' is a service that calls tenure.lead.*; end that service, or .* failover"
        with pytest.raises(UsageError, match=told):
            orders.switchover(to="ben")
        with pytest.raises(UsageError, match=told):
            orders.restart("anna")
        orders.failover(to="ben")
        wait_until(lambda: take_snapshot(hand, SCOPE).leader == "ben")
        done.set()
        thread.join(timeout=NEVER_S)


def test_a_failover_is_refused_while_the_scope_is_paused(store: str) -> None:
    """A failover took the office away, and nobody was elected."""
    with tenure.lead("report", store=store, member="anna") as leadership, opened(store) as hand:
        orders = Orders(hand, SCOPE, clock=SystemClock())
        orders.pause()
        with pytest.raises(UsageError, match="scope 'report' is paused: nobody would be elected; first: tenure resume"):
            orders.failover(to=None)
        leadership.check()


def test_a_pause_is_told_to_who_waits(store: str) -> None:
    with tenure.lead("report", store=store, member="anna"), opened(store) as hand:
        Orders(hand, SCOPE, clock=SystemClock()).pause()
    with pytest.raises(TimeoutError, match="scope 'report' is paused, so nobody is elected; tenure resume"):
        enter(store, "ben")


def test_it_is_imported_when_it_is_asked_for() -> None:
    assert tenure.Leadership.__name__ == "Leadership"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tenure.nothing
