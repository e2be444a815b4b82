"""ZooKeeper's limit of the lines from one host: the error names it. It told the operator to check hosts and ports."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tenure
from tenure.errors import StoreUnavailable
from tests.draw import only_if_drawn
from tests.kit.servers import ZooKeeperEnsemble
from tests.kit.waiting import NEVER

pytestmark = only_if_drawn("zookeeper")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """A server that takes one line from each host."""
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("zookeeper"), nodes=1, settings=("maxClientCnxns=1",)) as started:
        yield started


def test_a_line_over_the_limit_is_told_with_the_limit(full: ZooKeeperEnsemble) -> None:
    with (
        pytest.raises(StoreUnavailable) as refused,
        tenure.lead("shop", store=f"zookeeper://{full.hosts}/?connect_timeout=5s", timeout=NEVER),
    ):
        pass
    assert str(refused.value) == (
        f"ZooKeeper at {full.hosts} takes no more lines from this host: it has as many as maxClientCnxns permits; "
        "raise maxClientCnxns of the servers: a member takes two, the leader three, a command one"
    )
