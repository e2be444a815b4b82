"""A store of each kind for a demo or a bench, by its URL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tests.kit.servers.etcd import EtcdCluster
from tests.kit.servers.kubernetes import KubernetesServer
from tests.kit.servers.postgres import PostgresServer
from tests.kit.servers.seaweedfs import BUCKET, SeaweedFs, environment
from tests.kit.servers.zookeeper import ZooKeeperEnsemble

STORES: Final = ("sqlite", "zookeeper", "etcd", "kubernetes", "postgres", "s3")


Server = ZooKeeperEnsemble | EtcdCluster | KubernetesServer | PostgresServer | SeaweedFs


@contextmanager
def started(store: str, folder: Path) -> Iterator[str]:
    """The URL of one of `STORES` for the block. ZooKeeper and etcd have three servers, Kubernetes has one
    API server, whose administrator the kubeconfig names. PostgreSQL is one server, and the URL has its password. A
    server of S3 is named by the variables of AWS within the block. Raises NotInstalled."""
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
    elif store == "s3":
        with SeaweedFs(folder / "s3-store") as bucket, _environment(environment(bucket.url)):
            yield f"s3://{BUCKET}/tenure", bucket
    elif store == "postgres":
        with PostgresServer(folder) as database:
            yield database.store("tenure"), database
    else:
        yield f"sqlite://{folder}/tenure.db", None


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The variables are set within the block, also for processes that begin in it."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
