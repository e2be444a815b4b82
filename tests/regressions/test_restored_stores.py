"""A store that was restored from a backup while its clients run.

What went wrong: revisions are lower in a restored store, and a picture does not go back. A watch from a revision that
is yet to come is silent, and each comparison found the answer too old to tell anything. So members saw a leader that
had died, for ever, and nobody led. ZooKeeper let in no client that had seen later changes, for as long as it tried.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tenure.backends.etcd import Cluster, EtcdStore
from tenure.backends.shared import following
from tenure.backends.zookeeper import ZooKeeperStore
from tenure.backends.zookeeper.connection import Ensemble
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import StoreUnavailable
from tests.kit.servers import EtcdCluster, ZooKeeperEnsemble
from tests.kit.waiting import NEVER, wait_until

SCOPE, LEADER = Scope("rows"), Key("leader")


class Servers:
    """One server, whose data is copied and put back while it is down."""

    def __init__(self, kind: str, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self._copy = folder / "server", stack, folder / "copy"
        made: type[EtcdCluster] | type[ZooKeeperEnsemble] = EtcdCluster if kind == "etcd" else ZooKeeperEnsemble
        servers = made(self._folder, nodes=1)
        stack.enter_context(servers)
        self._servers = servers

    def client(self) -> CoordinationStore:
        if isinstance(self._servers, EtcdCluster):
            made: CoordinationStore = EtcdStore(Cluster(endpoints=self._servers.endpoints))
        else:
            made = ZooKeeperStore(Ensemble(hosts=self._servers.hosts))
        return self._stack.enter_context(closing(made))

    def back_up(self) -> None:
        self._servers.close()
        shutil.copytree(self._folder, self._copy)
        self._servers.start()

    def restore(self) -> None:
        self._servers.close()
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)
        self._servers.start()


@pytest.mark.parametrize("kind", ["etcd", "zookeeper"])
def test_members_that_run_see_a_store_that_was_restored(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 1.0)
    with ExitStack() as stack:
        servers = Servers(kind, tmp_path, stack)
        member, other = servers.client(), servers.client()
        other.commit(SCOPE, guards=(), writes=(Put(Key("kept"), b"1", None),))
        servers.back_up()
        put(other, LEADER)
        for number in range(20):
            put(other, Key(f"later{number}"))
        assert seen_by(member) == {"kept", "leader", *(f"later{number}" for number in range(20))}
        servers.restore()
        wait_until(lambda: seen_by(member) == {"kept"}, what="the picture of the backup")
        with closing(member.watch(SCOPE, after=member.list(SCOPE).revision)) as changes:
            put(servers.client(), Key("next"))
            assert changes.wait(timeout=NEVER) is not None
        assert seen_by(member) == {"kept", "next"}


def put(store: CoordinationStore, key: Key) -> None:
    """Put a record, once the store answers."""

    def done() -> bool:
        try:
            store.commit(SCOPE, guards=(), writes=(Put(key, b"1", None),))
        except StoreUnavailable:
            return False
        return True

    wait_until(done, what="a commit")


def seen_by(store: CoordinationStore) -> set[str]:
    """The keys as the client follows them, once it does."""
    try:
        return {str(record.key) for record in store.glance(SCOPE).records}
    except StoreUnavailable:
        return set()
