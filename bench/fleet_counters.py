"""The work of a store's servers by their own figures: requests, quorum writes, watches, connections, processor time.

Promise: `totals` only grow, so the work of a time is the difference of two; `now` is of one moment. A store that has no
such figure leaves it out. The reading itself costs the servers some processor time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import psutil

from tests.kit.servers import (
    BUCKET,
    EtcdCluster,
    KubernetesServer,
    PostgresServer,
    SeaweedFs,
    Server,
    ZooKeeperEnsemble,
)

Figures = Mapping[str, float]
"""Name -> figure."""

REQUESTS: Final = "requests"
QUORUM_WRITES: Final = "quorum writes"
IN_USE: Final = "database in use (bytes)"
SERVERS_CPU: Final = "processor of the servers (s)"

_OF_TENURE: Final = ("configmaps", "leases")
"""The resources of Kubernetes that the store uses."""


def totals(servers: Server | None) -> Figures:
    """What the servers have done since their start."""
    if servers is None:
        return {}
    found = _totals_of(servers)
    return {**found, SERVERS_CPU: processor_of(lambda: _pids(servers)) + _processor_of_ended(servers)}


def now(servers: Server | None) -> Figures:
    """What the servers hold."""
    if servers is None:
        return {}
    return {**_held_by(servers), "connections": sum(_connections(pid, _ports(servers)) for pid in _pids(servers))}


def between(before: Figures, after: Figures) -> Figures:
    """What was done between two totals."""
    return {name: after[name] - before[name] for name in after if name in before}


def sample(text: str, name: str, **labels: str) -> float:
    """The sum of a metric in a page of Prometheus, over all its labels but those that are given; a value with a `|`
    permits several."""
    found = 0.0
    for labelled, value in re.findall(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, flags=re.MULTILINE):
        if all(re.search(rf'(?:^|,){label}="(?:{wanted})"', labelled) for label, wanted in labels.items()):
            found += float(value)
    return found


def _totals_of(servers: Server) -> dict[str, float]:
    match servers:
        case ZooKeeperEnsemble():
            packets = sum(_mntr(servers, number, "zk_packets_received") for number in range(len(servers.nodes)))
            zxid = re.search(r"^Zxid: 0x([0-9a-f]+)$", servers.ask(servers.leader(), "srvr"), re.MULTILINE)
            return {REQUESTS: packets} | ({} if zxid is None else {QUORUM_WRITES: float(int(zxid[1], 16))})
        case EtcdCluster():
            return _totals_of_etcd(servers)
        case KubernetesServer():
            page, mine = servers.metrics(), "|".join(_OF_TENURE)
            verbs = {
                f"requests, {verb}": sample(page, "apiserver_request_total", resource=mine, verb=verb)
                for verb in ("GET", "LIST", "WATCH", "POST", "PUT", "DELETE", "PATCH")
            }
            # The label is `kind` or `resource`, by the release of Kubernetes.
            events = sum(
                sample(page, "apiserver_watch_events_total", **label)
                for label in ({"kind": "ConfigMap|Lease"}, {"resource": mine})
            )
            writes = _totals_of_etcd(servers.etcd)[QUORUM_WRITES]
            return {REQUESTS: sum(verbs.values()), QUORUM_WRITES: writes, "events of watches": events, **verbs}
        case SeaweedFs():
            page = servers.metrics()
            kinds = {
                f"requests, {kind}": sample(page, "SeaweedFS_s3_request_total", bucket=BUCKET, type=kind)
                for kind in ("GET", "HEAD", "LIST", "PUT", "DELETE")
            }
            unchanged = sample(page, "SeaweedFS_s3_request_total", bucket=BUCKET, code="304")
            return {REQUESTS: sum(kinds.values()), **kinds, "answers without news (304)": unchanged}
        case PostgresServer():
            return {REQUESTS: _transactions(servers)}


def _transactions(server: PostgresServer) -> float:
    """All that PostgreSQL has committed; a request of the store is one, and the announcement of a commit another."""
    with server.connect() as connection:
        (found,) = connection.execute("select sum(xact_commit) from pg_stat_database").fetchone()
    return float(found)


def _totals_of_etcd(servers: EtcdCluster) -> dict[str, float]:
    pages = [servers.metrics(number) for number in range(len(servers.nodes))]
    methods = {
        f"requests, {method}": sum(sample(page, "grpc_server_msg_received_total", grpc_method=method) for page in pages)
        for method in ("Range", "Txn", "Watch", "LeaseKeepAlive", "LeaseGrant", "LeaseRevoke", "LeaseTimeToLive")
    }
    committed = max(sample(page, "etcd_server_proposals_committed_total") for page in pages)
    return {REQUESTS: sum(methods.values()), QUORUM_WRITES: committed, **methods}


def _held_by(servers: Server) -> dict[str, float]:
    match servers:
        case ZooKeeperEnsemble():
            return {"watches": sum(_mntr(servers, number, "zk_watch_count") for number in range(len(servers.nodes)))}
        case EtcdCluster():
            pages = [servers.metrics(number) for number in range(len(servers.nodes))]
            return {
                "watches": sum(sample(page, "etcd_debugging_mvcc_watcher_total") for page in pages),
                IN_USE: sample(pages[0], "etcd_mvcc_db_total_size_in_use_in_bytes"),
            }
        case KubernetesServer():
            mine = "|".join(_OF_TENURE)
            watches = sample(servers.metrics(), "apiserver_longrunning_requests", resource=mine, verb="WATCH")
            return {"watches": watches}
        case PostgresServer() | SeaweedFs():
            return {}


def _mntr(servers: ZooKeeperEnsemble, number: int, name: str) -> float:
    found = re.search(rf"^{name}\t(\S+)$", servers.ask(number, "mntr"), re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def _pids(servers: Server) -> list[int]:
    behind = servers.etcd.nodes if isinstance(servers, KubernetesServer) else ()
    children = servers.nodes[0].children() if isinstance(servers, PostgresServer) else ()
    return [*children, *(node.pid for node in (*servers.nodes, *behind))]


def _ports(servers: Server) -> tuple[int, ...]:
    if isinstance(servers, KubernetesServer | PostgresServer | SeaweedFs):
        return (servers.port,)
    return servers.ports


def _processor_of_ended(servers: Server) -> float:
    """The processor time of processes that have ended: PostgreSQL has one for each connection."""
    if not isinstance(servers, PostgresServer):
        return 0.0
    spent = psutil.Process(servers.nodes[0].pid).cpu_times()
    return float(spent.children_user + spent.children_system)


def _connections(pid: int, ports: tuple[int, ...]) -> int:
    try:
        lines = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.NoSuchProcess:  # of a connection that has ended
        return 0
    return sum(line.status == psutil.CONN_ESTABLISHED and line.laddr.port in ports for line in lines)


def _processor_s(pid: int) -> float:
    spent = psutil.Process(pid).cpu_times()
    return float(spent.user + spent.system)


def processor_of(pids: Callable[[], list[int]]) -> float:
    """The processor time of the processes that live, in seconds."""
    found = 0.0
    for pid in pids():
        try:
            found += _processor_s(pid)
        except psutil.NoSuchProcess:
            continue
    return found
