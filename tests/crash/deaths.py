"""Each kind of death of a leader in mid-stream, for scenarios whose storage or source is not on a disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from tests.crash.cluster import Cluster
from tests.kit.members import pause_between_writes


def each_kind_of_death(cluster: Cluster, start: Callable[[str], Any]) -> None:
    """Start two members with `start`, feed them, and let a leader's driver be killed, a whole leader be killed, and a
    leader be stopped until it is replaced, and woken. The cluster still runs and is fed."""
    for name in ("anna", "ben"):
        start(name)
    cluster.wait(lambda: all(member.events("MemberReady") for member in cluster.members), what="two members")
    cluster.feeder.start()
    cluster.wait_for_batches(after_epoch=0, count=3)

    leader, _ = cluster.pair()
    epoch, driver = cluster.epoch(), leader.driver()
    assert driver is not None
    os.killpg(driver, signal.SIGKILL)
    cluster.wait_for_batches(after_epoch=epoch, count=2)

    leader, _ = cluster.pair()
    epoch = cluster.epoch()
    leader.kill()
    cluster.wait_for_batches(after_epoch=epoch, count=2)
    start("carl")

    leader, _ = cluster.pair()
    epoch = cluster.epoch()
    pause_between_writes(leader, store=cluster.store_url)
    cluster.wait_for_batches(after_epoch=epoch, count=2)
    leader.wake()
    cluster.wait(lambda: leader.events("TermEnded", epoch=epoch), what="the end of the paused leader's term")
    cluster.wait_for_batches(after_epoch=epoch, count=4)
