"""A store of each kind for a demo or a bench, by its URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tenure.testing.servers.etcd import EtcdCluster
from tenure.testing.servers.kubernetes import KubernetesServer
from tenure.testing.servers.zookeeper import ZooKeeperEnsemble

STORES: Final = ("sqlite", "zookeeper", "etcd", "kubernetes")


@contextmanager
def started(store: str, folder: Path) -> Iterator[str]:
    """The URL of one of `STORES` for the block. ZooKeeper and etcd have three servers, Kubernetes has one
    API server, whose administrator the kubeconfig names. Raises NotInstalled."""
    if store == "zookeeper":
        with ZooKeeperEnsemble(folder) as ensemble:
            ensemble.create("/tenure")
            yield f"zookeeper://{ensemble.hosts}/tenure"
    elif store == "etcd":
        with EtcdCluster(folder) as cluster:
            yield f"etcd://{','.join(cluster.endpoints)}/tenure"
    elif store == "kubernetes":
        with KubernetesServer(folder) as server:
            namespace = server.new_namespace()
            kubeconfig = server.kubeconfig(namespace=namespace)
            yield f"kubernetes://{namespace}/tenure?kubeconfig={quote(str(kubeconfig), safe='')}"
    else:
        yield f"sqlite://{folder}/tenure.db"
