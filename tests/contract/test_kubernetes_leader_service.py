"""The Service of the leader on a real API server: it follows the terms of members with made-up drivers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from tenure.agent.leader_service import LeaderService
from tenure.agent.member import Conduct, Member
from tenure.backends.kubernetes import KubernetesStore, Place
from tenure.coordination.candidates import Identity
from tenure.coordination.records import Scope
from tenure.coordination.term import Term
from tenure.events import Event, Events, ServiceNotLed, TermLost, TermWon
from tenure.link.lifecycle import Ended
from tenure.retry import fixed_delay
from tenure.scope_context import ScopeContext
from tenure.testing.servers import KubernetesServer
from tenure.testing.waiting import NEVER_S, wait_until
from tests.support.api_gate import ApiGate
from tests.support.kubernetes import RULES
from tests.support.route import CLOCK, PORT, Cluster
from tests.unit.agent.scene import Scripted

SCOPE = Scope("shop")
TTL = timedelta(seconds=10)
WRITE: Final = r"(PUT|POST) .*/endpointslices"
A, B = "10.1.2.3", "10.1.2.4"


@pytest.fixture
def cluster(kubernetes: KubernetesServer) -> Cluster:
    return Cluster(kubernetes)


@pytest.fixture
def gate(kubernetes: KubernetesServer) -> Iterator[ApiGate]:
    with ApiGate(kubernetes) as made:
        yield made


class Running:
    """A member with a made-up driver, on a thread. It leads until `end` is set."""

    def __init__(self, cluster: Cluster, name: str, address: str, *, service: Place | None = None) -> None:
        """`service`: the place of the requests for the Service; None: that of the cluster."""
        self.told: list[Event] = []
        self.end = threading.Event()
        self.stop = threading.Event()
        self._store = KubernetesStore(cluster.place)
        self._service = LeaderService(
            cluster.address(place=service),
            at=lambda: (address, PORT),
            clock=CLOCK,
            events=Events(self.told.append),
            retry=fixed_delay(delay=timedelta(milliseconds=100)),
        )
        context = ScopeContext(self._store, SCOPE, "memory://nothing", CLOCK, Events(self.told.append))
        self.member = Member(
            context,
            identity=Identity(name, "here", 7),
            driver=Scripted(self._leads),
            conduct=Conduct(TTL),
            service=self._service,
        )
        self._thread = threading.Thread(target=self.member.run, kwargs={"stop": self.stop}, daemon=True)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()
        self._service.close()
        self._store.close()

    def finish(self) -> None:
        """Let the member resign, and wait for its end."""
        self.stop.set()
        self.end.set()
        self._thread.join(timeout=NEVER_S)
        assert not self._thread.is_alive()

    def kinds(self) -> list[type[Event]]:
        return [type(event) for event in self.told]

    def reasons(self) -> list[str]:
        return [event.why for event in self.told if isinstance(event, ServiceNotLed)]

    def _leads(self, term: Term) -> Ended:
        wait_until(lambda: self.end.is_set() or term.lost, what="the end")
        return Ended.LOST if term.lost else Ended.STOPPED


def until(cluster: Cluster, route: tuple[int, str | None]) -> None:
    wait_until(lambda: cluster.route() == route, what=f"the route {route}")


def test_a_route_follows_the_leader(cluster: Cluster) -> None:
    with ExitStack() as stack:
        anna = stack.enter_context(Running(cluster, "anna", A))
        until(cluster, (1, A))
        bert = stack.enter_context(Running(cluster, "bert", B))
        anna.finish()
        until(cluster, (2, B))
        bert.finish()
        assert cluster.route() == (2, None)
        for member in (anna, bert):
            assert member.kinds().count(TermWon) == 1
            assert not member.reasons()


def test_a_leader_that_returns_late_leaves_the_route_of_its_successor(cluster: Cluster, gate: ApiGate) -> None:
    """The first route of epoch 1 is on its way while a successor takes over."""
    place = replace(cluster.place, kubeconfig=str(gate.kubeconfig(cluster.user)))
    arrived, goes_on = threading.Event(), threading.Event()

    def stopped() -> None:
        arrived.set()
        goes_on.wait(NEVER_S)

    gate.before(WRITE, stopped)
    with Running(cluster, "anna", A, service=place) as anna:
        assert arrived.wait(NEVER_S)
        anna.finish()  # it does not wait for its route
        assert anna.kinds().count(TermLost) == 1
        with Running(cluster, "bert", B):
            until(cluster, (2, B))
            goes_on.set()
            wait_until(lambda: gate.statuses[409], what="the refusal of the late creation")
            assert cluster.route() == (2, B)


def test_a_leader_without_the_right_goes_on(kubernetes: KubernetesServer) -> None:
    cluster = Cluster(kubernetes, rules=RULES)
    with Running(cluster, "anna", A) as anna:
        wait_until(anna.reasons, what="the event")
        assert anna.member.condition.epoch == 1
        anna.finish()
        (why,) = anna.reasons()
        assert "endpointslices" in why
        assert "give the account this right" in why
        assert "\n" not in why
        assert anna.kinds()[-1] is not ServiceNotLed
    assert cluster.slice() is None


def test_a_leader_beside_the_slice_of_another_owner_goes_on(cluster: Cluster) -> None:
    cluster.add({"endpointslice.kubernetes.io/managed-by": "staff"})
    before = cluster.slice()
    with Running(cluster, "anna", A) as anna:
        wait_until(anna.reasons, what="the event")
        assert anna.member.condition.epoch == 1
    (why,) = anna.reasons()
    assert "is 'staff', not 'tenure'; delete it, or name another Service" in why
    assert cluster.slice() == before


def test_a_write_that_fails_is_repeated_while_the_term_lives(cluster: Cluster, gate: ApiGate) -> None:
    place = replace(cluster.place, kubeconfig=str(gate.kubeconfig(cluster.user)))
    failing = gate.refuse(WRITE, 500, times=3)
    with Running(cluster, "anna", A, service=place) as anna:
        until(cluster, (1, A))
        assert failing.used.is_set()
        assert len(anna.reasons()) == 1
    assert cluster.route() == (1, None)
