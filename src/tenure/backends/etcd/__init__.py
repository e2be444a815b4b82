"""The store on a cluster of etcd."""

from __future__ import annotations

from tenure.backends.etcd.rpc import Cluster
from tenure.backends.etcd.store import EtcdStore
from tenure.backends.etcd.url import cluster_of

__all__ = ["Cluster", "EtcdStore", "cluster_of"]
