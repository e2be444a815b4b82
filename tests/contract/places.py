"""A place of one's own on real servers: stores that reach it directly, and stores that reach it through a proxy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tenure.backends.etcd import EtcdStore
from tenure.backends.postgres import PostgresStore
from tenure.backends.zookeeper import ZooKeeperStore
from tenure.coordination.store import CoordinationStore
from tests.kit.servers import EtcdCluster, KubernetesServer, PostgresServer, ZooKeeperEnsemble
from tests.support.proxy import TcpProxy
from tests.support.store_fixtures import EtcdRig, KubernetesRig, PostgresRig, ZooKeeperRig

_MULTI = 14
"""ZooKeeper's number of a multi, in the third word of a request."""

_OF_NOTHING = 17
"""How long a multi without operations is, by the first word: it comes before reads."""
_FRAME = 9
"""The bytes of HTTP/2's head of a frame."""


NEEDLE_IN_HEX = b"needle".hex().encode()


class Place:
    """What is the same on both stores: clients, the proxy, and what a request with a commit looks like."""

    ttl = ZooKeeperRig.ttl

    def __init__(self, port: int) -> None:
        self._stack = ExitStack()
        self.proxy = self._stack.enter_context(TcpProxy(("127.0.0.1", port)))

    def direct(self) -> CoordinationStore:
        """A client that reaches all servers."""
        raise NotImplementedError

    def through(self) -> CoordinationStore:
        """A client whose every line goes through the proxy, to one server."""
        raise NotImplementedError

    def is_commit(self, request: bytes) -> bool:
        """Whether these bytes on a line carry a commit."""
        raise NotImplementedError

    def is_reply(self, data: bytes) -> bool:
        """Whether these bytes of a server's carry an answer; it says other things by itself."""
        raise NotImplementedError

    def keep(self, store: Any) -> CoordinationStore:
        """Close it at the end."""
        self._stack.callback(store.close)
        kept: CoordinationStore = store
        return kept

    def close(self) -> None:
        self._stack.close()


class ZooKeeperPlace(Place):
    def __init__(self, servers: ZooKeeperEnsemble) -> None:
        super().__init__(servers.ports[0])
        self.ensemble = ZooKeeperRig(servers).ensemble

    def direct(self) -> CoordinationStore:
        return self.keep(ZooKeeperStore(self.ensemble))

    def through(self) -> CoordinationStore:
        return self.keep(ZooKeeperStore(replace(self.ensemble, hosts=f"127.0.0.1:{self.proxy.port}")))

    def is_commit(self, request: bytes) -> bool:
        size, _, kind = (int.from_bytes(request[at : at + 4], "big") for at in (0, 4, 8))
        return kind == _MULTI and size > _OF_NOTHING

    def is_reply(self, data: bytes) -> bool:
        """Watches and pings have a negative number."""
        return int.from_bytes(data[4:8], "big", signed=True) > 0


class KubernetesPlace(Place):
    def __init__(self, server: KubernetesServer) -> None:
        super().__init__(server.port)
        self._rig = KubernetesRig(server)

    def direct(self) -> CoordinationStore:
        return self._rig.store()

    def through(self) -> CoordinationStore:
        return self._rig.by(f"https://127.0.0.1:{self.proxy.port}")

    def close(self) -> None:
        self._rig.close()
        super().close()


class EtcdPlace(Place):
    def __init__(self, servers: EtcdCluster) -> None:
        super().__init__(servers.ports[0])
        self.cluster = EtcdRig(servers).cluster

    def direct(self) -> CoordinationStore:
        return self.keep(EtcdStore(self.cluster))

    def through(self) -> CoordinationStore:
        return self.keep(EtcdStore(replace(self.cluster, endpoints=(f"127.0.0.1:{self.proxy.port}",))))

    def is_commit(self, request: bytes) -> bool:
        return b"needle" in request

    def is_reply(self, data: bytes) -> bool:
        """HTTP/2 also has frames about the line itself; data is of kind 0, after the frame's length in three bytes."""
        while len(data) >= _FRAME:
            if data[3] == 0:
                return True
            data = data[_FRAME + int.from_bytes(data[:3], "big") :]
        return False


class PostgresPlaceOfTests(Place):
    """Its answers need not be told from what the server says by itself: a line that listens sends no commit."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server.port)
        self.place = PostgresRig(server).place

    def direct(self) -> CoordinationStore:
        return self.keep(PostgresStore(self.place))

    def through(self) -> CoordinationStore:
        (server,) = self.place.servers
        gated = replace(self.place, servers=({**server, "port": str(self.proxy.port)},))
        return self.keep(PostgresStore(gated))

    def is_commit(self, request: bytes) -> bool:
        return request[:1] == b"Q" and NEEDLE_IN_HEX in request

    def is_reply(self, data: bytes) -> bool:
        return True


def clients_of_one_server(servers: ZooKeeperEnsemble | EtcdCluster) -> Callable[[int], CoordinationStore]:
    """Makes clients of one new place, each of which knows one port."""
    if isinstance(servers, EtcdCluster):
        cluster = EtcdRig(servers).cluster
        return lambda port: EtcdStore(replace(cluster, endpoints=(f"127.0.0.1:{port}",)))
    ensemble = ZooKeeperRig(servers).ensemble
    return lambda port: ZooKeeperStore(replace(ensemble, hosts=f"127.0.0.1:{port}"))
