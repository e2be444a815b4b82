"""A sink, a storage or a function that fails for a time under a running pipeline with two members: both live, the
output is right afterwards without an operator, and the history says why each term ended."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.clock import SystemClock
from tenure.coordination.records import Scope
from tenure.operate.history import history as terms
from tests.crash.cluster import SCOPE, Cluster
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.servers import BUCKET, PostgresServer, SeaweedFs, installed
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.postgres import environment
from tests.kit.waiting import NEVER_S
from tests.s3 import PASS, SLOW_DOWN, Gate, reached

pytestmark = only_if_drawn(QUARTERS[0])


PIPELINE = Path(__file__).parent / "pipelines" / "outages.py"
FIVE_MINUTES = timedelta(minutes=5)
RETRIES = ("attempts.maximum", "retry.limit", "retry.throttle.limit")
"""With its own limits, Spark's client of S3 outlasts five minutes of 503 by itself."""
CLOCK = SystemClock()
LONGEST_S = 3 * NEVER_S
"""The last attempt comes up to 270 s after the attempt before it."""


def go_through(
    cluster: Cluster, flags: tuple[str, ...], *, begin: Callable[[], None], end: Callable[[], None], lasts: timedelta
) -> list[str]:
    """Run two members through an outage that lasts until a leader gave up, and at least so long; return the words of
    the history. Both members live then."""
    for name in ("anna", "ben"):
        cluster.start(name, flags=flags)
    cluster.wait(lambda: all(member.events("MemberReady") for member in cluster.members), what="two members")
    cluster.feeder.start()
    cluster.wait_for_batches(after_epoch=0, count=3)
    cluster.pair()
    epoch, until_s = cluster.epoch(), CLOCK.monotonic_s() + lasts.total_seconds()
    begin()
    cluster.wait(
        lambda: len(history(cluster)) > epoch or cluster.look().leader is None,
        what="a leader that gives up",
        seconds=LONGEST_S,
    )
    cluster.wait(lambda: CLOCK.monotonic_s() >= until_s, what="the end of the outage", seconds=lasts.total_seconds())
    end()
    cluster.wait_for_batches(after_epoch=epoch, count=2, seconds=LONGEST_S)
    assert [member.name for member in cluster.members if not member.running] == []
    cluster.wait(lambda: cluster.look().failing is None, what="the record of the failures to go", seconds=LONGEST_S)
    return [why for why in history(cluster) if why]


def history(cluster: Cluster) -> list[str]:
    """Why each term ended; empty: it is held."""
    with cluster.opened() as store:
        return [term.why for term in terms(store, Scope(SCOPE)).terms]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("lasts", [timedelta(0), pytest.param(FIVE_MINUTES, marks=pytest.mark.long, id="five minutes")])
def test_a_function_that_raises(tmp_path: Path, lasts: timedelta) -> None:
    broken = tmp_path / "broken"
    with Cluster(tmp_path, streams=("files",), ttl="5s", feed_every_s=3, pipeline=PIPELINE) as cluster:
        flags = ("--param", f"broken={broken}")
        why = go_through(cluster, flags, begin=broken.touch, end=broken.unlink, lasts=lasts)
        assert set(why) == {"failed"}
        cluster.settle()
        assert cluster.verdict("files").right, str(cluster.verdict("files"))
        failed = [event for member in cluster.members for event in member.events("AttemptFailed")]
        assert all("the lookup has no such key" in event["error"] for event in failed)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_database_that_is_stopped_for_five_minutes(tmp_path: Path) -> None:
    with installed(), PostgresServer(tmp_path / "postgres") as postgres:
        folder = tmp_path / "members"
        folder.mkdir()
        postgres_flags = ("--param", f"database={postgres.url}")
        with Cluster(folder, streams=("raw",), ttl="5s", feed_every_s=3, pipeline=PIPELINE) as cluster:
            cluster.variables = environment()
            why = go_through(
                cluster, postgres_flags, begin=postgres.nodes[0].kill, end=postgres.start, lasts=FIVE_MINUTES
            )
            assert set(why) == {"sink away"}
            cluster.feeder.stop()

            def found() -> Counter[int]:
                with postgres.connect() as connection:
                    return Counter(number for (number,) in connection.execute("select id from raw").fetchall())

            cluster.wait(lambda: sum(found().values()) >= cluster.feeder.events, what="every row")
            assert found() == Counter(range(cluster.feeder.events))


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_an_object_store_that_answers_503_for_five_minutes(
    seaweedfs: SeaweedFs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed():
        conf = (f"jars.ivy={ivy_folder()}", *(f"hadoop.fs.s3a.{name}=2" for name in RETRIES))
        flags = ("--connector", "s3", *(word for one in conf for word in ("--conf", f"spark.{one}")))
    root = f"s3://{BUCKET}/{os.urandom(6).hex()}"
    with (
        Gate(seaweedfs) as gate,
        reached(gate.url, monkeypatch),
        Cluster(tmp_path, streams=("passed", "windows"), ttl="5s", feed_every_s=2, root=root) as cluster,
    ):

        def away() -> None:
            gate.rule = lambda method, path: SLOW_DOWN

        def back() -> None:
            gate.rule = lambda method, path: PASS

        why = go_through(cluster, flags, begin=away, end=back, lasts=FIVE_MINUTES)
        assert {"sink away", "storage away"} & set(why), why
        cluster.settle()
        for stream in cluster.streams:
            assert cluster.verdict(stream).right, str(cluster.verdict(stream))
