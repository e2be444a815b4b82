"""PostgreSQL under Patroni, with three nodes and an etcd: `synchronous_mode` and `synchronous_mode_strict` are on.

Each fault meets members that lead in turns. No epoch is given twice, no acknowledged commit is lost, no write of an old
term is applied, and a member leads again. The seconds without a commit are in docs/stores.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from tests.contract.contenders import CLOCK, Contenders
from tests.kit.servers import PatroniCluster, installed
from tests.kit.servers.patroni import TTL_S
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.long

LOG = logging.getLogger(__name__)
"""`pytest --log-cli-level=INFO` shows the seconds without a commit."""


@pytest.fixture(scope="module")
def patroni(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PatroniCluster]:
    with installed(), PatroniCluster(tmp_path_factory.mktemp("patroni")) as cluster:
        yield cluster


def postgres_is_killed(patroni: PatroniCluster, contenders: Contenders) -> None:
    """Patroni starts it again where it was."""
    patroni.kill_postgres(patroni.primary())


def machine_is_stopped(patroni: PatroniCluster, contenders: Contenders) -> None:
    """Patroni and PostgreSQL of the primary sleep, and wake as if they led."""
    old = patroni.primary()
    patroni.freeze(old)
    patroni.wait_until_promoted(old)
    contenders.wait_for_writes()
    patroni.thaw(old)


def patroni_is_killed(patroni: PatroniCluster, contenders: Contenders) -> None:
    """PostgreSQL of the old primary lives on, and nobody fences it."""
    old = patroni.primary()
    patroni.nodes[old].kill()
    patroni.wait_until_promoted(old)
    contenders.wait_for_writes()
    patroni.nodes[old].start()


def switched_over(patroni: PatroniCluster, contenders: Contenders) -> None:
    patroni.ctl("switchover", "--leader", f"n{patroni.primary()}", "--force")


def etcd_is_away(patroni: PatroniCluster, contenders: Contenders) -> None:
    """For longer than Patroni's ttl: Patroni makes a standby of the primary meanwhile."""
    patroni.etcd.nodes[0].kill()
    until_s = CLOCK.monotonic_s() + 1.2 * TTL_S
    wait_until(lambda: not patroni.primaries(), what="the end of the primary")
    wait_until(lambda: CLOCK.monotonic_s() > until_s, what="the end of the outage")
    patroni.etcd.start()


def standby_is_removed(patroni: PatroniCluster, contenders: Contenders) -> None:
    (standby,) = patroni.synchronous()
    patroni.nodes[standby].stop()
    contenders.wait_for_writes()
    patroni.nodes[standby].start()


FAULTS = (
    postgres_is_killed,
    machine_is_stopped,
    patroni_is_killed,
    switched_over,
    etcd_is_away,
    standby_is_removed,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_loses_no_commit_and_gives_no_epoch_twice(
    patroni: PatroniCluster, fault: Callable[[PatroniCluster, Contenders], None]
) -> None:
    contenders = Contenders(patroni.url())
    with contenders.running():
        contenders.wait_for_writes()
        fault(patroni, contenders)
        contenders.wait_for_writes()
        patroni.wait_until_whole()
        contenders.wait_for_writes()
    LOG.info("%s: %.1f s without a commit", fault.__name__, contenders.longest_pause_s())
    with patroni.connect(patroni.primary()) as connection:
        contenders.check(connection)
