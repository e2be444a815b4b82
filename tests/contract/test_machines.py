"""Random histories: each store against the contract's model, and against the memory store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings

from tests.draw import only_if_drawn
from tests.kit.conformance import MemoryRig, agreement_machine, contract_machine
from tests.kit.servers import EtcdCluster, KubernetesServer, PostgresServer, SeaweedFs, ZooKeeperEnsemble
from tests.properties import examples
from tests.support.store_fixtures import EtcdRig, KubernetesRig, PostgresRig, S3Rig, SqliteRig, ZooKeeperRig

_BOUNDED = settings(max_examples=examples(60), stateful_step_count=30)

_SERVED = settings(_BOUNDED, max_examples=examples(8))
"""For stores on servers: each step is some hundred requests."""

_LONG_TTL = timedelta(minutes=2)
"""In real time: a session that ended by itself in the middle of a history would be no surprise to the store."""

_servers: dict[str, Any] = {}


@pytest.fixture(autouse=True, scope="module")
def servers(
    zookeeper: ZooKeeperEnsemble,
    etcd: EtcdCluster,
    kubernetes: KubernetesServer,
    postgres: PostgresServer,
    seaweedfs: SeaweedFs,
) -> None:
    """Hypothesis makes the rigs by itself."""
    _servers.update(zookeeper=zookeeper, etcd=etcd, kubernetes=kubernetes, postgres=postgres, seaweedfs=seaweedfs)


class PatientZooKeeperRig(ZooKeeperRig):
    ttl = _LONG_TTL


class PatientEtcdRig(EtcdRig):
    ttl = _LONG_TTL


class PatientKubernetesRig(KubernetesRig):
    ttl = _LONG_TTL


class PatientS3Rig(S3Rig):
    ttl = _LONG_TTL


class PatientPostgresRig(PostgresRig):
    ttl = _LONG_TTL


def zookeeper_rig() -> ZooKeeperRig:
    return PatientZooKeeperRig(_servers["zookeeper"])


def etcd_rig() -> EtcdRig:
    return PatientEtcdRig(_servers["etcd"])


def kubernetes_rig() -> KubernetesRig:
    return PatientKubernetesRig(_servers["kubernetes"])


def s3_rig() -> S3Rig:
    return PatientS3Rig(_servers["seaweedfs"])


def postgres_rig() -> PostgresRig:
    return PatientPostgresRig(_servers["postgres"])


TestMemoryKeepsTheContract = contract_machine(MemoryRig).TestCase
TestMemoryKeepsTheContract.settings = settings(_BOUNDED, max_examples=examples(150))

TestSqliteKeepsTheContract = contract_machine(SqliteRig).TestCase
TestSqliteKeepsTheContract.settings = _BOUNDED

TestSqliteAgreesWithMemory = agreement_machine(SqliteRig).TestCase
TestSqliteAgreesWithMemory.settings = _BOUNDED

TestZooKeeperKeepsTheContract = only_if_drawn("zookeeper")(contract_machine(zookeeper_rig).TestCase)
TestZooKeeperKeepsTheContract.settings = _SERVED

TestZooKeeperAgreesWithMemory = only_if_drawn("zookeeper")(agreement_machine(zookeeper_rig).TestCase)
TestZooKeeperAgreesWithMemory.settings = _SERVED


TestKubernetesKeepsTheContract = only_if_drawn("kubernetes")(contract_machine(kubernetes_rig).TestCase)
TestKubernetesKeepsTheContract.settings = _SERVED

TestKubernetesAgreesWithMemory = only_if_drawn("kubernetes")(agreement_machine(kubernetes_rig).TestCase)
TestKubernetesAgreesWithMemory.settings = _SERVED

TestEtcdKeepsTheContract = only_if_drawn("etcd")(contract_machine(etcd_rig).TestCase)
TestEtcdKeepsTheContract.settings = _SERVED

TestEtcdAgreesWithMemory = agreement_machine(etcd_rig).TestCase
TestEtcdAgreesWithMemory.settings = _SERVED

TestS3KeepsTheContract = only_if_drawn("s3")(contract_machine(s3_rig).TestCase)
TestS3KeepsTheContract.settings = _SERVED

TestS3AgreesWithMemory = only_if_drawn("s3")(agreement_machine(s3_rig).TestCase)
TestS3AgreesWithMemory.settings = _SERVED

TestPostgresKeepsTheContract = only_if_drawn("postgres")(contract_machine(postgres_rig).TestCase)
TestPostgresKeepsTheContract.settings = _SERVED

TestPostgresAgreesWithMemory = only_if_drawn("postgres")(agreement_machine(postgres_rig).TestCase)
TestPostgresAgreesWithMemory.settings = _SERVED
