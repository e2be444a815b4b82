"""Requests to a cluster of etcd, over one endpoint at a time.

Promise: `send` sends a request once, and again only with a new token, after etcd refused the old token. After a request
without an answer the next request goes to the next endpoint. A request that cannot be sent is StoreUnavailable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import grpc
from grpc.experimental import ChannelOptions

from tenure.backends.etcd.errors import REFUSED, code_of, is_token_over, unavailable
from tenure.backends.etcd.messages import pb, stubs
from tenure.errors import StoreUnavailable

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.enable_retries", 0),  # else gRPC sends some requests again by itself
    ("grpc.use_local_subchannel_pool", 1),  # else two clients of a process share a line, and its faults
    (ChannelOptions.SingleThreadedUnaryStream, 1),  # else each channel with a watch has a thread more
)

_WHY_S: Final = 0.05
"""The deadline of the request that asks gRPC for the reason; gRPC answers at once if it knows the reason."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the cluster is, and who we are to it."""

    endpoints: tuple[str, ...]
    """`host:port` each."""
    prefix: str = ""
    """The beginning of all keys."""
    user: str | None = None
    password: str = field(default="", repr=False)
    credentials: grpc.ChannelCredentials | None = None
    """For TLS; None: without."""
    connect_timeout: timedelta = timedelta(seconds=5)
    request_timeout: timedelta = timedelta(seconds=5)
    compact: timedelta | None = None
    """Members remove the history that is older; None: they leave it to etcd."""


class Endpoint:
    """A channel to one member of the cluster, and the services on it. Thread-safe."""

    def __init__(self, cluster: Cluster, address: str) -> None:
        self.address: Final = address
        """`host:port`."""
        if cluster.credentials is None:
            self.channel = grpc.insecure_channel(address, options=_OPTIONS)
        else:
            self.channel = grpc.secure_channel(address, cluster.credentials, options=_OPTIONS)
        self.kv = stubs.KVStub(self.channel)
        self.lease = stubs.LeaseStub(self.channel)
        self.watch = stubs.WatchStub(self.channel)
        # With one request on a stream, gRPC needs no thread that waits for the next.
        self.lease.LeaseKeepAlive = self.channel.unary_unary(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            request_serializer=pb.LeaseKeepAliveRequest.SerializeToString,
            response_deserializer=pb.LeaseKeepAliveResponse.FromString,
        )
        self.watch.Watch = self.channel.unary_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )
        self.auth = stubs.AuthStub(self.channel)
        self.maintenance = stubs.MaintenanceStub(self.channel)
        self.answers = False
        """Whether the last request to it was answered."""

    def ready(self, *, timeout_s: float) -> bool:
        """Whether it answers, and the cluster has a leader; asks only if the last request was not answered."""
        if not self.answers:
            try:
                self.kv.Range(pb.RangeRequest(key=b"\0", count_only=True), timeout=timeout_s, wait_for_ready=True)
                self.answers = True
            except grpc.RpcError as error:
                self.answers = code_of(error) in REFUSED  # refused for want of a token: the endpoint answers
        return self.answers

    def why(self) -> str:
        """Why there is no line, as gRPC knows from its last attempt; empty: unknown."""
        try:
            self.kv.Range(pb.RangeRequest(key=b"\0", count_only=True), timeout=_WHY_S)
        except grpc.RpcError as error:
            if code_of(error) is grpc.StatusCode.UNAVAILABLE:
                return " ".join((error.details() or "").rpartition("last error: ")[2].split())
        return ""


Call = Callable[[Endpoint], Any]
"""From an endpoint to a method of its services."""

Metadata = tuple[tuple[str, str], ...]
"""The token of the cluster's user; empty: there is no user."""


class Rpc:
    """Requests over one endpoint at a time. Thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()  # guards the three below
        self._endpoints: list[Endpoint | None] = [None] * len(cluster.endpoints)  # None: not tried yet
        self._at = 0
        self._token: str | None = None  # None: there is none yet
        self._closed = False
        self.request_timeout_s: Final = cluster.request_timeout.total_seconds()

    def read(self, call: Call, request: Any, what: str) -> Any:
        """The answer to a read, from the first endpoint that answers. Raises StoreUnavailable."""
        failed: grpc.RpcError | None = None
        for _ in self._cluster.endpoints:
            endpoint = self.endpoint()
            try:
                return self.send(endpoint, call, request)
            except grpc.RpcError as error:
                if code_of(error) in REFUSED:
                    raise unavailable(error, what) from error
                failed = error
        assert failed is not None
        raise unavailable(failed, what) from failed

    def send(
        self,
        endpoint: Endpoint,
        call: Call,
        request: Any,
        *,
        timeout_s: float | None = None,
        with_new_token: bool = False,
    ) -> Any:
        """The answer. `timeout_s` None: that of the URL. Raises grpc.RpcError, StoreUnavailable (nothing was sent)."""
        metadata = self.metadata(endpoint)
        limit_s = self.request_timeout_s if timeout_s is None else timeout_s
        try:
            with self.while_open():
                return call(endpoint)(request, timeout=limit_s, metadata=metadata)
        except grpc.RpcError as error:
            if is_token_over(error):
                self.forget_token(metadata)
                if not with_new_token:
                    return self.send(endpoint, call, request, timeout_s=timeout_s, with_new_token=True)
            if code_of(error) not in REFUSED:
                self.leave(endpoint)
            raise

    def term(self, endpoint: Endpoint, *, timeout_s: float) -> int:
        """The term of etcd's leader, which a majority confirms now. Raises what `send` raises."""
        request = pb.RangeRequest(key=f"{self._cluster.prefix}/".encode(), count_only=True)
        return int(self.send(endpoint, lambda at: at.kv.Range, request, timeout_s=timeout_s).header.raft_term)

    def endpoint(self) -> Endpoint:
        """The endpoint in use, or the next endpoint that answers. Raises StoreUnavailable: nothing was sent."""
        count = len(self._cluster.endpoints)
        share_s = self._cluster.connect_timeout.total_seconds() / count
        why = ""
        for _ in range(count):
            endpoint = self.in_turn()[0]
            with self.while_open():
                if endpoint.ready(timeout_s=share_s):
                    return endpoint
                why = endpoint.why() or why
            self.leave(endpoint)
        raise StoreUnavailable(
            f"etcd at {','.join(self._cluster.endpoints)} cannot be reached{why and f': {why}'}",
            fix="check the hosts, ports and certificates",
        )

    def in_turn(self) -> list[Endpoint]:
        """All endpoints, the endpoint in use first, whether they answer or not. Raises StoreUnavailable: closed."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            for at, address in enumerate(self._cluster.endpoints):
                if self._endpoints[at] is None:
                    self._endpoints[at] = Endpoint(self._cluster, address)
            made = [endpoint for endpoint in self._endpoints if endpoint is not None]
            return made[self._at :] + made[: self._at]

    def leave(self, endpoint: Endpoint) -> None:
        """If this endpoint is in use, use the next endpoint from now on."""
        endpoint.answers = False
        with self._lock:
            if self._endpoints[self._at] is endpoint:
                self._at = (self._at + 1) % len(self._endpoints)

    def metadata(self, endpoint: Endpoint) -> Metadata:
        """The metadata of a request. Raises StoreUnavailable: etcd refuses the user, or does not answer."""
        if self._cluster.user is None:
            return ()
        with self._lock:
            token = self._token
        if token is None:
            request = pb.AuthenticateRequest(name=self._cluster.user, password=self._cluster.password)
            try:
                with self.while_open():
                    token = str(endpoint.auth.Authenticate(request, timeout=self.request_timeout_s).token)
            except grpc.RpcError as error:
                if code_of(error) not in REFUSED:
                    self.leave(endpoint)
                raise unavailable(error, f"let user {self._cluster.user!r} in") from error
            with self._lock:
                self._token = token
        return (("token", token),)

    def forget_token(self, metadata: Metadata) -> None:
        """Stop using the token of a request, unless another thread has got a new token already."""
        with self._lock:
            if (("token", self._token),) == metadata:
                self._token = None

    @contextmanager
    def while_open(self) -> Iterator[None]:
        """Raise StoreUnavailable, where gRPC raises ValueError: another thread has closed the channels meanwhile."""
        try:
            yield
        except ValueError as error:
            if not self._closed:
                raise
            raise StoreUnavailable("the store is closed") from error

    def close(self) -> None:
        """Break all lines."""
        with self._lock:
            self._closed = True
            endpoints, self._endpoints = self._endpoints, [None] * len(self._endpoints)
        for endpoint in endpoints:
            if endpoint is not None:
                endpoint.channel.close()


def end_of(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin with `prefix`."""
    end = bytearray(prefix)
    end[-1] += 1  # no key's last byte is 0xff: they are UTF-8
    return bytes(end)
