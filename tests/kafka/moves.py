"""Moves of a plain job over a topic into a cluster and out of it, with this release of Spark or one beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from deltalake import DeltaTable

from tests.crash.cluster import SCOPE, Cluster, Topic
from tests.kit.members import MAIN
from tests.kit.process import GroupProcess

JOB: Final = ("-m", "tests.crash.pipelines.plain_job")
BY_SPARK: Final = (
    "sink=delta-spark",
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
)
"""The words for a plain job that writes with delta-spark."""


@dataclass(frozen=True)
class Release:
    """A PySpark beside the installed one, with its connectors."""

    name: str

    @property
    def spark(self) -> Path:
        """The folder of PySpark."""
        return Path(sys.prefix, f"spark-{self.name}")

    @property
    def ivy(self) -> Path:
        """The folder of the jars."""
        return Path(sys.prefix, f"connectors-{self.name}")

    @property
    def is_there(self) -> bool:
        """Whether `scripts/setup.sh` has fetched both."""
        return self.spark.is_dir() and any(self.ivy.glob("jars/*delta-spark*.jar"))

    @property
    def variables(self) -> Mapping[str, str]:
        """Those of a process that shall have this release."""
        return {"PYTHONPATH": str(self.spark)}


@contextmanager
def plain_job(
    cluster: Cluster,
    topic: Topic,
    *words: str,
    ivy: Path,
    checkpoints: Path,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Callable[[int], None]]:
    """The job, which is killed at the end of the block. Call the value to wait for so many commits to each table.
    `ivy`: the folder of its jars. `words`: more words of the job."""
    jars = ",".join(quote(str(jar)) for jar in sorted((ivy / "jars").glob("*.jar")))
    command = [sys.executable, *JOB, str(checkpoints), cluster.output, ",".join(cluster.streams), f"spark.jars={jars}"]
    command += [f"param.topic={topic.name}", f"param.brokers={topic.kafka.address}", *words]
    log = cluster.folder / f"{checkpoints.name}.log"
    job = GroupProcess(command, log=log, environment=variables)

    def wait_for(commits: int) -> None:
        def come() -> bool:
            assert job.running, log.read_text()[-3000:]
            return versions(cluster) >= commits

        cluster.wait(come, what="batches of the plain job")

    job.start()
    try:
        yield wait_for
    finally:
        job.kill()


def versions(cluster: Cluster) -> int:
    """The least number of commits that the table of a stream has."""
    tables = [f"{cluster.output}/{stream}" for stream in cluster.streams]
    return min(DeltaTable(table).version() + 1 if DeltaTable.is_deltatable(table) else 0 for table in tables)


def tenure(cluster: Cluster, *words: str, variables: Mapping[str, str] | None = None) -> None:
    """Run a command on the cluster, which must succeed."""
    done = subprocess.run(
        [*MAIN, *words, "--scope", SCOPE, "--store", cluster.store_url],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(variables or {})},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def lead_no_more(cluster: Cluster) -> None:
    """Let the leader end its batches, and nobody lead after it."""
    tenure(cluster, "pause")
    leader = cluster.look().leader
    assert leader is not None
    tenure(cluster, "restart", leader)
    cluster.wait(lambda: not cluster.look().leader, what="the end of the leadership")
