"""Real servers for tests, on loopback.

Promise: `start` returns when the server can be used. Every process of a server is in a group that is killed at the end
of the block, also when the block fails. A server that was stopped, killed or paused starts or continues with its data
and on its port. Not promised: any speed; the servers share the machine with the test.
"""

from __future__ import annotations

from tests.kit.servers.authority import Authority
from tests.kit.servers.clouds import Azurite, FakeGcs
from tests.kit.servers.etcd import EtcdCluster
from tests.kit.servers.hdfs import Hdfs
from tests.kit.servers.kafka import KafkaServer
from tests.kit.servers.kubernetes import KubernetesServer
from tests.kit.servers.mariadb import MariaDbServer
from tests.kit.servers.patroni import PatroniCluster
from tests.kit.servers.postgres import PostgresServer
from tests.kit.servers.process import TlsFiles, free_ports
from tests.kit.servers.programs import NotInstalled, installed, need
from tests.kit.servers.seaweedfs import BUCKET, SeaweedFs
from tests.kit.servers.spark import SparkStandalone
from tests.kit.servers.stores import STORES, Server, served, started
from tests.kit.servers.zookeeper import ZooKeeperEnsemble

__all__ = [
    "BUCKET",
    "STORES",
    "Authority",
    "Azurite",
    "EtcdCluster",
    "FakeGcs",
    "Hdfs",
    "KafkaServer",
    "KubernetesServer",
    "MariaDbServer",
    "NotInstalled",
    "PatroniCluster",
    "PostgresServer",
    "SeaweedFs",
    "Server",
    "SparkStandalone",
    "TlsFiles",
    "ZooKeeperEnsemble",
    "free_ports",
    "installed",
    "need",
    "served",
    "started",
]
