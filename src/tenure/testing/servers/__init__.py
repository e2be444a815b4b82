"""Real servers for tests, on loopback.

Promise: `start` returns when the server can be used. Every process of a server is in a group that is killed at the end
of the block, also when the block fails. A server that was stopped, killed or paused starts or continues with its data
and on its port. Not promised: any speed; the servers share the machine with the test.
"""

from __future__ import annotations

from tenure.testing.servers.authority import Authority
from tenure.testing.servers.etcd import EtcdCluster
from tenure.testing.servers.hdfs import Hdfs
from tenure.testing.servers.kafka import KafkaServer
from tenure.testing.servers.kubernetes import KubernetesServer
from tenure.testing.servers.postgres import PostgresServer
from tenure.testing.servers.process import TlsFiles, free_ports
from tenure.testing.servers.programs import NotInstalled, installed, need
from tenure.testing.servers.seaweedfs import BUCKET, SeaweedFs
from tenure.testing.servers.spark import SparkStandalone
from tenure.testing.servers.stores import STORES, Server, served, started
from tenure.testing.servers.zookeeper import ZooKeeperEnsemble

__all__ = [
    "BUCKET",
    "STORES",
    "Authority",
    "EtcdCluster",
    "Hdfs",
    "KafkaServer",
    "KubernetesServer",
    "NotInstalled",
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
