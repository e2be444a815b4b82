"""State and output on a real S3 server, reached by the variables of AWS and `--connector s3` alone.

Each kind of death of the leader, and every row is once in the output (I1-I3). The storage is spelled `s3://`, and the
output `s3a://`. No secret is shown anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenure.agent.processes import processes
from tests.crash.cluster import Cluster
from tests.crash.deaths import each_kind_of_death
from tests.crash.truth import Verdict
from tests.draw import ON_S3, only_if_drawn
from tests.kit.servers import BUCKET, SeaweedFs, installed
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.seaweedfs import environment
from tests.s3 import reached

STREAMS = ("passed", "windows")

pytestmark = only_if_drawn(ON_S3)


@dataclass(frozen=True)
class Story:
    """What happened in the scenario."""

    verdicts: dict[str, Verdict]
    epochs: int
    commands: bytes
    """The command lines of all processes of a leader and a standby."""
    written: bytes
    """The files of the scenario: the store, and all logs."""


@pytest.fixture(scope="module")
def story(seaweedfs: SeaweedFs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("on-s3")
    root = f"s3://{BUCKET}/{os.urandom(6).hex()}"
    with installed():
        flags = ("--connector", "s3", "--conf", f"spark.jars.ivy={ivy_folder()}")
    with pytest.MonkeyPatch.context() as patch, reached(seaweedfs.url, patch):
        with Cluster(folder, streams=STREAMS, ttl="5s", feed_every_s=1, root=root) as cluster:
            cluster.output = cluster.output.replace("s3://", "s3a://")
            each_kind_of_death(cluster, lambda name: cluster.start(name, flags=flags))
            sessions = {process for member in cluster.pair() for process in (member.pid, member.driver())}
            commands = b"\n".join(_command(one.pid) for one in processes() if one.session in sessions)
            cluster.settle()
            verdicts = {stream: cluster.verdict(stream) for stream in STREAMS}
            epochs = cluster.epoch()
        yield Story(verdicts, epochs, commands, b"".join(_content(path) for path in folder.iterdir()))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def test_every_row_is_once_in_the_output_over_each_kind_of_death(story: Story) -> None:
    assert story.epochs >= 4
    assert [str(verdict) for verdict in story.verdicts.values() if not verdict.right] == []


def test_each_driver_keeps_tables(story: Story) -> None:
    assert b"TablesNotKept" not in story.written


def test_no_secret_is_on_a_command_line_or_in_a_file(story: Story, seaweedfs: SeaweedFs) -> None:
    secret = environment(seaweedfs.url)["AWS_SECRET_ACCESS_KEY"].encode()
    assert b"spark.jars.ivy" in story.commands
    assert secret not in story.commands
    assert b"BatchCommitted" in story.written
    assert secret not in story.written
