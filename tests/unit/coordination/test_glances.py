"""Glances of the election: nothing is listed while nothing happens, and an old glance does no harm."""

from __future__ import annotations

import threading
from datetime import timedelta

from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.election import Election
from tenure.coordination.records import Listing, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tests.kit.faulty import Call, FaultyStore
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S, wait_until

SCOPE, CLOCK = Scope("rows"), SystemClock()
TTL = timedelta(seconds=60)


class OldGlances(FaultyStore):
    """Each glance is as the last listing was, and the first glance as the scope was."""

    _last: Listing | None = None

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        self._last = super().list(scope, prefix)
        return self._last

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        now = super().glance(scope, prefix)
        self._last = self._last or now
        return self._last


def campaign(store: FaultyStore, name: str, *, stop: threading.Event, terms: list[Term | None]) -> None:
    with SessionKeeper(store, ttl=TTL, clock=CLOCK) as keeper:
        election = Election(store, SCOPE, member=name, clock=CLOCK)
        election.join(keeper, host="here", pid=7)
        terms.append(election.campaign(keeper, stop=stop))
        stop.wait(NEVER_S)


def words(calls: tuple[Call, ...]) -> list[str]:
    return [call.operation for call in calls if call.operation != "renew"]


def test_an_idle_leader_and_an_idle_standby_only_glance_and_wait() -> None:
    server, stop = MemoryServer(), threading.Event()
    led, stood = FaultyStore(MemoryStore(server)), FaultyStore(MemoryStore(server))
    with SessionKeeper(led, ttl=TTL, clock=CLOCK) as keeper:
        leading = Election(led, SCOPE, member="anna", clock=CLOCK)
        leading.join(keeper, host="here", pid=7)
        term = leading.campaign(keeper, stop=stop)
        assert term is not None
        terms: list[Term | None] = []
        standby = threading.Thread(
            target=campaign, args=(stood, "ben"), kwargs={"stop": stop, "terms": terms}, daemon=True
        )
        standby.start()
        leading.announce(keeper, State.LEADING)
        before = len(led.calls)
        with leading.attending(term, on_look=lambda records: leading.announce(keeper, State.LEADING)):
            for store, since in ((led, before), (stood, 0)):
                wait_until(lambda store=store, since=since: words(store.calls[since:]).count("wait") > 2)  # type: ignore[misc] # bound
        stop.set()
        standby.join(NEVER_S)
    assert terms == [None]
    assert set(words(led.calls[before:])) <= {"glance", "wait", "close_session"}
    assert set(words(stood.calls)) <= {"open_session", "commit", "glance", "wait", "close_session"}


def test_a_contender_that_is_refused_lists_before_it_tries_again() -> None:
    """It would send the same commit again and again, for as long as its glance is old."""
    server, stop = MemoryServer(), threading.Event()
    truth, store = MemoryStore(server), OldGlances(MemoryStore(server))
    store.glance(SCOPE)  # nobody has led
    with SessionKeeper(truth, ttl=TTL, clock=CLOCK) as keeper:
        leading = Election(truth, SCOPE, member="anna", clock=CLOCK)
        term = leading.campaign(keeper, stop=stop)
        assert term is not None
        terms: list[Term | None] = []
        standby = threading.Thread(
            target=campaign, args=(store, "ben"), kwargs={"stop": stop, "terms": terms}, daemon=True
        )
        standby.start()
        wait_until(lambda: words(store.calls).count("wait") > 1)
        stop.set()
        standby.join(NEVER_S)
    assert terms == [None]
    tried = words(store.calls)
    assert tried[tried.index("glance", 1) :][:4] == ["glance", "commit", "list", "wait"]
    assert tried.count("list") == 1
