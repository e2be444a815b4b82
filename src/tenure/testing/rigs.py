"""Rigs of the stores, for the conformance suite and for whoever compares stores."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from tenure.backends.etcd import Cluster, EtcdStore
from tenure.backends.memory import MemoryServer, MemoryStore
from tenure.backends.sqlite import SqliteStore
from tenure.backends.zookeeper import Ensemble, ZooKeeperStore
from tenure.clock import SystemClock
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.testing.clock import ManualClock
from tenure.testing.conformance.rig import StoreRig
from tenure.testing.servers.etcd import EtcdCluster
from tenure.testing.servers.zookeeper import ZooKeeperEnsemble


class MemoryRig(StoreRig):
    """A memory store on a manual clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._server = MemoryServer(self.clock)

    def client(self) -> CoordinationStore:
        return MemoryStore(self._server)

    def kill(self, client: CoordinationStore) -> None:
        client.close()

    def restart(self) -> CoordinationStore:
        self._server = MemoryServer(self.clock)
        return self.client()

    def pass_time(self, by: timedelta) -> None:
        self.clock.advance(by)

    def close(self) -> None:
        """Nothing lies outside of this object."""


class SqliteRig(StoreRig):
    """A SQLite store in a directory of its own, on a manual clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self._directory = tempfile.TemporaryDirectory(prefix="tenure-rig-")
        self.path = Path(self._directory.name) / "store.db"
        self._clients: list[SqliteStore] = []

    def client(self) -> CoordinationStore:
        client = SqliteStore(self.path, clock=self.clock)
        self._clients.append(client)
        return client

    def kill(self, client: CoordinationStore) -> None:
        """The kernel closes the files of a killed process, and that is all that closing does."""
        client.close()
        self._clients = [known for known in self._clients if known is not client]

    def restart(self) -> CoordinationStore:
        for client in list(self._clients):
            self.kill(client)
        return self.client()

    def pass_time(self, by: timedelta) -> None:
        """Everybody looks before, because an observer counts from its own first look."""
        for client in self._clients:
            client.list(Scope("anything"))
        self.clock.advance(by)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._directory.cleanup()


class ZooKeeperRig(StoreRig):
    """A chroot of its own in an ensemble that runs, in real time."""

    ttl = timedelta(seconds=2)
    grace = timedelta(seconds=1)
    time_is_free = False

    def __init__(self, ensemble: ZooKeeperEnsemble) -> None:
        self._servers = ensemble
        self.ensemble = Ensemble(hosts=ensemble.hosts, chroot=f"/rig-{new_uid()[:12]}")
        self._clients: list[ZooKeeperStore] = []
        self._clock = SystemClock()
        ensemble.create(self.ensemble.chroot)

    def client(self) -> CoordinationStore:
        client = ZooKeeperStore(self.ensemble)
        self._clients.append(client)
        return client

    def kill(self, client: CoordinationStore) -> None:
        """Closing a client breaks its lines, and tells the ensemble nothing about its sessions."""
        client.close()

    def restart(self) -> CoordinationStore:
        for client in self._clients:
            client.close()
        for node in self._servers.nodes:
            node.kill()
        self._servers.start()
        return self.client()

    def pass_time(self, by: timedelta) -> None:
        self._clock.sleep(by.total_seconds())

    def close(self) -> None:
        for client in self._clients:
            client.close()


class EtcdRig(StoreRig):
    """A prefix of its own in a cluster that runs, in real time."""

    ttl = timedelta(seconds=2)
    grace = timedelta(seconds=2)
    time_is_free = False

    def __init__(self, servers: EtcdCluster) -> None:
        self._servers = servers
        self.cluster = Cluster(endpoints=servers.endpoints, prefix=f"/rig-{new_uid()[:12]}")
        self._clients: list[EtcdStore] = []
        self._clock = SystemClock()

    def client(self) -> CoordinationStore:
        client = EtcdStore(self.cluster)
        self._clients.append(client)
        return client

    def kill(self, client: CoordinationStore) -> None:
        """Closing a client breaks its lines, and tells the cluster nothing about its sessions."""
        client.close()

    def restart(self) -> CoordinationStore:
        for client in self._clients:
            client.close()
        for node in self._servers.nodes:
            node.kill()
        self._servers.start()
        return self.client()

    def pass_time(self, by: timedelta) -> None:
        self._clock.sleep(by.total_seconds())

    def close(self) -> None:
        for client in self._clients:
            client.close()
