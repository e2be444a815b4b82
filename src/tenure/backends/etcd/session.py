"""Sessions of the etcd store: a lease each, which requests keep alive.

Promise: a session lives for its ttl after its last renewal reached etcd; nothing else renews it. A server that does not
answer costs a part of one renewal: the next endpoint is asked meanwhile, and the first answer counts. An ended lease
never comes back: etcd never gives its number again.

The leader of etcd answers a keep-alive without asking the other servers, and may have been replaced. So the answer
counts only when a majority confirms afterwards that the cluster is still in the term of the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Final

import grpc

from tenure.backends.etcd.errors import LEASE_GONE, code_of, outcome, words_of
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

_LATE: Final = "no answer in time"

Term = Callable[..., int]
"""Asks an endpoint for etcd's term, as `Rpc.term`."""


def session_name(lease: int) -> SessionId:
    """etcd's number of a lease as etcdctl prints it."""
    return SessionId(f"{lease:x}")


def keep_alive(rpc: Rpc, lease: int, *, timeout_s: float, term: Term | None = None) -> int:
    """Renew a lease: the seconds that it lives from now on; 0: it has ended. `term`: asks for etcd's term; None: by
    `Rpc.term`. Raises StoreUnavailable."""
    now_s = SystemClock().monotonic_s  # the clock of gRPC's deadlines, also in tests with another clock
    end_s = now_s() + timeout_s

    def ask(endpoint: Endpoint) -> None:
        answers.put(_ask(rpc, endpoint, lease, left_s=lambda: end_s - now_s(), term=term or rpc.term))

    answers: SimpleQueue[int | StoreUnavailable] = SimpleQueue()
    failed: StoreUnavailable | None = None
    in_turn = rpc.in_turn()
    asked = waiting = 0
    while (left_s := end_s - now_s()) > 0 and (waiting or asked < _ASKED):
        if asked < _ASKED:
            endpoint = in_turn[asked % len(in_turn)]
            threading.Thread(target=ask, args=(endpoint,), name="tenure-etcd-ask", daemon=True).start()
            asked += 1
            waiting += 1
            left_s = min(left_s, timeout_s / _ASKED)
        try:
            answer = answers.get(timeout=left_s)
        except Empty:
            rpc.leave(endpoint)  # else the next renewal would begin with it
            continue
        if not isinstance(answer, StoreUnavailable):
            return answer
        waiting -= 1
        failed = answer
    raise failed or _not_renewed(lease, _LATE)


def _ask(
    rpc: Rpc, endpoint: Endpoint, lease: int, *, left_s: Callable[[], float], term: Term
) -> int | StoreUnavailable:
    """Renew over one endpoint, in the time that is left."""
    request = pb.LeaseKeepAliveRequest(ID=lease)
    try:
        answer = rpc.send(endpoint, lambda at: at.lease.LeaseKeepAlive, request, timeout_s=left_s())
        now = term(endpoint, timeout_s=left_s())
    except grpc.RpcError as error:
        return _not_renewed(lease, _LATE if code_of(error) is grpc.StatusCode.DEADLINE_EXCEEDED else words_of(error))
    except StoreUnavailable as error:
        return _not_renewed(lease, str(error))
    if answer.header.raft_term != now:
        return _not_renewed(lease, "another server of etcd leads since")
    return int(answer.TTL)


def _not_renewed(lease: int, words: str) -> StoreUnavailable:
    return StoreUnavailable(f"lease {lease:x} was not renewed: {words}")


class EtcdSession:
    """A session of an `EtcdStore`."""

    def __init__(
        self,
        store: CoordinationStore,
        rpc: Rpc,
        lease: int,
        ttl: timedelta,
        *,
        term: Term,
        renewed: Callable[[], None],
    ) -> None:
        """`term`: see `keep_alive`. `renewed`: called after each renewal."""
        self._store = store
        self._rpc = rpc
        self._term = term
        self._lease = lease
        self.id = session_name(lease)
        self.testament = str(self.id)
        self.ttl = ttl
        self._renewed = renewed
        self._ended = False

    def renew(self) -> None:
        if self._ended:
            raise SessionEnded(self.id)
        if keep_alive(self._rpc, self._lease, timeout_s=self.ttl.total_seconds() / _SHARE, term=self._term) <= 0:
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
