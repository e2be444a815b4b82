"""Stores that say it in the commit itself spare the handle store a listing for each replacement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.coordination.records import Key, Put
from tenure.testing.conformance.fixture import SCOPE, StoreRig, put_new
from tenure.testing.servers import EtcdCluster, ZooKeeperEnsemble
from tests.support.store_fixtures import EtcdRig, ZooKeeperRig

A, B = Key("a"), Key("b")


@pytest.fixture(params=["zookeeper", "etcd"])
def rig(request: pytest.FixtureRequest, zookeeper: ZooKeeperEnsemble, etcd: EtcdCluster) -> Iterator[StoreRig]:
    made: StoreRig = ZooKeeperRig(zookeeper) if request.param == "zookeeper" else EtcdRig(etcd)
    yield made
    made.close()


def test_one_record_that_is_replaced_is_said_to_be_alone(rig: StoreRig) -> None:
    store = rig.client()
    first = put_new(store, "a")
    put_new(store, "ab")
    assert store.commit(SCOPE, guards=[], writes=[Put(A, b"again", first)]).alone == {A}


def test_nothing_is_said_of_several(rig: StoreRig) -> None:
    store = rig.client()
    first = put_new(store, "a")
    assert not store.commit(SCOPE, guards=[], writes=[Put(A, b"again", first), Put(B, b"x", None)]).alone
