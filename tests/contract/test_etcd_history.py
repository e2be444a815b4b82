"""The history of a real etcd: who compacts it, how often, and who says that nobody does."""

from __future__ import annotations

import logging
import re
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from tenure.backends.etcd import Cluster, EtcdStore
from tenure.backends.etcd import fullness as fullness_module
from tenure.backends.etcd import history as history_module
from tenure.backends.etcd.errors import is_compacted
from tenure.backends.etcd.history import History
from tenure.backends.etcd.messages import pb, stubs
from tenure.backends.etcd.rpc import Rpc
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.errors import UsageError
from tests.kit.clock import ManualClock
from tests.kit.servers import EtcdCluster, installed
from tests.kit.waiting import NEVER_S, wait_until

SCOPE = Scope("written")
KEPT = timedelta(seconds=1)
TTL = timedelta(seconds=5)


class Small:
    """One server of etcd, and its own figures."""

    def __init__(self, servers: EtcdCluster) -> None:
        self.servers = servers
        self.cluster = Cluster(endpoints=servers.endpoints, prefix=f"/history-{new_uid()[:8]}")

    @property
    def revision(self) -> int:
        return int(self.servers.ask(0, "maintenance/status", {})["header"]["revision"])

    def has_compacted(self, revision: int) -> bool:
        """Whether a revision is gone."""
        with closing(Rpc(self.cluster)) as rpc:
            request = pb.RangeRequest(key=b"any", revision=revision)
            try:
                rpc.send(rpc.endpoint(), lambda at: at.kv.Range, request)
            except grpc.RpcError as error:
                if is_compacted(error):
                    return True
                raise
            return False

    def asked(self, method: str) -> int:
        """How many requests of a method it got."""
        page = f"http://{self.servers.endpoints[0]}/metrics"
        with urllib.request.urlopen(page, timeout=NEVER_S) as answer:
            text = answer.read().decode()
        found = re.findall(
            rf'^grpc_server_started_total\{{grpc_method="{method}",.*\}} (\S+)$', text, flags=re.MULTILINE
        )
        return sum(int(float(count)) for count in found)

    def grows_old(self) -> None:
        """What etcd does once the time that is kept has passed since the last mark: the lease of `recent` ends."""
        recent = pb.DeleteRangeRequest(key=f"{self.cluster.prefix}/~history/recent".encode())
        with closing(Rpc(self.cluster)) as rpc:
            request = pb.TxnRequest(success=[pb.RequestOp(request_delete_range=recent)])
            rpc.send(rpc.endpoint(), lambda at: at.kv.Txn, request)

    def write(self, count: int) -> None:
        with closing(EtcdStore(self.cluster)) as store:
            for _ in range(count):
                store.commit(SCOPE, guards=[], writes=[Put(Key(f"records/{new_uid()}"), b"", None)])


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with installed(), EtcdCluster(tmp_path_factory.mktemp("history"), nodes=1) as cluster:
        yield cluster


@pytest.fixture
def small(servers: EtcdCluster, monkeypatch: pytest.MonkeyPatch) -> Small:
    monkeypatch.setattr(history_module, "_ASKED", set())
    monkeypatch.setattr(history_module, "_SAID", set())
    return Small(servers)


@pytest.fixture
def histories(small: Small) -> Iterator[Callable[[], History]]:
    """Makes what a leader has for the history, and closes it."""
    with ExitStack() as stack:
        cluster = replace(small.cluster, compact=timedelta(hours=1))

        def make() -> History:
            return History(cluster, stack.enter_context(closing(Rpc(cluster))), clock=SystemClock())

        yield make


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_one_of_many_compacts_and_what_is_young_stays(small: Small, histories: Callable[[], History]) -> None:
    several = [histories() for _ in range(4)]
    several[0].look()
    first = small.revision  # of the mark
    small.write(5)
    before = small.asked("Compact")
    for history in several:
        history.look()
    assert not small.has_compacted(first - 1)
    assert small.asked("Compact") == before, "the mark is younger than what is kept"

    small.grows_old()
    with ThreadPoolExecutor(len(several)) as threads:
        list(threads.map(History.look, several))
    wait_until(lambda: small.has_compacted(first - 1), what="the end of the old revisions")
    assert small.asked("Compact") == before + 1
    assert not small.has_compacted(first), "the writes after the mark are young"


