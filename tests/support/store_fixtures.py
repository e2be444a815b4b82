"""Rigs of the stores on disk and on servers, for the conformance suite."""

from __future__ import annotations

import json
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.backends.buckets import BucketPlace, BucketStore
from tenure.backends.etcd import Cluster, EtcdStore
from tenure.backends.kubernetes import KubernetesStore, Place
from tenure.backends.postgres import PostgresPlace, PostgresStore, place_of
from tenure.backends.s3 import S3
from tenure.backends.sqlite import SqliteStore
from tenure.backends.zookeeper import Ensemble, ZooKeeperStore
from tenure.clock import SystemClock
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.store_url import split_url
from tests.kit.clock import ManualClock
from tests.kit.conformance.fixture import StoreRig
from tests.kit.process import GroupProcess
from tests.kit.servers import clouds
from tests.kit.servers.clouds import Azurite, FakeGcs
from tests.kit.servers.etcd import EtcdCluster
from tests.kit.servers.kubernetes import KubernetesServer
from tests.kit.servers.postgres import PostgresServer
from tests.kit.servers.process import Servers
from tests.kit.servers.seaweedfs import BUCKET, SeaweedFs, environment
from tests.kit.servers.zookeeper import ZooKeeperEnsemble
from tests.support.api_gate import ApiGate
from tests.support.kubernetes import member_account


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


class ServerRig(StoreRig):
    """A place of its own on servers that run, in real time."""

    ttl = timedelta(seconds=2)
    time_is_free = False

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._clients: list[CoordinationStore] = []
        self._clock = SystemClock()

    @abstractmethod
    def open(self) -> CoordinationStore:
        """One more client, which nobody closes."""

    def client(self) -> CoordinationStore:
        client = self.open()
        self._clients.append(client)
        return client

    def kill(self, client: CoordinationStore) -> None:
        """Closing a client breaks its lines, and tells the servers nothing about its sessions."""
        client.close()

    def restart(self) -> CoordinationStore:
        self.close()
        for node in self._servers.nodes:
            node.kill()
        self._servers.start()
        return self.client()

    def pass_time(self, by: timedelta) -> None:
        self._clock.sleep(by.total_seconds())

    def close(self) -> None:
        for client in self._clients:
            client.close()


class ZooKeeperRig(ServerRig):
    """A chroot of its own in an ensemble."""

    grace = timedelta(seconds=1)

    def __init__(self, servers: ZooKeeperEnsemble) -> None:
        super().__init__(servers)
        self.ensemble = Ensemble(hosts=servers.hosts, chroot=f"/rig-{new_uid()[:12]}")
        servers.create(self.ensemble.chroot)

    def open(self) -> CoordinationStore:
        return ZooKeeperStore(self.ensemble)


class KubernetesRig(ServerRig):
    """A namespace of its own behind an API server; its clients have the rights of members, and no others."""

    def __init__(self, server: KubernetesServer) -> None:
        super().__init__(server)
        self.server = server
        self._namespace = server.new_namespace()
        self._user = member_account(server, self._namespace)
        self.place = Place(self._namespace, "tenure", kubeconfig=str(server.kubeconfig(self._user)))

    def open(self) -> CoordinationStore:
        return self._store(self.place)

    def store(self) -> KubernetesStore:
        """One more client, with its own type."""
        made = self._store(self.place)
        self._clients.append(made)
        return made

    def through(self, gate: ApiGate) -> KubernetesStore:
        """A client whose requests go through the gate."""
        made = self._store(replace(self.place, kubeconfig=str(gate.kubeconfig(self._user))))
        self._clients.append(made)
        return made

    def by(self, url: str) -> KubernetesStore:
        """A client that reaches the server by another address of this host."""
        direct = self.server.kubeconfig(self._user)
        settings = json.loads(direct.read_text(encoding="utf-8"))
        settings["clusters"][0]["cluster"]["server"] = url
        path = direct.with_name(f"by-{url.rpartition(':')[2]}-{direct.name}")
        path.write_text(json.dumps(settings), encoding="utf-8")
        made = self._store(replace(self.place, kubeconfig=str(path)))
        self._clients.append(made)
        return made

    def as_user(self, user: str) -> KubernetesStore:
        """A client of another user, which the caller closes."""
        return self._store(replace(self.place, kubeconfig=str(self.server.kubeconfig(user))))

    def in_namespace(self, name: str) -> KubernetesStore:
        """A client of the administrator in another namespace, which the caller closes."""
        return self._store(replace(self.place, namespace=name, kubeconfig=str(self.server.kubeconfig())))

    def new_token(self) -> str:
        """A new token of the clients' user, which their kubeconfig has from now on."""
        token = self.server.account(self._namespace, self._user)
        self.server.kubeconfig(self._user, token=token)
        return token

    def _store(self, place: Place) -> KubernetesStore:
        return KubernetesStore(place)


