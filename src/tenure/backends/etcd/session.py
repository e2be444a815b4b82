"""Sessions of the etcd store: a lease each, kept alive over one stream for all sessions of a client.

Promise: a session lives for its ttl after its last renewal reached etcd; nothing else renews it. A stream that breaks,
or whose server does not answer, is opened again on another endpoint by the next renewal; one whose token was refused,
with a new token. A lease that ended never comes back: etcd does not give its number again, and we never ask for one.

A keep-alive is answered by the server that leads, or led: it does not ask the others. So it counts when a majority
agrees afterwards that the cluster is in the term in which the answer was given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from datetime import timedelta
from typing import Any

import grpc

from tenure.backends.etcd.errors import LEASE_GONE, REFUSED, code_of, is_token_over, unavailable, unknown, words_of
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Endpoint, Requests, Rpc
from tenure.coordination.records import SessionId
from tenure.errors import SessionEnded, StoreUnavailable

_SHARE = 3
"""A renewal that takes longer than this part of the ttl is tried over another endpoint: half of it to keep the lease
alive, half of it to ask a majority."""


def session_name(lease: int) -> SessionId:
    """etcd's number of a lease as etcdctl prints it."""
    return SessionId(f"{lease:x}")


class KeepAlive:
    """The stream over which leases are renewed. Thread-safe."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._lock = threading.Lock()  # guards the two below
        self._stream: _Stream | None = None  # None: not open
        self._closed = False

    def renew(self, lease: int, *, timeout_s: float) -> int:
        """The seconds that the lease lives from now on; 0: it has ended. Raises StoreUnavailable."""
        stream = self._open()
        try:
            answer = stream.ask(lease).result(timeout=timeout_s / 2)
            term = self._rpc.term(stream.endpoint, timeout_s=timeout_s / 2)
        except (NoAnswer, grpc.RpcError) as error:
            self._leave(stream)
            words = words_of(error) if isinstance(error, grpc.RpcError) else "no answer in time"
            raise StoreUnavailable(f"lease {lease:x} was not renewed: {words}") from error
        if answer.header.raft_term != term:
            raise StoreUnavailable(f"lease {lease:x} was not renewed: another server of etcd leads since")
        return int(answer.TTL)

    def close(self) -> None:
        """End the stream."""
        with self._lock:
            self._closed = True
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _open(self) -> _Stream:
        with self._lock:
            if self._stream is None or self._stream.over:
                if self._closed:
                    raise StoreUnavailable("the store is closed")
                endpoint = self._rpc.endpoint()
                self._stream = _Stream(endpoint, self._rpc)
            return self._stream

    def _leave(self, stream: _Stream) -> None:
        with self._lock:
            if self._stream is stream:
                self._stream = None
        self._rpc.leave(stream.endpoint)
        stream.close()


class _Stream:
    """One stream to one endpoint, with a thread that reads its answers."""

    def __init__(self, endpoint: Endpoint, rpc: Rpc) -> None:
        self.endpoint = endpoint
        self._requests = Requests()
        self._lock = threading.Lock()  # guards the two below
        self._waiting: dict[int, list[Future[Any]]] = {}
        self.over = False
        self._rpc = rpc
        self._metadata = rpc.metadata(endpoint)
        self._call = endpoint.lease.LeaseKeepAlive(iter(self._requests), metadata=self._metadata)
        threading.Thread(target=self._read, name="tenure-etcd-leases", daemon=True).start()

    def ask(self, lease: int) -> Future[Any]:
        """Renew it; etcd's answer has the seconds that it lives."""
        answer: Future[Any] = Future()
        with self._lock:
            if not self.over:
                self._waiting.setdefault(lease, []).append(answer)
                self._requests.put(pb.LeaseKeepAliveRequest(ID=lease))
                return answer
        answer.set_exception(NoAnswer())
        return answer

    def close(self) -> None:
        """End it; who waits is told."""
        self._requests.close()
        self._call.cancel()

    def _read(self) -> None:
        failed: Exception = NoAnswer()
        try:
            for response in self._call:
                with self._lock:
                    answers = self._waiting.get(response.ID, [])
                    answer = answers.pop(0) if answers else None
                if answer is not None:
                    answer.set_result(response)
        except grpc.RpcError as error:
            failed = error
            if is_token_over(error):
                self._rpc.forget_token(self._metadata)
        with self._lock:
            self.over = True
            left = [answer for answers in self._waiting.values() for answer in answers]
            self._waiting.clear()
        self._requests.close()
        for answer in left:
            answer.set_exception(failed)


class EtcdSession:
    """A session of an `EtcdStore`."""

    def __init__(self, rpc: Rpc, keep_alive: KeepAlive, lease: int, ttl: timedelta) -> None:
        self._rpc = rpc
        self._keep_alive = keep_alive
        self._lease = lease
        self._ttl = ttl
        self._ended = False

    @property
    def id(self) -> SessionId:
        return session_name(self._lease)

    @property
    def ttl(self) -> timedelta:
        return self._ttl

    def renew(self) -> None:
        if self._ended:
            raise SessionEnded(self.id)
        if self._keep_alive.renew(self._lease, timeout_s=self._ttl.total_seconds() / _SHARE) <= 0:
            self._ended = True
            raise SessionEnded(self.id)

    def close(self) -> None:
        if self._ended:
            return
        endpoint = self._rpc.endpoint()
        try:
            self._rpc.send(endpoint, _revoke(self._lease))
        except grpc.RpcError as error:
            if LEASE_GONE not in words_of(error):
                if code_of(error) in REFUSED:
                    raise unavailable(error, "close a session") from error
                raise unknown(error, "close a session") from error
        self._ended = True


def _revoke(lease: int) -> Callable[[Endpoint, float, Any], Any]:
    return lambda endpoint, timeout_s, metadata: endpoint.lease.LeaseRevoke(
        pb.LeaseRevokeRequest(ID=lease), timeout=timeout_s, metadata=metadata
    )
