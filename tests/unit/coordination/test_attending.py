"""When a leader looks at its scope: at once after a change, and not at each of its own commits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Delete, Key, Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import LEADER, Term
from tests.kit.clock import ManualClock
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE, ORDER = Scope("rows"), Key("order")
LOOK_S = 0.05
"""How soon the memory store shows a change."""


class Timetable(ManualClock):
    """A clock on which events happen at their times."""

    def __init__(self) -> None:
        super().__init__(sleeping_advances=True)
        self.events: list[tuple[float, Callable[[], None]]] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        while self.events and self.events[0][0] <= self.monotonic_s():
            self.events.pop(0)[1]()


class Office:
    """A leader that attends to its office, and another client of its store."""

    def __init__(self, keeper: SessionKeeper, store: MemoryStore, clock: Timetable) -> None:
        self.clock = clock
        self.looks: list[float] = []
        self._store = store
        self._election = Election(store, SCOPE, member="anna", clock=clock)
        self._stop = threading.Event()
        term = self._election.campaign(keeper, stop=self._stop)
        assert term is not None
        self.term: Term = term

    def attend(self, *events: tuple[float, Callable[[], None]]) -> None:
        self.clock.events = list(events)
        self._election.attend(self.term, stop=self._stop, on_look=self._look)

    def order(self) -> None:
        old = self._store.read(SCOPE, ORDER)
        self._store.commit(SCOPE, guards=[], writes=[Put(ORDER, b"", None if old is None else old.version)])

    def depose(self) -> None:
        leader = self._store.read(SCOPE, LEADER)
        assert leader is not None
        self._store.commit(SCOPE, guards=[], writes=[Delete(LEADER, leader.version)])

    def _look(self, records: object) -> None:
        self.looks.append(self.clock.monotonic_s())


@pytest.fixture
def office() -> Iterator[Office]:
    clock = Timetable()
    store = MemoryStore(MemoryServer(clock))
    with SessionKeeper(store, ttl=timedelta(seconds=60), clock=SystemClock()) as keeper:
        yield Office(keeper, store, clock)


def test_a_leader_hears_of_an_order_and_of_a_lost_office_at_once(office: Office) -> None:
    office.attend((0.4, office.order), (0.8, office.depose))
    assert office.term.lost
    assert office.looks == [pytest.approx(0), pytest.approx(0.4, abs=LOOK_S)]
    assert office.clock.monotonic_s() == pytest.approx(0.8, abs=LOOK_S)


def test_a_leader_of_a_busy_scope_looks_ten_times_a_second(office: Office) -> None:
    """It looked at each of its own commits."""
    office.attend(*((0.01 * number, office.order) for number in range(100)), (1.0, office.depose))
    assert office.term.lost
    assert 5 <= len(office.looks) <= 11
    assert office.clock.monotonic_s() < 1.2
