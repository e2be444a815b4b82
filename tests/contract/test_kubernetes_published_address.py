"""Published addresses on a real API server: epochs that only grow, owners, rights, and answers that are lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

import pytest

from tenure.backends.kubernetes import KubernetesAddress
from tenure.backends.kubernetes.endpoint_slices import EPOCH
from tenure.coordination.records import Scope
from tenure.errors import AccessDenied, NotPublished, OutcomeUnknown, StoreUnavailable
from tenure.testing.servers import KubernetesServer
from tests.support.api_gate import ApiGate
from tests.support.kubernetes import RULES
from tests.support.route import PORT, Cluster

SCOPE = Scope("shop")
WRITE: Final = r"(PUT|POST) .*/endpointslices"
A, B = "10.1.2.3", "10.1.2.4"


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
