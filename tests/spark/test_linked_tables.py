"""State stores link the tables of RocksDB where Spark would copy them: who shares the bytes, and who writes there."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tenure.rundirs.run_directory import latest_planned, read_offsets
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.spark.hadoop import use_own_local_files
from tenure.spark.own_classes import CHECKPOINT_FILES

pytestmark = pytest.mark.spark

ROCKSDB = "spark.sql.streaming.stateStore.rocksdb."
SETTINGS = {
    ROCKSDB + "changelogCheckpointing.enabled": "false",  # each batch uploads its tables
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
TABLE = "000009-0123.sst"
OTHER_DEVICE = Path("/dev/shm")


class Files:
    """What a JVM's Hadoop does with files, by our class."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._files = self._path(Path("/")).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def _path(self, of: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"file://{of}")

    def fetch(self, source: Path, target: Path) -> None:
        """As Spark fetches a file for a state store."""
        self._files.copyToLocalFile(self._path(source), self._path(target))

    def close(self) -> None:
        """Out of the cache: whoever asks next has Hadoop's own class."""
        self._files.close()


@pytest.fixture(scope="module")
def files(spark: SparkSession) -> Iterator[Files]:
    assert use_own_local_files(spark) is None
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    ours = Files(spark)
    try:
        yield ours
    finally:
        ours.close()
        for name in (CHECKPOINT_FILES, *SETTINGS):
            spark.conf.unset(name)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "SSTs").mkdir()
    path = tmp_path / "SSTs" / TABLE
    path.write_bytes(b"the leader's")
    return path


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own; only root may have one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs root, and a mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_table_is_linked_and_nothing_else_is(files: Files, table: Path, tmp_path: Path) -> None:
    log = table.with_name("000009-0123.log")
    log.write_bytes(b"changes")
    for source, target in ((table, tmp_path / "000009.sst"), (log, tmp_path / "000009.log")):
        files.fetch(source, target)
        assert target.read_bytes() == source.read_bytes()
        assert target.samefile(source) is (source is table)
    assert not (tmp_path / ".000009.sst.crc").exists()


def test_a_name_that_is_taken_gets_another_file_and_the_old_bytes_stay(
    files: Files, table: Path, tmp_path: Path
) -> None:
    (older := tmp_path / "older").write_bytes(b"another table")
    target = tmp_path / "000009.sst"
    os.link(older, target)
    files.fetch(table, target)
    files.fetch(table, target)
    assert target.samefile(table)
    assert older.read_bytes() == b"another table"


def test_on_another_device_a_table_is_copied_and_no_linked_file_is_written_through(files: Files, table: Path) -> None:
    assert OTHER_DEVICE.stat().st_dev != table.stat().st_dev
    folder = OTHER_DEVICE / f"tenure-{os.getpid()}"
    folder.mkdir()
    try:
        (older := folder / "older").write_bytes(b"another table")
        target = folder / "000009.sst"
        os.link(older, target)
        files.fetch(table, target)
        assert target.read_bytes() == table.read_bytes()
        assert (target.stat().st_nlink, table.stat().st_nlink) == (1, 1)
        assert older.read_bytes() == b"another table"
    finally:
        shutil.rmtree(folder)


def test_a_table_that_is_gone_and_a_folder_are_what_they_were_to_hadoop(
    files: Files, table: Path, tmp_path: Path
) -> None:
    table.unlink()
    with pytest.raises(Py4JJavaError, match=f"FileNotFoundException: File file:{table} does not exist"):
        files.fetch(table, tmp_path / "000009.sst")
    table.mkdir()
    table.joinpath("inside").touch()
    files.fetch(table, tmp_path / "000009.sst")
    assert (tmp_path / "000009.sst" / "inside").is_file()


def test_a_full_disk_has_room_for_links_and_is_an_error_for_copies(files: Files, table: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "64k") as disk:
        there = disk / TABLE
        there.write_bytes(content := os.urandom(40_000))
        files.fetch(there, disk / "000009.sst")
        assert there.stat().st_nlink == 2
        table.write_bytes(os.urandom(40_000))
        with pytest.raises(Py4JJavaError, match="No space left on device"):
            files.fetch(table, disk / "000010.sst")
        files.fetch(there, disk / "000010.sst")
        assert there.read_bytes() == (disk / "000010.sst").read_bytes() == content


class Counting:
    """A query that counts words, on run directories below `folder`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.folder = folder
        self.counts: dict[str, int] = {}
        self.links: list[int] = []
        (folder / "in").mkdir()

    def feed(self, number: int) -> None:
        (self.folder / "in" / f"{number}.txt").write_text("".join(f"word{word}\n" for word in range(200)))

    def run(self, directory: str, *, compact: bool = False) -> None:
        """Run all that was fed, in a run directory. Notes how many names each of its tables has while it runs."""
        self._spark.conf.set(ROCKSDB + "compactOnCommit", str(compact).lower())
        rows = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.folder / "in"))

        def note(found: DataFrame, batch: int) -> None:
            before = self.tables(directory)
            self.counts |= {row["value"]: row["count"] for row in found.collect()}
            self.links = [path.stat().st_nlink for path in before]

        query = (
            rows.groupBy("value")
            .count()
            .writeStream.foreachBatch(note)
            .outputMode("update")
            .option("checkpointLocation", str(self.folder / directory))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def seed(self, source: str, target: str) -> None:
        batch = latest_planned(str(self.folder / source))
        assert batch is not None
        point = SeedPoint(batch, read_offsets(str(self.folder / source), batch), committed=True)
        seed(str(self.folder / source), str(self.folder / target), point)

    def tables(self, directory: str) -> list[Path]:
        return sorted((self.folder / directory).glob("state/0/*/SSTs/[0-9]*.sst"))

    def bytes_of(self, directory: str) -> Mapping[Path, tuple[str, int, int]]:
        """Table -> hash, size, and when its bytes were written last."""
        found = {}
        for path in self.tables(directory):
            status = path.stat()
            found[path] = hashlib.sha256(path.read_bytes()).hexdigest(), status.st_size, status.st_mtime_ns
        return found


def test_successor_and_zombie_go_on_and_no_table_that_they_share_is_written_to(
    files: Files, spark: SparkSession, tmp_path: Path
) -> None:
    counting = Counting(spark, tmp_path)
    for number in range(2):  # of four tables RocksDB makes one, by itself
        counting.feed(number)
    counting.run("old")
    counting.seed("old", "new")
    shared = counting.bytes_of("new")
    assert shared, "a takeover links tables"

    counting.feed(2)
    counting.run("new")
    assert min(counting.links) > 2, "the old directory, the new one, and the state store that runs"
    counting.run("old", compact=True)  # the zombie has the same batch
    assert set(counting.counts.values()) == {3}
    counting.feed(3)
    counting.run("new", compact=True)
    assert {path: counting.bytes_of("new")[path] for path in shared} == shared

    shutil.rmtree(tmp_path / "old")  # as a sweep does
    counting.seed("new", "newer")
    shutil.rmtree(tmp_path / "new")
    counting.feed(4)
    counting.run("newer")
    assert set(counting.counts.values()) == {5}
