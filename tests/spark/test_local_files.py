"""Files on a local disk, with Hadoop's class and with ours in its place: the same, and without processes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tenure.spark import hadoop
from tenure.spark.hadoop import use_own_local_files
from tenure.spark.own_classes import CHECKPOINT_FILES
from tenure.spark.releases import in_its_words, known_settings
from tenure.spark.session import DEFAULTS, end_session, start_session
from tests.jvm import SharedJvm
from tests.kit.waiting import NEVER_S

pytestmark = pytest.mark.spark

OURS = "tenure.spark.LocalFiles"


class Programs:
    """Stand on the JVM's PATH before the real ones, and note when they are started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._note = folder / "started"
        for name in ("chmod", "readlink", "ls", "stat", "bash"):
            real = shutil.which(name)
            assert real is not None
            (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {self._note}\nexec {real} "$@"\n')
            (folder / name).chmod(0o755)

    def started(self) -> list[str]:
        """Since it was asked last."""
        found = self._note.read_text().splitlines() if self._note.exists() else []
        self._note.unlink(missing_ok=True)
        return found


UPLOADS = "spark.sql.streaming.stateStore.maintenanceInterval"
DEFAULTS_OF_A_HOST = f"{UPLOADS} 31s\nspark.sql.session.timeZone Asia/Tokyo\nspark.sql.shuffle.partitions 7\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def session(jvm: SharedJvm, tmp_path_factory: pytest.TempPathFactory, programs: Programs) -> Iterator[SparkSession]:
    jvm.end()
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    conf = {"spark.sql.shuffle.partitions": "1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs.folder}:{os.environ['PATH']}")
        patch.setenv("SPARK_CONF_DIR", str(tmp_path_factory.mktemp("conf")))
        Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf").write_text(DEFAULTS_OF_A_HOST)
        session = start_session(name="test", master="local[1]", conf=conf, log=str(log))
    try:
        yield session
    finally:
        end_session(session, patience_s=NEVER_S)


@pytest.fixture
def spark(session: SparkSession, programs: Programs) -> SparkSession:
    """As it was started: Hadoop's own class is what the JVM hands out."""
    Hadoop(session).files().close()  # out of the cache, and whoever asks next has a new one made
    session.conf.unset(CHECKPOINT_FILES)
    assert Hadoop(session).name() != OURS
    programs.started()
    return session


class Hadoop:
    """What a JVM's Hadoop does with files."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark._jvm
        self.conf = spark.sparkContext._jsc.hadoopConfiguration()
        self.query_conf = spark._jsparkSession.sessionState().newHadoopConf()

    def path(self, of: Path) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(f"file://{of}")

    def files(self) -> Any:
        return self.path(Path("/")).getFileSystem(self.conf)

    def exercise(self, folder: Path) -> list[bool]:
        """All kinds of files and folders that Spark makes. Returns what moving them gave."""
        folder.mkdir()
        (source := folder / "source").write_bytes(b"x" * 1500)
        files = self.files()
        files.copyToLocalFile(self.path(source), self.path(folder / "copy"))
        files.mkdirs(self.path(folder / "made" / "below"))
        files.mkdirs(self.path(folder / "sticky"), self.permission("700"))
        files.setPermission(self.path(folder / "sticky"), self.permission("1777"))
        files.create(self.path(folder / "kept"), self.permission("600"), True, 100, 1, 1000, None).close()
        files.setPermission(self.path(folder / "kept"), self.permission("751"))
        files.setPermission(self.path(folder / "copy"), self.permission("000"))
        name = in_its_words("org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager")
        manager = getattr(self.jvm, name).create(self.path(folder), self.query_conf)
        for text in (b"first", b"second"):
            stream = manager.createAtomic(self.path(folder / "offsets"), True)
            stream.write(text)
            stream.close()
        stream = manager.createAtomic(self.path(folder / "given up"), True)
        stream.write(65)
        stream.cancel()
        for name in ("one", "other", "new"):
            (folder / name).write_text(name)
        moves = (("one", "other"), ("new", "moved"), ("moved", "made"), ("made", "made anew"))
        return [bool(files.rename(self.path(folder / old), self.path(folder / new))) for old, new in moves]

    def permission(self, octal: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.permission.FsPermission(octal)

    def name(self) -> str:
        """The class that everybody is given."""
        return str(self.files().getClass().getName())


def look(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Path -> mode and content of all that is below."""
    return {
        str(path.relative_to(folder)): (oct(path.stat().st_mode), path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def test_a_hosts_own_defaults_go_before_ours_and_a_members_settings_before_both(session: SparkSession) -> None:
    conf = session.sparkContext.getConf()
    assert (conf.get(UPLOADS), conf.get("spark.sql.session.timeZone")) == ("31s", "Asia/Tokyo")
    assert conf.get("spark.sql.shuffle.partitions") == "1"
    ours = {name: conf.get(name) for name in known_settings(DEFAULTS) if name != UPLOADS}
    assert ours == {name: value for name, value in known_settings(DEFAULTS).items() if name != UPLOADS}
    assert conf.get("spark.ui.showConsoleProgress") == "false"


def test_files_are_the_same_and_no_process_is_started(spark: SparkSession, programs: Programs, tmp_path: Path) -> None:
    before = Hadoop(spark)
    moved = before.exercise(tmp_path / "before")
    assert len([line for line in programs.started() if line.startswith("chmod")]) > 10
    assert use_own_local_files(spark) is None
    after = Hadoop(spark)
    assert after.name() == OURS
    programs.started()
    assert after.exercise(tmp_path / "after") == moved
    assert [line.split()[:2] for line in programs.started()] == [["chmod", "1777"]]
    assert look(tmp_path / "after") == look(tmp_path / "before")


def test_a_query_goes_on_from_what_hadoops_class_wrote(spark: SparkSession, programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    counts: dict[int, int] = {}

    def batch(number: int) -> None:
        (tmp_path / "in" / f"{number}.txt").write_text("a\n")
        rows = spark.readStream.format("text").load(str(tmp_path / "in")).groupBy("value").count()
        query = (
            rows.writeStream.foreachBatch(lambda found, at: counts.update({at: found.collect()[0]["count"]}))
            .outputMode("update")
            .option("checkpointLocation", str(tmp_path / "run"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    batch(0)
    assert programs.started() != []
    assert use_own_local_files(spark) is None
    batch(1)
    programs.started()
    batch(2)
    assert programs.started() == []
    assert counts == {0: 1, 1: 2, 2: 3}


def test_a_second_call_changes_nothing(spark: SparkSession) -> None:
    assert use_own_local_files(spark) is None
    first = Hadoop(spark).files()
    assert use_own_local_files(spark) is None
    assert Hadoop(spark).files().equals(first)


def test_what_cannot_be_compiled_is_told_and_changes_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hadoop, "_CLASS", "tenure.spark.NoSuchClass")
    why = use_own_local_files(spark)
    assert why is not None
    assert "tenure.spark.NoSuchClass" in why
    assert Hadoop(spark).name() != OURS
    assert spark.conf.get(CHECKPOINT_FILES, None) is None


def test_what_the_user_chose_stays(spark: SparkSession) -> None:
    chosen = in_its_words(
        "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    )
    spark.conf.set(CHECKPOINT_FILES, chosen)
    assert use_own_local_files(spark) is None
    assert spark.conf.get(CHECKPOINT_FILES) == chosen
