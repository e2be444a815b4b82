"""Sessions of the etcd store: a lease each, kept alive over one stream for all sessions of a client.

Promise: a session lives for its ttl after its last renewal reached etcd; nothing else renews it. A server that does not
answer costs a part of one renewal: the next endpoint is asked meanwhile, and the first answer counts. A stream whose
token was refused is opened again with a new token. An ended lease never comes back: etcd never gives its number again.

The leader of etcd answers a keep-alive without asking the other servers, and may have been replaced. So the answer
counts only when a majority confirms afterwards that the cluster is still in the term of the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import grpc

from tenure.backends.etcd.errors import LEASE_GONE, is_token_over, outcome, words_of
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Endpoint, Rpc
from tenure.backends.shared.amending import amend_by_commit
from tenure.clock import SystemClock
from tenure.coordination.records import Key, Scope, SessionId
from tenure.coordination.store import CoordinationStore
from tenure.errors import SessionEnded, StoreUnavailable

_SHARE = 3
"""A renewal takes at most this part of the ttl."""

_ASKED = 4
"""How many requests a renewal makes, to one endpoint after the other, while none answers. So servers that are cut off
in turn, and an election of etcd's between, fit into the ttl."""


def session_name(lease: int) -> SessionId:
    """etcd's number of a lease as etcdctl prints it."""
    return SessionId(f"{lease:x}")


class KeepAlive:
    """The stream over which leases are renewed. Thread-safe."""

    def __init__(self, rpc: Rpc, *, term: Callable[..., int] | None = None) -> None:
        """`term`: asks for etcd's term; None: by `Rpc.term`."""
        self._rpc = rpc
        self._term = term or rpc.term
        self._now_s = SystemClock().monotonic_s  # the clock of gRPC's deadlines, also in tests with another clock
        self._lock = threading.Lock()  # guards the two below
        self._stream: _Stream | None = None  # None: not open
        self._closed = False

    def renew(self, lease: int, *, timeout_s: float) -> int:
        """The seconds that the lease lives from now on; 0: it has ended. Raises StoreUnavailable."""
        end_s = self._now_s() + timeout_s
        answers: SimpleQueue[int | StoreUnavailable] = SimpleQueue()
        failed: StoreUnavailable | None = None
        in_turn = self._endpoints()
        asked = waiting = 0
        while (left_s := end_s - self._now_s()) > 0 and (waiting or asked < _ASKED):
            if asked < _ASKED:
                ask = partial(self._ask, in_turn[asked % len(in_turn)], lease, end_s=end_s, anew=asked >= len(in_turn))
                threading.Thread(target=lambda ask=ask: answers.put(ask()), name="tenure-etcd-ask", daemon=True).start()
                asked += 1
                waiting += 1
                left_s = min(left_s, timeout_s / _ASKED)
            try:
                answer = answers.get(timeout=left_s)
            except Empty:
                continue
            if not isinstance(answer, StoreUnavailable):
                return answer
            waiting -= 1
            failed = answer
        raise failed or _not_renewed(lease, "no answer in time")

    def close(self) -> None:
        """End the stream."""
        with self._lock:
            self._closed = True
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _endpoints(self) -> list[Endpoint]:
        """All endpoints, the endpoint of the kept stream first. Raises StoreUnavailable."""
        in_turn = self._rpc.in_turn()
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            at = None if self._stream is None or self._stream.over else self._stream.endpoint
        return sorted(in_turn, key=lambda endpoint: endpoint is not at)

    def _ask(self, endpoint: Endpoint, lease: int, *, end_s: float, anew: bool) -> int | StoreUnavailable:
        """Renew over one endpoint, until `end_s` of the clock; `anew`: over a new stream, on which nobody waits."""
        stream: _Stream | None = None
        try:
            stream = self._over(endpoint, anew=anew)
            answer = stream.ask(lease).result(timeout=end_s - self._now_s())
            term = self._term(endpoint, timeout_s=end_s - self._now_s())
        except (NoAnswer, grpc.RpcError, StoreUnavailable, ValueError) as error:  # ValueError: the channel was closed
            self._leave(endpoint, stream)
            words = words_of(error) if isinstance(error, grpc.RpcError) else str(error) or "no answer in time"
            return _not_renewed(lease, words)
        self._keep(stream)
        if answer.header.raft_term != term:
            return _not_renewed(lease, "another server of etcd leads since")
        return int(answer.TTL)

    def _over(self, endpoint: Endpoint, *, anew: bool) -> _Stream:
        with self._lock:
            if not anew and self._stream is not None and self._stream.endpoint is endpoint and not self._stream.over:
                return self._stream
        return _Stream(endpoint, self._rpc)

    def _keep(self, stream: _Stream) -> None:
        """Use the stream for the next renewals. End the stream before, unless a renewal that waits on it will do so."""
        with self._lock:
            ended = stream if self._closed else self._stream
            self._stream = None if self._closed else stream
        if ended is not None and ended is not self._stream and not ended.is_waited_on:
            ended.close()

    def _leave(self, endpoint: Endpoint, stream: _Stream | None) -> None:
        with self._lock:
            if self._stream is stream:
                self._stream = None
        self._rpc.leave(endpoint)
        if stream is not None:
            stream.close()