class EtcdRig(ServerRig):
    """A prefix of its own in a cluster."""

    grace = timedelta(seconds=2)

    def __init__(self, servers: EtcdCluster) -> None:
        super().__init__(servers)
        self.cluster = Cluster(endpoints=servers.endpoints, prefix=f"/rig-{new_uid()[:12]}")

    def open(self) -> CoordinationStore:
        return EtcdStore(self.cluster)


class BucketRig(ServerRig):
    """A place in the bucket of a server, which the variables name as long as the rig is open."""

    ttl = timedelta(seconds=6)
    """A commit is two or three requests, and some cases renew no session."""
    grace = timedelta(seconds=3)

    def __init__(self, server: Servers, place: BucketPlace, variables: Mapping[str, str]) -> None:
        super().__init__(server)
        self.place = place
        self._patch = pytest.MonkeyPatch()
        for name, value in variables.items():
            self._patch.setenv(name, value)

    def open(self) -> BucketStore:
        return BucketStore(self.place)

    def restart(self) -> CoordinationStore:
        for client in self._clients:
            client.close()
        for node in self._servers.nodes:
            self._end(node)
        self._servers.start()
        return self.client()

    def _end(self, node: GroupProcess) -> None:
        node.kill()

    def close(self) -> None:
        super().close()
        self._patch.undo()


class S3Rig(BucketRig):
    """A prefix of its own in the bucket of a server of S3."""

    def __init__(self, server: SeaweedFs, *, url: str | None = None) -> None:
        """`url`: of a gate before the server."""
        super().__init__(server, BucketPlace(S3, BUCKET, f"rig-{new_uid()[:12]}"), environment(url or server.url))


class GcsRig(BucketRig):
    """A prefix of its own in the bucket of an emulator of Google's service."""

    def __init__(self, server: FakeGcs, *, url: str | None = None) -> None:
        """`url`: of a gate before the server."""
        from tenure.backends.gcs import GCS

        place = BucketPlace(GCS, clouds.BUCKET, f"rig-{new_uid()[:12]}")
        super().__init__(server, place, server.environment(url))


class AzureRig(BucketRig):
    """A prefix of its own in the container of an emulator of Azure's service."""

    def __init__(self, server: Azurite, *, url: str | None = None) -> None:
        """`url`: of a gate before the server."""
        from tenure.backends.azure import AZURE

        place = BucketPlace(AZURE, clouds.BUCKET, f"rig-{new_uid()[:12]}", clouds.HOST)
        super().__init__(server, place, server.environment(url))

    def _end(self, node: GroupProcess) -> None:
        """An Azurite that is killed loses what it has answered."""
        node.stop()


class PostgresRig(ServerRig):
    """A schema of its own in a database."""

    grace = timedelta(seconds=2)

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server)
        self.place: PostgresPlace = place_of(split_url(server.store(f"rig_{new_uid()[:12]}")))

    def open(self) -> CoordinationStore:
        return PostgresStore(self.place)
