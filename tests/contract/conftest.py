"""The servers that the contract's tests share; each test has a place of its own in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.testing.servers import EtcdCluster, ZooKeeperEnsemble

pytest.register_assert_rewrite("tenure.testing.conformance", "tenure.testing.agreement")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster
