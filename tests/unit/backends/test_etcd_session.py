"""Renewing leases where etcd asks for a token, too: 3.4 does not, so a server made here does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import grpc
import pytest

from tenure.backends.etcd.messages import pb, stubs
from tenure.backends.etcd.rpc import Cluster, Rpc
from tenure.backends.etcd.session import keep_alive
from tenure.errors import StoreUnavailable
from tests.kit.waiting import NEVER_S


class Strict:
    """Services of etcd's: the newest token alone is valid, and renews every lease for ten seconds."""

    def __init__(self) -> None:
        self.given = 0
        """How many tokens."""
        self.valid = ""
        """Empty: none is."""
        self.takes_none = False
        self.renewed_in = self.confirmed_in = 2
        """etcd's term in the answer to a renewal, and in that of the majority."""

    def Authenticate(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        self.given += 1
        self.valid = f"token-{self.given}"
        return pb.AuthenticateResponse(token=self.valid)

    def Range(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        return pb.RangeResponse(header=pb.ResponseHeader(raft_term=self.confirmed_in))

    def LeaseKeepAlive(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802 - etcd's name
        for request in requests:
            if dict(context.invocation_metadata()).get("token") != self.valid or self.takes_none:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
            header = pb.ResponseHeader(raft_term=self.renewed_in)
            yield pb.LeaseKeepAliveResponse(header=header, ID=request.ID, TTL=10)


@pytest.fixture
def strict() -> Iterator[tuple[Strict, Rpc]]:
    services = Strict()
    server = grpc.server(ThreadPoolExecutor(4))
    for add in (stubs.add_KVServicer_to_server, stubs.add_AuthServicer_to_server, stubs.add_LeaseServicer_to_server):
        add(_Partly(services), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with closing(Rpc(Cluster(endpoints=(f"127.0.0.1:{port}",), user="us", password="word"))) as rpc:
        yield services, rpc
    server.stop(None).wait()


class _Partly:
    """The services, and none of etcd's others."""

    def __init__(self, services: Strict) -> None:
        self._services = services

    def __getattr__(self, name: str) -> Any:
        return getattr(self._services, name, None)


def test_a_renewal_goes_on_with_a_new_token(strict: tuple[Strict, Rpc]) -> None:
    services, rpc = strict
    assert keep_alive(rpc, 7, timeout_s=10) == 10
    services.valid = ""
    assert keep_alive(rpc, 7, timeout_s=10) == 10
    assert services.given == 2


def test_a_renewal_that_no_token_helps_says_so(strict: tuple[Strict, Rpc]) -> None:
    services, rpc = strict
    services.takes_none = True
    with pytest.raises(StoreUnavailable, match="invalid auth token"):
        keep_alive(rpc, 7, timeout_s=10)


def test_a_renewal_by_a_server_that_led_does_not_count(strict: tuple[Strict, Rpc]) -> None:
    """A real server that led mostly hears of its successor before it answers."""
    services, rpc = strict
    services.confirmed_in = 3
    with pytest.raises(StoreUnavailable, match="another server of etcd leads since"):
        keep_alive(rpc, 7, timeout_s=10)


def test_a_token_that_another_thread_has_renewed_already_stays(strict: tuple[Strict, Rpc]) -> None:
    services, rpc = strict
    old = rpc.metadata(rpc.endpoint())
    rpc.forget_token(old)
    new = rpc.metadata(rpc.endpoint())
    rpc.forget_token(old)
    assert rpc.metadata(rpc.endpoint()) == new
    assert services.given == 2


# --- servers that do not answer ---------------------------------------------------------------------------------------


class Silent(Strict):
    """Takes every request, and answers while `awake` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.awake = threading.Event()

    def Range(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        self.awake.wait()
        return pb.RangeResponse()

    def LeaseKeepAlive(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802 - etcd's name
        for request in requests:
            self.awake.wait()
            yield pb.LeaseKeepAliveResponse(ID=request.ID, TTL=10)


@pytest.fixture
def three() -> Iterator[tuple[list[Silent], Rpc]]:
    """All awake."""
    services = [Silent() for _ in range(3)]
    with ExitStack() as stack:
        addresses = []
        for one in services:
            one.awake.set()
            server = grpc.server(ThreadPoolExecutor(8))
            stubs.add_KVServicer_to_server(_Partly(one), server)
            stubs.add_LeaseServicer_to_server(_Partly(one), server)
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            server.start()
            stack.callback(server.stop, None)
            stack.callback(one.awake.set)
        yield services, stack.enter_context(closing(Rpc(Cluster(endpoints=tuple(addresses)))))


@pytest.mark.parametrize("asleep", [(0,), (0, 1), (0, 2)])
def test_one_renewal_asks_the_next_server_while_others_are_silent(
    three: tuple[list[Silent], Rpc], asleep: tuple[int, ...]
) -> None:
    """Servers that are cut off in turn took a third of the ttl each, and the term with them."""
    services, rpc = three
    assert keep_alive(rpc, 7, timeout_s=10) == 10
    for number in asleep:
        services[number].awake.clear()
    assert keep_alive(rpc, 7, timeout_s=8) == 10
    assert keep_alive(rpc, 7, timeout_s=8) == 10


def test_a_late_answer_counts(three: tuple[list[Silent], Rpc]) -> None:
    """All are silent when they are asked, and the first one answers after others were asked, too."""
    services, rpc = three
    with ThreadPoolExecutor(1) as pool:
        for one in services:
            one.awake.clear()
        renewal = pool.submit(keep_alive, rpc, 7, timeout_s=NEVER_S)
        threading.Timer(1.0, services[0].awake.set).start()
        assert renewal.result() == 10


def test_a_renewal_that_nobody_answers_ends(three: tuple[list[Silent], Rpc]) -> None:
    services, rpc = three
    for one in services:
        one.awake.clear()
    with pytest.raises(StoreUnavailable, match="lease 7 was not renewed: no answer in time"):
        keep_alive(rpc, 7, timeout_s=0.4)
    for one in services:
        one.awake.set()
    assert keep_alive(rpc, 7, timeout_s=10) == 10
