"""The store on a cluster of etcd."""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC prints each failed handshake; our error says the same

from tenure.backends.etcd.rpc import Cluster
from tenure.backends.etcd.store import EtcdStore
from tenure.backends.etcd.url import cluster_of

__all__ = ["Cluster", "EtcdStore", "cluster_of"]
