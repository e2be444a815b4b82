"""From a URL to a store: the only module that knows the schemes.

Promise: a backend and its client library are imported when their scheme is opened; a missing library is an error that
names the pip extra. Opening does no I/O, except the check whether an `existing` store exists.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote

from tenure.backends.shared.server_url import StoreUrl
from tenure.clock import Clock
from tenure.coordination.store import CoordinationStore
from tenure.coordination.store_url import split_url
from tenure.errors import StoreUnavailable, UsageError
from tenure.wording import how_to_install, masked_url


@dataclass(frozen=True, slots=True)
class Backend:
    """How a scheme is opened. `package`: the import that the pip extra `extra` installs."""

    form: str
    open: Callable[[SplitResult, Clock, bool], CoordinationStore]
    extra: str | None = None
    package: str | None = None


def _open_sqlite(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.sqlite import SqliteStore

    if url.netloc or not url.path.strip("/") or url.path.endswith("/"):
        raise UsageError(
            f"store URL {masked_url(url.geturl())!r} does not name a file by its absolute path",
            fix="write three slashes: sqlite:///var/lib/tenure/store.db",
        )
    for mark, code, found in (("?", "%3F", url.query), ("#", "%23", url.fragment)):
        if found:
            raise UsageError(
                f"store URL {url.geturl()!r} ends its path at {mark!r}, and SQLite's URLs have no options",
                fix=f"write {code} where the file's name has {mark!r}, else leave {mark + found!r} out",
            )
    path = "/" + unquote(url.path).lstrip("/")
    if existing:
        _check_exists(path)
    return SqliteStore(path, clock=clock)


def _check_exists(path: str) -> None:
    """Raises StoreUnavailable: there is no file. A volume that is not mounted is an empty directory, or none."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreUnavailable(
            f"store {path} does not exist, nor does its directory {folder}",
            fix="check the path, and that its volume is mounted",
        )
    if not os.path.exists(path):
        raise StoreUnavailable(
            f"store {path} does not exist, but its directory does",
            fix="check the path, and that its volume is mounted; the first member of a new store makes the file",
        )


def _open_zookeeper(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.zookeeper import ZooKeeperStore, ensemble_of

    return ZooKeeperStore(ensemble_of(StoreUrl(url, port=2181, options=_COMMON | _ZOOKEEPER)), clock=clock)


def _open_etcd(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.etcd import EtcdStore, cluster_of

    options = _COMMON | {"compact"} | (_TLS if url.scheme == "etcds" else set())
    return EtcdStore(cluster_of(StoreUrl(url, port=2379, options=options), tls=url.scheme == "etcds"), clock=clock)


def _open_kubernetes(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.kubernetes import KubernetesStore, place_of

    return KubernetesStore(place_of(StoreUrl(url, port=None, options=_KUBERNETES)), clock=clock)


_COMMON: Final = {"connect_timeout", "request_timeout"}
_TLS: Final = {"ca", "cert", "key"}
_KUBERNETES: Final = _COMMON | {"context", "kubeconfig"}
_ZOOKEEPER: Final = _TLS | {"tls", "sasl", "acl"}

BACKENDS: Final[dict[str, Backend]] = {
    "sqlite": Backend(form="sqlite:///absolute/path.db", open=_open_sqlite),
    "zookeeper": Backend(
        form="zookeeper://host:2181,host:2181/chroot", open=_open_zookeeper, extra="zookeeper", package="kazoo"
    ),
    "etcd": Backend(form="etcd://host:2379,host:2379/prefix", open=_open_etcd, extra="etcd", package="grpc"),
    "etcds": Backend(form="etcds://host:2379/prefix?ca=FILE", open=_open_etcd, extra="etcd", package="grpc"),
    "kubernetes": Backend(
        form="kubernetes://namespace/name", open=_open_kubernetes, extra="kubernetes", package="kubernetes"
    ),
}


def open_store(url: str, *, clock: Clock, existing: bool = False) -> CoordinationStore:
    """The store that `url` names. `existing`: for readers, who must not make a store by
    a typing error. Raises UsageError, StoreUnavailable (`existing`, and the store is not there)."""
    parts = split_url(url)
    backend = BACKENDS.get(parts.scheme)
    if backend is None:
        known = ", ".join(backend.form for backend in BACKENDS.values())
        raise UsageError(f"store URL {masked_url(url)!r} has no known scheme", fix=f"use one of: {known}")
    try:
        return backend.open(parts, clock, existing)
    except ModuleNotFoundError as error:
        missing = None if error.name is None else error.name.split(".")[0]
        if backend.extra is None or backend.package is None or missing != backend.package:
            raise
        raise UsageError(
            f"store URL {masked_url(url)!r} needs the Python package {backend.package!r}, which is not installed",
            fix=how_to_install(backend.extra),
        ) from error
