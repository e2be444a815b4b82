"""The EndpointSlice of a published address: whose it is, which epoch it has, and what a replacement keeps."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from tenure.backends.kubernetes.endpoint_slices import (
    EPOCH,
    MANAGER,
    SCOPE,
    SERVICE,
    Publication,
    new_slice,
    obstacle,
    replaced,
    shows,
    slice_name,
)
from tenure.backends.kubernetes.leases import STORE
from tenure.coordination.records import Scope

WANTED = Publication("shop", "orders", Scope("totals"), epoch=3, address="10.1.2.3", port=8008)
OTHERS: dict[str, dict[str, str]] = {"labels": {"team": "x"}, "annotations": {"note": "y"}}


def marked(part: str, name: str, value: str | None) -> dict[str, Any]:
    """The slice of epoch 3 with another label or annotation; None: without it."""
    found = copy.deepcopy(new_slice(WANTED))
    found["metadata"][part].pop(name)
    if value is not None:
        found["metadata"][part][name] = value
    return found


def test_a_slice_says_whose_it_is() -> None:
    assert new_slice(WANTED) == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "shop-tenure",
            "labels": {
                "kubernetes.io/service-name": "shop",
                "endpointslice.kubernetes.io/managed-by": "tenure",
                "tenure.store": "orders",
            },
            "annotations": {
                "argocd.argoproj.io/sync-options": "Prune=false",
                "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
                "tenure.scope": "totals",
                "tenure.epoch": "3",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
        "ports": [{"name": "probes", "port": 8008, "protocol": "TCP"}],
    }
    assert new_slice(WANTED)["metadata"]["name"] == slice_name("shop")


def test_the_slice_of_an_earlier_version_is_replaced_and_marked_anew() -> None:
    former = {"app.kubernetes.io/managed-by": "tenure", "app.kubernetes.io/instance": "orders"}
    found = marked("labels", STORE, None)
    found["metadata"]["labels"] |= former
    assert obstacle(found, WANTED) is None
    assert not shows(found, WANTED)
    assert replaced(found, WANTED) == new_slice(WANTED)
    other = replace(WANTED, store="other")
    assert obstacle(found, other) == "it belongs to store 'orders', scope 'totals'"


@pytest.mark.parametrize("epoch", [3, 4, 40])
def test_the_same_epoch_and_a_higher_epoch_may_replace_it(epoch: int) -> None:
    assert obstacle(new_slice(WANTED), replace(WANTED, epoch=epoch)) is None


@pytest.mark.parametrize("address", [None, "10.9.9.9"])
@pytest.mark.parametrize("epoch", [1, 2])
def test_a_lower_epoch_may_not_replace_it_and_not_withdraw_it(epoch: int, address: str | None) -> None:
    late = replace(WANTED, epoch=epoch, address=address)
    assert obstacle(new_slice(WANTED), late) == "it has epoch 3, which is higher"


@pytest.mark.parametrize(
    ("part", "name", "value", "why"),
    [
        ("labels", MANAGER, "endpointslice-controller.k8s.io", "is 'endpointslice-controller.k8s.io', not 'tenure'"),
        ("labels", MANAGER, None, "managed-by is '', not 'tenure'"),
        ("labels", SERVICE, "other", "it belongs to Service 'other'"),
        ("labels", STORE, "other", "it belongs to store 'other', scope 'totals'"),
        ("labels", STORE, None, "it belongs to store '', scope 'totals'"),
        ("annotations", SCOPE, "other", "it belongs to store 'orders', scope 'other'"),
        ("annotations", SCOPE, None, "it belongs to store 'orders', scope ''"),
        ("annotations", EPOCH, "many", "its annotation tenure.epoch is 'many', which is no number"),
        ("annotations", EPOCH, None, "its annotation tenure.epoch is '', which is no number"),
        ("annotations", EPOCH, "٣", "which is no number"),
    ],
)
def test_the_slice_of_another_owner_is_not_replaced(part: str, name: str, value: str | None, why: str) -> None:
    assert why in str(obstacle(marked(part, name, value), replace(WANTED, epoch=9)))


@pytest.mark.parametrize("metadata", [{}, {"labels": None, "annotations": None}])
def test_a_slice_without_any_mark_is_of_another_owner(metadata: dict[str, Any]) -> None:
    assert obstacle({"metadata": {"name": "shop-tenure", **metadata}}, WANTED) is not None


def test_the_kind_of_addresses_cannot_change() -> None:
    later = replace(WANTED, epoch=4, address="2001:db8::1")
    assert obstacle(new_slice(WANTED), later) == "it is for addresses of kind IPv4, and 2001:db8::1 is none"
    assert new_slice(later)["addressType"] == "IPv6"
    assert obstacle(new_slice(WANTED), replace(later, address=None)) is None


def test_a_replacement_keeps_the_words_of_others_and_the_version() -> None:
    found = new_slice(WANTED)
    found["metadata"] = {
        **found["metadata"],
        "resourceVersion": "7",
        "managedFields": [{}],
        **{part: {**found["metadata"][part], **words} for part, words in OTHERS.items()},
    }
    later = replaced(found, replace(WANTED, epoch=4, address="10.1.2.4"))
    assert later["metadata"]["resourceVersion"] == "7"
    assert "managedFields" not in later["metadata"]
    assert later["endpoints"][0]["addresses"] == ["10.1.2.4"]
    assert later["metadata"]["annotations"][EPOCH] == "4"
    assert all(words.items() <= later["metadata"][part].items() for part, words in OTHERS.items())


def test_a_withdrawal_leaves_the_port_and_takes_the_endpoint() -> None:
    withdrawn = replaced(new_slice(WANTED), replace(WANTED, address=None, port=None))
    assert withdrawn["endpoints"] == []
    assert withdrawn["ports"] == new_slice(WANTED)["ports"]
    assert withdrawn["metadata"]["annotations"][EPOCH] == "3"


def test_it_is_known_whether_a_slice_shows_a_publication() -> None:
    found = new_slice(WANTED)
    assert shows(found, WANTED)
    for other in ({"epoch": 4}, {"address": "10.1.2.4"}, {"address": None}, {"port": 8009}):
        assert not shows(found, replace(WANTED, **other))
    nothing = replace(WANTED, address=None, port=None)
    assert shows({**replaced(found, nothing), "endpoints": None}, nothing)  # as the server writes an empty list
