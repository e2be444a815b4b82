"""Real servers for tests: started on loopback, ended with the block, nothing left behind.

Promise: `start` returns when the server can be used, on ports that nobody else had. Every process of it is in a group
that is killed at the end, also when the block fails.
"""

from __future__ import annotations

from tenure.testing.servers.etcd import EtcdCluster
from tenure.testing.servers.hdfs import Hdfs
from tenure.testing.servers.process import NotInstalled, ServerProcess, Servers, TlsFiles, free_ports, installed, need
from tenure.testing.servers.seaweedfs import BUCKET, SeaweedFs
from tenure.testing.servers.spark import SparkStandalone
from tenure.testing.servers.stores import STORES, started
from tenure.testing.servers.zookeeper import ZooKeeperEnsemble

__all__ = [
    "BUCKET",
    "STORES",
    "EtcdCluster",
    "Hdfs",
    "NotInstalled",
    "SeaweedFs",
    "ServerProcess",
    "Servers",
    "SparkStandalone",
    "TlsFiles",
    "ZooKeeperEnsemble",
    "free_ports",
    "installed",
    "need",
    "started",
]
