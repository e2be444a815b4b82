"""Store URLs of ZooKeeper that are wrong, and users who may not do what they ask for: one line, soon."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

import pytest
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl

from tenure.backends.zookeeper import Ensemble, ZooKeeperStore
from tenure.backends.zookeeper.connection import Connection
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Key, Put, Scope
from tenure.errors import AccessDenied
from tests.contract.bad_input import NOBODY, SCOPE, ask, nowhere, pause_at, refused
from tests.draw import only_if_drawn
from tests.kit.servers import EtcdCluster, ZooKeeperEnsemble, free_ports

pytestmark = only_if_drawn("zookeeper")


_ORDERS = 3
"""kazoo tries the servers in an order of its own, another one each time."""


@pytest.fixture
def chroot(zookeeper: ZooKeeperEnsemble) -> str:
    """An empty place in which anybody may do anything."""
    path = f"/bad-input-{new_uid()[:12]}"
    zookeeper.create(path)
    return path


@pytest.fixture
def owned(zookeeper: ZooKeeperEnsemble, chroot: str) -> str:
    """A place with a scope of the user `owner`, whose password is `right`."""
    ensemble = Ensemble(
        hosts=zookeeper.hosts, chroot=chroot, auth=(("digest", "owner:right"),), acl=tuple(CREATOR_ALL_ACL)
    )
    with closing(ZooKeeperStore(ensemble)) as store:
        store.commit(Scope(SCOPE), guards=[], writes=[Put(Key("something"), b"", None)])
    return chroot


def test_who_made_the_scope_may_look(zookeeper: ZooKeeperEnsemble, owned: str) -> None:
    assert ask(f"zookeeper://owner:right@{zookeeper.hosts}{owned}").code == 0


@pytest.mark.parametrize("who", ["owner:wrong@", "nobody:right@", ""])
def test_who_is_not_who_made_the_scope_may_not(zookeeper: ZooKeeperEnsemble, owned: str, who: str) -> None:
    """ZooKeeper lets in whoever says a name and a password; what is not theirs they may not read."""
    url = f"zookeeper://{who}{zookeeper.hosts}{owned}"
    assert refused(url) == (
        "ZooKeeper does not permit to list records; check the user, its password and the ACL of the chroot"
    )
    assert "ZooKeeper does not permit to " in refused(url, "pause")


def test_who_may_only_read_is_told_when_it_writes(zookeeper: ZooKeeperEnsemble, chroot: str) -> None:
    line = Connection(Ensemble(hosts=zookeeper.hosts), ttl=timedelta(seconds=10), pings=True)
    line.open()
    permitted = [make_digest_acl("reader", "right", read=True), make_digest_acl("owner", "right", all=True)]
    line.client.set_acls(chroot, permitted)
    line.close()
    url = f"zookeeper://reader:right@{zookeeper.hosts}{chroot}"
    assert ask(url).code == 0
    with pytest.raises(AccessDenied) as denied:
        pause_at(url)
    assert str(denied.value) == (
        f"ZooKeeper does not permit to make scope '{SCOPE}'; check the user, its password and the ACL of the chroot"
    )


def test_a_chroot_that_is_not_there(zookeeper: ZooKeeperEnsemble) -> None:
    assert refused(f"zookeeper://{zookeeper.hosts}/not/there") == (
        f"chroot /not/there of ZooKeeper at {zookeeper.hosts} does not exist; check the hosts and the path; "
        "for a new store: zkCli.sh create /not/there"
    )


def test_a_port_at_which_nobody_listens() -> None:
    (port,) = free_ports(1)
    assert refused(f"zookeeper://127.0.0.1:{port}/x") == (
        f"ZooKeeper at 127.0.0.1:{port} cannot be reached; check the hosts and ports"
    )


def test_a_host_that_is_not_known() -> None:
    assert refused(f"zookeeper://{NOBODY}/x") == (
        f"ZooKeeper at {NOBODY}:2181 cannot be reached; check the hosts and ports"
    )


def test_a_server_of_something_else(etcd: EtcdCluster) -> None:
    assert "cannot be reached" in refused(f"zookeeper://127.0.0.1:{etcd.ports[0]}/x")


@pytest.mark.parametrize("wrong", ["the name", "the port"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_host_of_three_may_be_wrong(zookeeper: ZooKeeperEnsemble, chroot: str, wrong: str, place: int) -> None:
    hosts = zookeeper.hosts.split(",")
    hosts[place] = f"{NOBODY}:2181" if wrong == "the name" else f"127.0.0.1:{free_ports(1)[0]}"
    assert ask(f"zookeeper://{','.join(hosts)}{chroot}").code == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_host_of_three_may_be_gone(zookeeper: ZooKeeperEnsemble, chroot: str, place: int) -> None:
    hosts = zookeeper.hosts.split(",")
    with nowhere() as hosts[place]:
        for _ in range(_ORDERS):
            assert ask(f"zookeeper://{','.join(hosts)}{chroot}").code == 0


def test_one_server_of_three_may_be_silent(zookeeper: ZooKeeperEnsemble, chroot: str) -> None:
    """It takes the connection, as the kernel of a machine does whose processes hang, and never says a word."""
    follower = (zookeeper.leader() + 1) % 3
    zookeeper.nodes[follower].pause()
    try:
        for _ in range(_ORDERS):
            assert ask(f"zookeeper://{zookeeper.hosts}{chroot}").code == 0
    finally:
        zookeeper.nodes[follower].wake()
        zookeeper.wait_for(follower)
