"""The store on a cluster of etcd."""

from __future__ import annotations

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it prints each failed handshake; ours is the one line that says so

from tenure.backends.etcd.rpc import Cluster
from tenure.backends.etcd.store import EtcdStore
from tenure.backends.etcd.url import cluster_of

__all__ = ["Cluster", "EtcdStore", "cluster_of"]
