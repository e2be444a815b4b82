"""The store on a ZooKeeper ensemble."""

from __future__ import annotations

from tenure.backends.zookeeper.connection import Ensemble
from tenure.backends.zookeeper.store import ZooKeeperStore
from tenure.backends.zookeeper.url import ensemble_of

__all__ = ["Ensemble", "ZooKeeperStore", "ensemble_of"]