def test_a_leader_compacts_and_a_standby_does_not(small: Small) -> None:
    url = f"etcd://{small.servers.endpoints[0]}{small.cluster.prefix}?compact=1s"
    begun = small.revision
    clock, ttl = SystemClock(), timedelta(seconds=3)

    def never_asks(store: Any) -> bool:
        return not store._history._leads

    with (
        closing(open_store(url, clock=clock)) as leading,
        closing(open_store(url, clock=clock)) as waiting,
        SessionKeeper(leading, ttl=ttl, clock=clock) as leader,
        SessionKeeper(waiting, ttl=ttl, clock=clock) as standby,
    ):
        for keeper, store, name in ((leader, leading, "anna"), (standby, waiting, "ben")):
            Election(store, SCOPE, member=name, clock=clock).join(keeper, host="here", pid=1)
        assert never_asks(leading)
        election = Election(leading, SCOPE, member="anna", clock=clock)
        assert election.campaign(leader, stop=_Never()) is not None
        wait_until(lambda: small.has_compacted(begun), what="a compaction by the leader")
        assert never_asks(waiting)


class _Never:
    def is_set(self) -> bool:
        return False


def test_a_start_says_that_nobody_compacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fullness_module, "MANY", 20)
    with installed(), EtcdCluster(tmp_path, nodes=1) as servers, caplog.at_level(logging.WARNING):
        small = Small(servers)
        small.write(10)
        assert _starts(small, monkeypatch, caplog) == []
        small.write(20)
        (line,) = _starts(small, monkeypatch, caplog)
        assert re.match(r"etcd has compacted none of its \d+ revisions, and has 0 MB of the default quota", line)
        assert "--auto-compaction-retention=1h" in line
        with closing(EtcdStore(small.cluster)) as store:
            store.open_session(ttl=TTL).close()
        assert len(warnings(caplog)) == 1, "a process says it once"
        servers.compact()
        assert _starts(small, monkeypatch, caplog) == []


def _starts(small: Small, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What a new process says at its first session, but of a fault of the version."""
    monkeypatch.setattr(history_module, "_ASKED", set())
    monkeypatch.setattr(history_module, "_SAID", set())
    monkeypatch.setattr(history_module, "fault_of", lambda version: None)
    caplog.clear()
    with closing(EtcdStore(small.cluster)) as store:
        store.open_session(ttl=TTL).close()
    return warnings(caplog)


class Guarded:
    """An etcd whose mark is old, and that lets nobody compact; since 2026 only `root` may."""

    compactions = 0

    def Range(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        mark = pb.KeyValue(key=b"/p/~history/mark", mod_revision=7)
        return pb.RangeResponse(kvs=[mark] if request.range_end else [])

    def LeaseGrant(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        return pb.LeaseGrantResponse(ID=1, TTL=request.TTL)

    def Txn(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        return pb.TxnResponse(succeeded=True)

    def Status(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        return pb.StatusResponse(version="3.6.9")

    def Compact(self, request: Any, context: Any) -> Any:  # noqa: N802 - etcd's name
        self.compactions += 1
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")

    def __getattr__(self, name: str) -> Any:
        return None  # none of etcd's other services


def test_what_etcd_does_not_permit_is_said_once_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history_module, "_SAID", set())
    services, server = Guarded(), grpc.server(ThreadPoolExecutor(4))
    for add in (
        stubs.add_KVServicer_to_server,
        stubs.add_LeaseServicer_to_server,
        stubs.add_MaintenanceServicer_to_server,
    ):
        add(services, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    cluster = Cluster(endpoints=(f"127.0.0.1:{port}",), prefix="/p", compact=KEPT)
    try:
        with closing(Rpc(cluster)) as rpc, caplog.at_level(logging.WARNING):
            history = History(cluster, rpc, clock=ManualClock())
            for _ in range(3):
                history.look()
            History(cluster, rpc, clock=ManualClock()).look()
    finally:
        server.stop(None).wait()
    assert services.compactions == 2, "once by each client"
    (line,) = warnings(caplog)
    assert line.startswith("etcd does not permit to compact its history: etcdserver: permission denied")
    assert "leave compact out of the store URL" in line


@pytest.mark.parametrize(
    ("text", "kept"), [("", None), ("?compact=1h", timedelta(hours=1)), ("?compact=90s", timedelta(seconds=90))]
)
def test_the_time_that_is_kept_stands_in_the_url(text: str, kept: timedelta | None) -> None:
    with closing(open_store(f"etcd://h1/x{text}", clock=ManualClock())) as store:
        assert isinstance(store, EtcdStore)
        assert store._cluster.compact == kept


@pytest.mark.parametrize("text", ["compact=", "compact=0s", "compact=1", "compact=on", "compact=500ms"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="compact"):
        open_store(f"etcd://h1/x?{text}", clock=ManualClock())
