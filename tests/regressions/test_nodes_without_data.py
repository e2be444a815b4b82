"""A node without data below a scope's node, as `zkCli.sh create /path` makes, made every listing fail: TypeError."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create
from kazoo.security import OPEN_ACL_UNSAFE

from tenure.coordination.records import Key
from tenure.errors import StoreUnavailable
from tests.kit.conformance.fixture import SCOPE, put_new, values
from tests.kit.servers import ZooKeeperEnsemble
from tests.kit.waiting import NEVER_S
from tests.support.store_fixtures import ZooKeeperRig


@pytest.fixture
def rig(zookeeper: ZooKeeperEnsemble) -> Iterator[ZooKeeperRig]:
    made = ZooKeeperRig(zookeeper)
    yield made
    made.close()


@pytest.mark.parametrize("others", [1, 3])
def test_a_node_without_data_is_no_record(rig: ZooKeeperRig, others: int) -> None:
    store = rig.client()
    put_new(store, "a")
    line = KazooClient(hosts=rig.ensemble.hosts)
    line.start()
    try:
        for number in range(others):
            answer = line.handler.async_result()
            path = f"{rig.ensemble.chroot}/{SCOPE}/other{number}"
            line._call(Create(path, None, OPEN_ACL_UNSAFE, 0), answer)  # kazoo's own `create` has always data
            answer.get(timeout=NEVER_S)
    finally:
        line.stop()
        line.close()
    assert values(store) == {"a": b"x"}
    assert store.read(SCOPE, Key("other0")) is None
    with pytest.raises(
        StoreUnavailable, match=f"/{SCOPE}/other0 of ZooKeeper has no data, so it is no record; another"
    ):
        put_new(store, "other0")
