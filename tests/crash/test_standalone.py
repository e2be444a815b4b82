"""On a standalone cluster with two workers: the leader's host dies, and with it its executors; the output is right.

Jars, Maven packages and Python files come as they do with spark-submit.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from tenure.backends.sqlite import SqliteStore
from tenure.coordination.records import Scope
from tenure.operate.snapshot import take_snapshot
from tests.crash.cluster import Feeder
from tests.kit.members import MemberProcess
from tests.kit.servers import SparkStandalone
from tests.kit.waiting import Answer, wait_until

PIPELINE = Path(__file__).parent / "pipelines" / "standalone.py"
SCOPE = Scope("standalone")
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>tenure.tests</groupId><artifactId>packaged</artifactId><version>1</version></project>"""


def _jar(path: Path, resource: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(resource, "here")
    return path


def _repository(folder: Path) -> None:
    """Make a Maven repository with one artifact."""
    artifact = _jar(folder / "tenure" / "tests" / "packaged" / "1" / "packaged-1.jar", "packaged.txt")
    artifact.with_suffix(".pom").write_text(POM)


@dataclass
class Scene:
    """Two members on one cluster."""

    folder: Path
    spark: SparkStandalone
    feeder: Feeder
    members: list[MemberProcess]

    def start(self, name: str) -> MemberProcess:
        """One more member."""
        arguments = ["run", str(PIPELINE), "--store", f"sqlite://{self.folder}/s.db", "--ttl", "3s", "--quiet"]
        arguments += ["--storage", f"file://{self.folder}/storage", "--master", self.spark.url]
        arguments += ["--py-files", str(self.folder / "lib" / "helper.py"), "--jars", str(self.folder / "own.jar")]
        arguments += ["--packages", "tenure.tests:packaged:1"]
        flags = f"--repositories {(self.folder / 'maven').as_uri()} --executor-memory 512m"
        arguments += ["--submit", f"{flags} --conf spark.jars.ivy={self.folder}/ivy-{name}"]
        python = f"spark.pyspark.python={sys.executable}"
        for setting in ("spark.cores.max=2", "spark.sql.shuffle.partitions=2", python):
            arguments += ["--conf", setting]
        for param in (f"input={self.folder}/input", f"output={self.folder}/output", "resources=own.txt,packaged.txt"):
            arguments += ["--param", param]
        member = MemberProcess(name, folder=self.folder, arguments=arguments)
        self.members.append(member)
        member.start()
        return member

    def wait(self, condition: Callable[[], Answer], what: str) -> Answer:
        """Wait; a TimeoutError tells what the members printed."""
        try:
            return wait_until(condition, what=what)
        except TimeoutError as late:
            told = "\n".join(f"--- {one.name} ({one.exit_code})\n{one.output()[-3000:]}" for one in self.members)
            raise TimeoutError(f"{late}\n{told}") from late

    def batches(self, member: MemberProcess) -> int:
        return len(member.events("BatchCommitted"))

    def pair(self) -> tuple[MemberProcess, MemberProcess]:
        """The leader, once it has committed batches, and the standby, once it could take over."""

        def ready() -> tuple[MemberProcess, MemberProcess] | None:
            with closing(SqliteStore(self.folder / "s.db")) as store:
                found = take_snapshot(store, SCOPE)
            able = {one.member for one in found.members if one.ready} - {found.leader}
            leading = [one for one in self.members if one.name == found.leader and self.batches(one) >= 2]
            standing_by = [one for one in self.members if one.name in able]
            return (leading[0], standing_by[0]) if leading and standing_by else None

        pair = self.wait(ready, "a leader and a standby")
        assert pair is not None
        return pair

    def application(self, member: MemberProcess) -> str:
        """The id of its application."""
        (found,) = [one for one, name in self.spark.applications().items() if name == f"tenure-{SCOPE}-{member.name}"]
        return found

    def ids(self) -> list[int]:
        try:
            return sorted(DeltaTable(str(self.folder / "output")).to_pyarrow_table()["id"].to_pylist())
        except TableNotFoundError:
            return []


@pytest.mark.long
def test_the_leader_dies_with_its_executors_and_the_output_is_right(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    _jar(tmp_path / "own.jar", "own.txt")
    _repository(tmp_path / "maven")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "helper.py").write_text("def twice(number):\n    return 2 * number\n")
    with SparkStandalone(tmp_path, workers=2) as spark:
        scene = Scene(tmp_path, spark, Feeder(tmp_path / "input", every_s=0.5), [])
        try:
            scene.feeder.start()
            scene.start("anna")
            scene.start("ben")
            leader, standby = scene.pair()
            first, second = scene.application(leader), scene.application(standby)
            scene.wait(lambda: spark.executors(first) and spark.executors(second), "executors of both")
            executors = set(spark.executors(second))

            leader.kill()
            scene.wait(lambda: scene.batches(standby) >= 2, "batches of the successor")
            scene.wait(lambda: not spark.executors(first), "the end of the dead application's executors")
            scene.wait(lambda: set(spark.applications()) == {second}, "the end of the dead application")
            assert executors <= set(spark.executors(second)), "the successor's own were there already"

            scene.feeder.stop()
            truth = [2 * number for number in range(scene.feeder.events)]
            scene.wait(lambda: len(scene.ids()) >= len(truth), "all rows")
            assert scene.ids() == truth
            standby.terminate()
            standby.wait()
            scene.wait(lambda: not spark.applications() and not spark.executors(second), "an orderly end")
        finally:
            scene.feeder.stop()
            for member in scene.members:
                member.kill()
