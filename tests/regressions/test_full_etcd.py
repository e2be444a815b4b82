"""etcd applies the transaction that fills it, and answers that it has no space.

The client took that for a refusal: "nothing was written". So a blob was deleted under a pointer that stood (I4). The
second test shows what a leader does while etcd is full, and after that.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.backends.etcd import Cluster, EtcdStore
from tenure.clock import SystemClock
from tenure.coordination import settle
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.term import Term, commit_under
from tenure.errors import StoreUnavailable
from tenure.events import StoreAway
from tenure.link.driver import Ended
from tests.kit.servers import EtcdCluster, installed
from tests.kit.waiting import wait_until
from tests.unit.agent.scene import SCOPE, Scene, Scripted, make_scene

QUOTA = 1_000_000
WRITERS = 8


class Full:
    """One server of etcd with a tiny quota."""

    def __init__(self, servers: EtcdCluster) -> None:
        self._servers = servers
        self.cluster = Cluster(endpoints=servers.endpoints, prefix="/full")
        self.lines: set[str] = set()
        """The errors of the refused commits."""

    def fill(self) -> list[Key]:
        """Several clients commit until the first refusal; the keys of the commits that were refused and stand."""
        full = threading.Event()

        def write(number: int) -> list[Key]:
            stand = []
            with closing(EtcdStore(self.cluster)) as store:
                while not full.is_set():
                    key, value = Key(f"w{number}/{new_uid()}"), new_uid().encode() * 60
                    try:
                        store.commit(Scope("filled"), guards=[], writes=[Put(key, value, None)])
                    except StoreUnavailable as refused:
                        full.set()
                        self.lines.add(str(refused))
                        if store.read(Scope("filled"), key) is not None:
                            stand.append(key)
            return stand

        with ThreadPoolExecutor(WRITERS) as writers:
            return [key for keys in writers.map(write, range(WRITERS)) for key in keys]

    def free(self) -> None:
        """What the line tells the operator to do."""
        self._servers.compact()
        self._servers.ask(0, "maintenance/defragment", {})
        for alarm in self._servers.ask(0, "maintenance/alarm", {"action": "GET"}).get("alarms", ()):
            self._servers.ask(0, "maintenance/alarm", {**alarm, "action": "DEACTIVATE"})

    def remove(self) -> None:
        """Remove what was filled in; a full etcd takes removals."""
        start, end = (base64.b64encode(f"/full/filled{sign}".encode()).decode() for sign in "/0")
        self._servers.ask(0, "kv/deleterange", {"key": start, "range_end": end})


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Full]:
    with installed(), EtcdCluster(tmp_path, nodes=1, flags=("--quota-backend-bytes", str(QUOTA))) as servers:
        yield Full(servers)


def test_a_write_that_was_refused_by_a_full_etcd_does_not_stand(full: Full) -> None:
    assert full.fill() == []
    (line,) = full.lines
    assert line.startswith("etcd is full, and did not commit to scope 'filled'")
    with closing(EtcdStore(full.cluster)) as store, pytest.raises(StoreUnavailable) as refused:
        store.open_session(ttl=timedelta(seconds=5))
    assert "etcdctl compact REVISION, etcdctl defrag and etcdctl alarm disarm" in str(refused.value)


def test_a_leader_waits_for_a_full_etcd_and_goes_on(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused plan costs no term while sessions are renewed; a plan that is given up makes the member stand by."""
    monkeypatch.setattr(settle, "UNAVAILABLE_ATTEMPTS", 3)  # the leader gives a plan up soon
    scene = make_scene(monkeypatch)
    terms: list[Term] = []

    def plan(store: EtcdStore, term: Term) -> None:
        commit_under(store, term, writes=[Put(Key(f"plans/{new_uid()}"), b"x" * 1000, None)], clock=SystemClock())

    with closing(EtcdStore(full.cluster)) as store:

        def meets_it(term: Term) -> Ended:
            plan(store, term)
            full.fill()
            with pytest.raises(StoreUnavailable):
                plan(store, term)
            assert not term.lost, "a full etcd renews sessions"
            full.remove()
            full.free()
            plan(store, term)
            terms.append(term)
            full.fill()
            plan(store, term)
            raise AssertionError("a full etcd took a plan")

        def goes_on(term: Term) -> Ended:
            plan(store, term)
            return Ended.IDLE

        member = scene.member(Scripted(meets_it, goes_on), store=store)
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(member.run, stop=threading.Event())
            wait_until(lambda: running.done() or away(scene), what="the member's word of a store that is away")
            full.remove()
            full.free()
            assert running.result() is Ended.IDLE
    assert "etcd is full" in away(scene)[0].why
    assert [term.scope for term in terms] == [SCOPE]


def away(scene: Scene) -> list[StoreAway]:
    """What the member said of the store."""
    return [event for event in scene.told if isinstance(event, StoreAway)]
