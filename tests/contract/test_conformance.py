"""Every named case of the contract, on every store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.testing.conformance import MemoryRig, StoreConformance, StoreRig
from tenure.testing.servers import EtcdCluster, KubernetesServer, ZooKeeperEnsemble
from tests.support.store_fixtures import EtcdRig, KubernetesRig, SqliteRig, ZooKeeperRig


class TestMemory(StoreConformance):
    @pytest.fixture
    def rig(self) -> Iterator[StoreRig]:
        rig = MemoryRig()
        yield rig
        rig.close()


class TestSqlite(StoreConformance):
    @pytest.fixture
    def rig(self) -> Iterator[StoreRig]:
        rig = SqliteRig()
        yield rig
        rig.close()


class TestZooKeeper(StoreConformance):
    @pytest.fixture
    def rig(self, zookeeper: ZooKeeperEnsemble) -> Iterator[StoreRig]:
        rig = ZooKeeperRig(zookeeper)
        yield rig
        rig.close()


class TestEtcd(StoreConformance):
    @pytest.fixture
    def rig(self, etcd: EtcdCluster) -> Iterator[StoreRig]:
        rig = EtcdRig(etcd)
        yield rig
        rig.close()


class TestKubernetes(StoreConformance):
    @pytest.fixture
    def rig(self, kubernetes: KubernetesServer) -> Iterator[StoreRig]:
        rig = KubernetesRig(kubernetes)
        yield rig
        rig.close()
