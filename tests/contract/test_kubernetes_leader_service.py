"""The Service of the leader on a real API server: members with made-up drivers, late writers, owners and rights."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from urllib.error import HTTPError

import pytest

from tenure.agent.leader_service import LeaderService
from tenure.agent.member import Conduct, Member
from tenure.backends.kubernetes import KubernetesAddress, KubernetesStore, Place
from tenure.backends.kubernetes.endpoint_slices import EPOCH
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.records import Scope
from tenure.coordination.term import Term
from tenure.errors import AccessDenied, NotPublished, OutcomeUnknown, StoreUnavailable
from tenure.events import Event, Events, ServiceNotLed, TermLost, TermWon
from tenure.link.lifecycle import Ended
from tenure.retry import fixed_delay
from tenure.scope_context import ScopeContext
from tenure.testing.servers import KubernetesServer
from tenure.testing.waiting import NEVER_S, wait_until
from tests.support.api_gate import ApiGate
from tests.support.kubernetes import RULES, SLICES, member_account
from tests.unit.agent.scene import Scripted

pytestmark = pytest.mark.long

SCOPE, CLOCK = Scope("shop"), SystemClock()
TTL = timedelta(seconds=10)
SLICE: Final = "shop-tenure"
WRITE: Final = r"(PUT|POST) .*/endpointslices"
A, B, PORT = "10.1.2.3", "10.1.2.4", 8008


class Cluster:
    """A namespace with the Service `shop`, and an account with the rights of members."""

    def __init__(self, server: KubernetesServer, *, rules: tuple[object, ...] = (*RULES, *SLICES)) -> None:
        self.server = server
        self.namespace = server.new_namespace()
        self.user = member_account(server, self.namespace, rules=rules)
        self.place = Place(self.namespace, "orders", kubeconfig=str(server.kubeconfig(self.user)))
        self._slices = f"/apis/discovery.k8s.io/v1/namespaces/{self.namespace}/endpointslices"
        service = {"ports": [{"name": "probes", "port": PORT}]}
        metadata = {"name": "shop", "namespace": self.namespace}
        server.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})

    def slice(self) -> dict[str, Any] | None:
        """The slice of the Service; None: there is none."""
        try:
            return self.server.ask("GET", f"{self._slices}/{SLICE}")
        except HTTPError as refused:
            if refused.code != 404:
                raise
            return None

    def change(self, change: Mapping[str, Any]) -> None:
        """Edit the slice, as with kubectl."""
        self.server.ask("PATCH", f"{self._slices}/{SLICE}", change)

    def delete(self) -> None:
        """Delete the slice."""
        self.server.ask("DELETE", f"{self._slices}/{SLICE}")

    def add(self, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> None:
        """Make a slice of this name with an endpoint, as another program would."""
        self.server.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": SLICE,
                    "namespace": self.namespace,
                    "labels": {"kubernetes.io/service-name": "shop", **labels},
                    "annotations": annotations or {},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.9.9.9"]}],
                "ports": [{"name": "theirs", "port": 80, "protocol": "TCP"}],
            }
        )

    def route(self) -> tuple[int, str | None] | None:
        """The epoch and the address to which the Service leads; None: there is no slice."""
        found = self.slice()
        if found is None:
            return None
        addresses = [one for endpoint in found["endpoints"] or [] for one in endpoint["addresses"]]
        assert len(addresses) < 2
        return int(found["metadata"]["annotations"][EPOCH]), next(iter(addresses), None)

    def address(self, name: str = "shop", *, place: Place | None = None) -> KubernetesAddress:
        """The name of the Service, which the caller closes."""
        return KubernetesAddress(place or self.place, name, clock=CLOCK)


@pytest.fixture
def cluster(kubernetes: KubernetesServer) -> Cluster:
    return Cluster(kubernetes)


@pytest.fixture
def published(cluster: Cluster) -> Iterator[KubernetesAddress]:
    with closing(cluster.address()) as made:
        yield made


@pytest.fixture
def gate(kubernetes: KubernetesServer) -> Iterator[ApiGate]:
    with ApiGate(kubernetes) as made:
        yield made


@pytest.fixture
def gated(cluster: Cluster, gate: ApiGate) -> Iterator[KubernetesAddress]:
    place = replace(cluster.place, kubeconfig=str(gate.kubeconfig(cluster.user)))
    with closing(cluster.address(place=place)) as made:
        yield made


# --- a published address --------------------------------------------------------------------------------------------


def test_an_address_is_published_and_moved_and_withdrawn(cluster: Cluster, published: KubernetesAddress) -> None:
    published.publish(SCOPE, epoch=1, address=A, port=PORT)
    assert cluster.route() == (1, A)
    found = cluster.slice()
    assert found is not None
    assert found["ports"] == [{"name": "probes", "port": PORT, "protocol": "TCP"}]
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "shop"
    published.publish(SCOPE, epoch=2, address=B, port=PORT)
    assert cluster.route() == (2, B)
    published.withdraw(SCOPE, epoch=2)
    assert cluster.route() == (2, None)
    published.publish(SCOPE, epoch=3, address="2.0.0.2", port=PORT)
    assert cluster.route() == (3, "2.0.0.2")


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_late_writer_of_an_older_epoch_changes_nothing(
    cluster: Cluster, published: KubernetesAddress, withdrawn: bool
) -> None:
    published.publish(SCOPE, epoch=10, address=B, port=PORT)
    if withdrawn:
        published.withdraw(SCOPE, epoch=10)
    before = cluster.slice()
    with pytest.raises(NotPublished, match=r"EndpointSlice .*/shop-tenure is not .* epoch 9 .* it has epoch 10"):
        published.publish(SCOPE, epoch=9, address=A, port=PORT)
    published.withdraw(SCOPE, epoch=9)
    assert cluster.slice() == before


def test_a_publication_that_a_successor_overtakes_changes_nothing(
    cluster: Cluster, published: KubernetesAddress, gated: KubernetesAddress, gate: ApiGate
) -> None:
    """The leader of epoch 2 has read the slice, and is stopped before it writes."""
    published.publish(SCOPE, epoch=1, address=A, port=PORT)
    gate.before(WRITE, lambda: published.publish(SCOPE, epoch=3, address=B, port=PORT))
    with pytest.raises(NotPublished, match="epoch 3, which is higher"):
        gated.publish(SCOPE, epoch=2, address=A, port=PORT)
    assert cluster.route() == (3, B)


def test_a_withdrawal_that_a_successor_overtakes_changes_nothing(
    cluster: Cluster, published: KubernetesAddress, gated: KubernetesAddress, gate: ApiGate
) -> None:
    gated.publish(SCOPE, epoch=2, address=A, port=PORT)
    stopped = gate.before(WRITE, lambda: published.publish(SCOPE, epoch=3, address=B, port=PORT))
    gated.withdraw(SCOPE, epoch=2)
    assert stopped.used.is_set()
    assert cluster.route() == (3, B)


def test_the_first_creation_wins(
    cluster: Cluster, published: KubernetesAddress, gated: KubernetesAddress, gate: ApiGate
) -> None:
    gate.before(WRITE, lambda: published.publish(SCOPE, epoch=2, address=B, port=PORT))
    with pytest.raises(NotPublished, match="epoch 2, which is higher"):
        gated.publish(SCOPE, epoch=1, address=A, port=PORT)
    assert cluster.route() == (2, B)


@pytest.mark.parametrize(
    "annotations",
    [None, {"tenure.scope": "other", EPOCH: "1"}, {"tenure.scope": "shop", EPOCH: "1"}],
)
@pytest.mark.parametrize("manager", ["", "endpointslice-controller.k8s.io", "tenure"])
def test_the_slice_of_another_owner_is_untouched(
    cluster: Cluster, published: KubernetesAddress, manager: str, annotations: Mapping[str, str] | None
) -> None:
    """`tenure` alone is the manager of slices of other stores as well."""
    cluster.add({"endpointslice.kubernetes.io/managed-by": manager} if manager else {}, annotations)
    before = cluster.slice()
    with pytest.raises(NotPublished, match=r"shop-tenure is not .*; delete it, or name another Service"):
        published.publish(SCOPE, epoch=7, address=A, port=PORT)
    published.withdraw(SCOPE, epoch=7)
    assert cluster.slice() == before
    cluster.delete()
    published.publish(SCOPE, epoch=7, address=A, port=PORT)
    assert cluster.route() == (7, A)


def test_stores_with_the_same_scope_have_services_of_their_own(cluster: Cluster, published: KubernetesAddress) -> None:
    published.publish(SCOPE, epoch=1, address=A, port=PORT)
    other = replace(cluster.place, name="invoices")
    with closing(cluster.address(place=other)) as theirs, pytest.raises(NotPublished, match="store 'orders'"):
        theirs.publish(SCOPE, epoch=2, address=B, port=PORT)
    assert cluster.route() == (1, A)


def test_a_repetition_writes_nothing(cluster: Cluster, gated: KubernetesAddress, gate: ApiGate) -> None:
    for _ in range(3):
        gated.publish(SCOPE, epoch=1, address=A, port=PORT)
    assert gate.requests == {"POST other": 1, "GET other": 3}
    for _ in range(3):
        gated.withdraw(SCOPE, epoch=1)
    assert gate.requests == {"POST other": 1, "GET other": 6, "PUT other": 1}
    cluster.change({"metadata": {"labels": {"team": "x"}}})
    gated.publish(SCOPE, epoch=2, address=A, port=PORT)
    found = cluster.slice()
    assert found is not None
    assert found["metadata"]["labels"]["team"] == "x"


def test_a_withdrawal_makes_no_slice(cluster: Cluster, published: KubernetesAddress) -> None:
    published.withdraw(SCOPE, epoch=1)
    assert cluster.slice() is None


def test_an_answer_that_is_lost_is_repeated_without_harm(
    cluster: Cluster, gated: KubernetesAddress, gate: ApiGate
) -> None:
    for epoch in (1, 2):  # a creation and a replacement
        gate.lose_answer(WRITE)
        with pytest.raises(OutcomeUnknown):
            gated.publish(SCOPE, epoch=epoch, address=A, port=PORT)
        gated.publish(SCOPE, epoch=epoch, address=A, port=PORT)
        assert cluster.route() == (epoch, A)
    gate.refuse(r"GET ", 503)
    with pytest.raises(StoreUnavailable):
        gated.publish(SCOPE, epoch=3, address=A, port=PORT)


def test_an_address_that_the_server_refuses_is_named(published: KubernetesAddress) -> None:
    with pytest.raises(NotPublished, match=r"127\.0\.0\.1"):
        published.publish(SCOPE, epoch=1, address="127.0.0.1", port=PORT)


@pytest.mark.parametrize("verbs", [("get",), ("get", "update"), ("create", "update")])
def test_a_right_that_is_missing_is_named(kubernetes: KubernetesServer, verbs: tuple[str, ...]) -> None:
    rule = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": list(verbs)}
    cluster = Cluster(kubernetes, rules=(*RULES, rule))
    with closing(cluster.address()) as published, pytest.raises(AccessDenied, match="endpointslices"):
        published.publish(SCOPE, epoch=1, address=A, port=PORT)
    assert cluster.slice() is None


def test_a_closed_name_sends_nothing(cluster: Cluster) -> None:
    published = cluster.address()
    published.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        published.publish(SCOPE, epoch=1, address=A, port=PORT)


# --- members --------------------------------------------------------------------------------------------------------


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
