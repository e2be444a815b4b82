"""Two members over one topic behind a password: each kind of death of the leader, and a broker that is away. Every
record counts once, and the password is nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.crash.cluster import Cluster, Topic
from tests.crash.deaths import each_kind_of_death
from tests.crash.truth import Verdict
from tests.draw import FROM_KAFKA, only_if_drawn
from tests.kit.servers import KafkaServer, installed
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.kafka import PASSWORDS, SCRAM

STREAMS = ("passed", "windows")
PARTITIONS = 3


def topic_of(kafka: KafkaServer, name: str, *flags: str) -> Topic:
    """A new topic, with what members need to read it at the address that asks for a password."""
    kafka.make_topic(name, partitions=PARTITIONS)
    read = ("--param", f"topic={name}", "--param", f"brokers={kafka.secured}", *flags)
    connector = ("--connector", "kafka", "--conf", f"spark.jars.ivy={ivy_folder()}")
    # No driver hangs here, and a JVM that starts beside others may be silent for long.
    environment = {"KAFKA_PASSWORD": PASSWORDS[SCRAM], "TENURE_DRIVER_SILENCE": "60s"}
    return Topic(kafka, name, PARTITIONS, (*connector, *read), environment)


@dataclass(frozen=True)
class Story:
    """How it ended."""

    verdicts: dict[str, Verdict]
    events: int
    with_password: list[str]
    """Files, records and command lines that have the password."""
    behind: dict[str, int | None]
    """How far the queries were behind, by the store."""


def _with_password(folder: Path) -> list[str]:
    password = PASSWORDS[SCRAM].encode()
    files = [str(path) for path in folder.rglob("*") if path.is_file() and password in path.read_bytes()]
    lines = [str(process.pid) for process in psutil.process_iter() if password.decode() in " ".join(_command(process))]
    return files + lines


def _command(process: psutil.Process) -> list[str]:
    try:
        command: list[str] = process.cmdline()
    except psutil.Error:  # it has ended
        return []
    return [] if any("StorageTool" in word for word in command) else command


@pytest.fixture(scope="module")
def story(kafka: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("deaths")
    with installed():
        topic = topic_of(kafka, "deaths")
    with Cluster(folder, streams=STREAMS, ttl="5s", topic=topic) as cluster:
        each_kind_of_death(cluster, cluster.start)

        def behind() -> dict[str, int | None]:
            return {query.query: query.behind for query in cluster.look().queries}

        cluster.wait(lambda: None not in behind().values(), what="the leader's words on its lag")
        known = behind()
        cluster.settle()
        verdicts = {name: cluster.verdict(name) for name in STREAMS}
        yield Story(verdicts, cluster.feeder.events, _with_password(folder), known)


@only_if_drawn(FROM_KAFKA)
@pytest.mark.timeout(1800)
def test_every_record_counts_once_over_each_kind_of_death(story: Story) -> None:
    assert story.events > 300
    assert [str(verdict) for verdict in story.verdicts.values() if not verdict.right] == []


@only_if_drawn(FROM_KAFKA)
def test_the_store_says_how_far_each_query_is_behind(story: Story) -> None:
    assert set(story.behind) == set(STREAMS)
    assert all(count is not None and 0 <= count <= story.events for count in story.behind.values())


@only_if_drawn(FROM_KAFKA)
def test_the_password_is_in_no_file_no_record_and_no_command_line(story: Story) -> None:
    assert story.with_password == []


@pytest.mark.timeout(1800)
def test_a_pipeline_whose_broker_was_away_for_longer_than_spark_waits_goes_on_by_itself(tmp_path: Path) -> None:
    with installed(), KafkaServer(tmp_path / "kafka") as kafka:
        # Short, so that Spark gives up soon; long enough for a broker that answers slowly, as at a first start.
        patience = ("default.api.timeout.ms=20000", "request.timeout.ms=15000")
        flags = [word for setting in patience for word in ("--param", f"kafka.{setting}")]
        topic = topic_of(kafka, "away", *flags, "--param", "fetchOffset.numRetries=1")
        folder = tmp_path / "members"
        folder.mkdir()
        with Cluster(folder, streams=STREAMS, ttl="5s", topic=topic) as cluster:
            cluster.start("anna")
            cluster.start("ben")
            kafka.send("away", map(str, range(60)))
            cluster.feeder.events = 60
            cluster.wait_for_batches(after_epoch=0, count=1)
            cluster.pair()
            epoch = cluster.epoch()
            kafka.nodes[0].kill()
            cluster.wait(
                lambda: [event for member in cluster.members for event in member.events("SourceAway")],
                what="a member that gives up on its source",
            )
            kafka.start()
            cluster.feeder.start()
            cluster.wait_for_batches(after_epoch=epoch, count=2)
            cluster.settle()
            assert [member.name for member in cluster.members if not member.running] == []
            assert [str(cluster.verdict(name)) for name in STREAMS if not cluster.verdict(name).right] == []
