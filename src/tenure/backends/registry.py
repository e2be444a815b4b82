"""From a URL to a store: the only module that knows the schemes; and the stores that this process has open.

Promise: a backend and its client library are imported when their scheme is opened; a missing library is an error that
names the pip extra. Opening does no I/O, except the check whether an `existing` store exists.

While a store is open in `SHARED`, another user of the same URL (user, password and options included) and of the same
clock gets the same client, so the scopes of a process share its connections and threads. The last user closes the
client. A forked child opens its own, and closes nothing of its parent's. Not promised: one client for two spellings of
a URL.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote

from tenure.backends.shared.server_url import StoreUrl
from tenure.clock import Clock, SystemClock
from tenure.coordination.store import CoordinationStore
from tenure.coordination.store_url import split_url
from tenure.errors import StoreNotMade, StoreUnavailable, UsageError
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
        raise StoreNotMade(
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


def _open_s3(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.buckets import BucketStore
    from tenure.backends.s3 import place_of

    return BucketStore(place_of(StoreUrl(url, port=None, options=_COMMON)), clock=clock)


def _open_gcs(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.buckets import BucketStore
    from tenure.backends.gcs import place_of

    return BucketStore(place_of(StoreUrl(url, port=None, options=_COMMON)), clock=clock)


def _open_azure(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.azure import place_of
    from tenure.backends.buckets import BucketStore

    return BucketStore(place_of(url, options=_COMMON), clock=clock)


def _open_postgresql(url: SplitResult, clock: Clock, existing: bool) -> CoordinationStore:
    from tenure.backends.postgres import PostgresStore, place_of

    return PostgresStore(place_of(url), existing=existing, clock=clock)


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
    "s3": Backend(form="s3://bucket/prefix", open=_open_s3, extra="s3", package="botocore"),
    "gs": Backend(form="gs://bucket/prefix", open=_open_gcs, extra="gcs", package="google"),
    "abfss": Backend(
        form="abfss://container@account.dfs.core.windows.net/prefix", open=_open_azure, extra="azure", package="azure"
    ),
    "postgresql": Backend(
        form="postgresql://user@host,host/database", open=_open_postgresql, extra="postgres", package="psycopg"
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


@dataclass(slots=True)
class _Open:
    """An open store. `users`: how many blocks use it."""

    store: CoordinationStore
    pid: int
    users: int = 0


_Key = tuple[str, Clock | None]


class SharedStores:
    """Opens each store once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _open
        self._open: dict[_Key, _Open] = {}

    @contextmanager
    def use(self, url: str, *, clock: Clock) -> Iterator[CoordinationStore]:
        """The store that `url` names, for as long as the block lasts. Raises UsageError."""
        key = (url, None if type(clock) is SystemClock else clock)  # all system clocks are one clock
        with self._lock:
            used = self._open.get(key)
            if used is None:
                used = self._open[key] = _Open(open_store(url, clock=clock), os.getpid())  # no I/O
            used.users += 1
        try:
            yield used.store
        finally:
            self._leave(key, used)

    def forget(self) -> None:
        """In a forked child: the lock and the stores are the parent's."""
        self._lock, self._open = threading.Lock(), {}

    def _leave(self, key: _Key, used: _Open) -> None:
        if used.pid != os.getpid():
            return
        with self._lock:
            used.users -= 1
            if used.users:
                return
            del self._open[key]
        used.store.close()  # without the lock: a store that is away must not hold up the others


SHARED = SharedStores()
os.register_at_fork(after_in_child=SHARED.forget)