def _not_renewed(lease: int, words: str) -> StoreUnavailable:
    return StoreUnavailable(f"lease {lease:x} was not renewed: {words}")


class _Stream:
    """One stream to one endpoint, with a thread that reads its answers."""

    def __init__(self, endpoint: Endpoint, rpc: Rpc) -> None:
        self.endpoint = endpoint
        self._requests: SimpleQueue[Any] = SimpleQueue()  # None ends the stream
        self._lock = threading.Lock()  # guards the two below
        self._waiting: dict[int, list[Future[Any]]] = {}
        self.over = False
        self._rpc = rpc
        self._metadata = rpc.metadata(endpoint)
        self._call = endpoint.lease.LeaseKeepAlive(iter(self._requests.get, None), metadata=self._metadata)
        threading.Thread(target=self._read, name="tenure-etcd-leases", daemon=True).start()

    def ask(self, lease: int) -> Future[Any]:
        """Renew a lease; etcd's answer has the seconds that it lives."""
        answer: Future[Any] = Future()
        with self._lock:
            if not self.over:
                self._waiting.setdefault(lease, []).append(answer)
                self._requests.put(pb.LeaseKeepAliveRequest(ID=lease))
                return answer
        answer.set_exception(NoAnswer())
        return answer

    @property
    def is_waited_on(self) -> bool:
        """Whether a renewal waits for an answer."""
        with self._lock:
            return any(self._waiting.values())

    def close(self) -> None:
        """End the stream; each renewal that waits on it fails."""
        self._call.cancel()
        self._requests.put(None)

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
        self._requests.put(None)
        for answer in left:
            answer.set_exception(failed)


class EtcdSession:
    """A session of an `EtcdStore`."""

    def __init__(
        self,
        store: CoordinationStore,
        rpc: Rpc,
        keep_alive: KeepAlive,
        lease: int,
        ttl: timedelta,
        *,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        """`renewed`: called after each renewal."""
        self._store = store
        self._rpc = rpc
        self._keep_alive = keep_alive
        self._lease = lease
        self.id = session_name(lease)
        self.testament = str(self.id)
        self.ttl = ttl
        self._renewed = renewed
        self._ended = False

    def renew(self) -> None:
        if self._ended:
            raise SessionEnded(self.id)
        if self._keep_alive.renew(self._lease, timeout_s=self.ttl.total_seconds() / _SHARE) <= 0:
            self._ended = True
            raise SessionEnded(self.id)
        self._renewed()

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        amend_by_commit(self._store, scope, key, value, session=self.id)

    def close(self) -> None:
        if self._ended:
            return
        revoke(self._rpc, self._lease)
        self._ended = True


def revoke(rpc: Rpc, lease: int) -> None:
    """End a lease, and its records with it. A lease that has ended is fine. Raises StoreUnavailable, OutcomeUnknown."""
    endpoint = rpc.endpoint()
    try:
        rpc.send(endpoint, lambda at: at.lease.LeaseRevoke, pb.LeaseRevokeRequest(ID=lease))
    except grpc.RpcError as error:
        if LEASE_GONE not in words_of(error):
            raise outcome(error, "close a session") from error
