"""Renewing leases where etcd asks for a token on that stream, too: 3.4 does not, so a server made here does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import grpc
import pytest

from tenure.backends.etcd.messages import pb, stubs
from tenure.backends.etcd.rpc import Cluster, Rpc
from tenure.backends.etcd.session import KeepAlive
from tenure.errors import StoreUnavailable


class Strict:
    """Services of etcd's: the newest token alone is valid, and renews every lease for ten seconds."""

    def __init__(self) -> None:
        self.given = 0
        """How many tokens."""
        self.valid = ""
        """Empty: none is."""

    def Authenticate(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        self.given += 1
        self.valid = f"token-{self.given}"
        return pb.AuthenticateResponse(token=self.valid)

    def Range(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        return pb.RangeResponse()

    def LeaseKeepAlive(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802 - etcd's name
        for request in requests:
            if dict(context.invocation_metadata()).get("token") != self.valid:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
            yield pb.LeaseKeepAliveResponse(ID=request.ID, TTL=10)


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
    with closing(KeepAlive(rpc)) as keep_alive:
        assert keep_alive.renew(7, timeout_s=10) == 10
        services.valid = ""
        with pytest.raises(StoreUnavailable, match="invalid auth token"):
            keep_alive.renew(7, timeout_s=10)
        assert keep_alive.renew(7, timeout_s=10) == 10
        assert services.given == 2


def test_a_token_that_another_thread_has_renewed_already_stays(strict: tuple[Strict, Rpc]) -> None:
    services, rpc = strict
    old = rpc.metadata(rpc.endpoint())
    rpc.forget_token(old)
    new = rpc.metadata(rpc.endpoint())
    rpc.forget_token(old)
    assert rpc.metadata(rpc.endpoint()) == new
    assert services.given == 2
