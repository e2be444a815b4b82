"""Every named case of the contract, on every store; on PostgreSQL and S3 in the runs of the commits that draw them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.coordination.records import Guard, wanted_version
from tests.draw import only_if_drawn
from tests.kit import memory
from tests.kit.conformance import MemoryRig, StoreConformance, StoreRig
from tests.kit.servers import EtcdCluster, KubernetesServer, PostgresServer, SeaweedFs, ZooKeeperEnsemble
from tests.support.store_fixtures import EtcdRig, KubernetesRig, PostgresRig, S3Rig, SqliteRig, ZooKeeperRig


class TestMemory(StoreConformance):
    @pytest.fixture
    def rig(self) -> Iterator[StoreRig]:
        rig = MemoryRig()
        yield rig
        rig.close()


def test_a_store_that_fences_by_existence_fails_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_there_or_not(scope: memory._Scope, guard: Guard) -> bool:
        return (guard.key in scope.records) is (wanted_version(guard) is not None)

    monkeypatch.setattr(memory._Scope, "holds", is_there_or_not)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        TestMemory().test_each_guard_holds_and_fails(MemoryRig().client())


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


@only_if_drawn("s3")
class TestS3(StoreConformance):
    @pytest.fixture
    def rig(self, seaweedfs: SeaweedFs) -> Iterator[StoreRig]:
        rig = S3Rig(seaweedfs)
        yield rig
        rig.close()


@only_if_drawn("postgres")
class TestPostgres(StoreConformance):
    @pytest.fixture
    def rig(self, postgres: PostgresServer) -> Iterator[StoreRig]:
        rig = PostgresRig(postgres)
        yield rig
        rig.close()
