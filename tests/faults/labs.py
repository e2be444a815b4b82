"""The laboratory on every store: a test that takes `lab` has a case for each; a commit draws one of the servers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.draw import SERVERS, only_if_drawn
from tests.faults.lab import Lab
from tests.kit.conformance import StoreRig
from tests.support.store_fixtures import EtcdRig, KubernetesRig, PostgresRig, S3Rig, SqliteRig, ZooKeeperRig

STORES = ("memory", "sqlite", *(pytest.param(server, marks=only_if_drawn(server)) for server in SERVERS))


@pytest.fixture(params=STORES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A fresh one. Its clock is the contenders' own; servers have theirs."""
    rig: StoreRig
    if request.param == "memory":
        yield Lab(tmp_path)
        return
    if request.param == "sqlite":
        rig = SqliteRig()
        yield Lab(tmp_path, client=rig.client)
        rig.close()
        return
    if request.param == "zookeeper":
        rig = ZooKeeperRig(request.getfixturevalue("zookeeper"))
    elif request.param == "etcd":
        rig = EtcdRig(request.getfixturevalue("etcd"))
    elif request.param == "postgres":
        rig = PostgresRig(request.getfixturevalue("postgres"))
    elif request.param == "kubernetes":
        rig = KubernetesRig(request.getfixturevalue("kubernetes"))
    else:
        rig = S3Rig(request.getfixturevalue("seaweedfs"))
    yield Lab(tmp_path, client=rig.client, in_the_store=timedelta(minutes=2))
    rig.close()
