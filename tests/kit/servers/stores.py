"""A store of each kind for a demo or a bench, by its URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tests.kit.servers.etcd import EtcdCluster
from tests.kit.servers.kubernetes import KubernetesServer
from tests.kit.servers.zookeeper import ZooKeeperEnsemble

STORES: Final = ("sqlite", "zookeeper", "etcd", "kubernetes")


Server = ZooKeeperEnsemble | EtcdCluster | KubernetesServer


@contextmanager
def started(store: str, folder: Path) -> Iterator[str]:
    """The URL of one of `STORES` for the block. ZooKeeper and etcd have three servers, Kubernetes has one
    API server, whose administrator the kubeconfig names. Raises NotInstalled."""
    with served(store, folder) as (url, _):
        yield url


@contextmanager
def served(store: str, folder: Path) -> Iterator[tuple[str, Server | None]]:
    """As `started`, with the servers; None: the store has none."""
    if store == "zookeeper":
        with ZooKeeperEnsemble(folder) as ensemble:
            ensemble.create("/tenure")
            yield f"zookeeper://{ensemble.hosts}/tenure", ensemble
    elif store == "etcd":
        with EtcdCluster(folder) as cluster:
            yield f"etcd://{','.join(cluster.endpoints)}/tenure", cluster
    elif store == "kubernetes":
        with KubernetesServer(folder) as server:
            namespace = server.new_namespace()
            kubeconfig = server.kubeconfig(namespace=namespace)
            yield f"kubernetes://{namespace}/tenure?kubeconfig={quote(str(kubeconfig), safe='')}", server
    else:
        yield f"sqlite://{folder}/tenure.db", None
