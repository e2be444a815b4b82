"""A server that does not answer, named first: the time to pass it over counted against the first ttl, so each session
ended as it began, and the error said that this process had been paused."""

from __future__ import annotations

import socket

import tenure
from tenure.coordination.encoding import new_uid
from tests.kit.servers import EtcdCluster
from tests.kit.waiting import NEVER


def test_a_short_ttl_outlives_the_search_for_a_server_that_answers(etcd: EtcdCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes lines, and says nothing
        hosts = ",".join((f"127.0.0.1:{silent.getsockname()[1]}", *etcd.endpoints))
        url = f"etcd://{hosts}/test-{new_uid()[:12]}?connect_timeout={2 * (len(etcd.endpoints) + 1)}s"
        with tenure.lead("shop", store=url, ttl="2s", timeout=NEVER) as leadership:
            leadership.check()
            assert not leadership.lost
