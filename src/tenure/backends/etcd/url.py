"""The cluster that a store URL names."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import grpc

from tenure.backends.etcd.rpc import Cluster
from tenure.backends.shared.server_url import StoreUrl
from tenure.errors import UsageError


def cluster_of(url: StoreUrl, *, tls: bool) -> Cluster:
    """With `tls`: `ca` is trusted (default: the system's); `cert` and `key` are the client's. Raises UsageError."""
    return Cluster(
        endpoints=url.hosts,
        prefix=url.path,
        user=url.user,
        password=url.password,
        credentials=_credentials(url) if tls else None,
        connect_timeout=url.duration("connect_timeout", timedelta(seconds=5)),
        request_timeout=url.duration("request_timeout", timedelta(seconds=5)),
        compact=_compact(url),
    )


def _compact(url: StoreUrl) -> timedelta | None:
    if "compact" not in url.options:
        return None
    keep = url.duration("compact", timedelta(0))
    if keep < timedelta(seconds=1):
        raise UsageError("option compact of the store URL is less than a second", fix="write compact=1h")
    return keep


def _credentials(url: StoreUrl) -> grpc.ChannelCredentials:
    ca, cert, key = (url.file(option) for option in ("ca", "cert", "key"))
    if (cert is None) != (key is None):
        raise UsageError("a store URL has one of cert and key, and needs both", fix="give both, or neither")
    content = [None if path is None else Path(path).read_bytes() for path in (ca, key, cert)]
    return grpc.ssl_channel_credentials(*content)
