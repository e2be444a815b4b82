"""Tables that a JVM keeps beside its state stores: a stale, a half or a damaged table is never linked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tenure.spark.kept_tables import KeptTables, use_kept_tables
from tenure.spark.own_classes import use_own_classes
from tenure.storage.reach import reach
from tests.kit.servers import Hdfs
from tests.kit.waiting import wait_until
from tests.spark.test_linked_tables import small_disk

pytestmark = pytest.mark.spark

TABLE = "000009-2f9c7e1a-7c53-4a39-9a0d-5b0e8f6f2d11.sst"
CONTENT = b"the leader's table"


class Kept:
    """The tables of the JVM, in a folder of the test."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        use_own_classes(spark)
        self.tables = KeptTables(spark)
        self.folder = folder
        folder.mkdir(exist_ok=True)
        jvm: Any = spark.sparkContext._jvm
        self._jvm = jvm
        jvm.tenure.spark.KeptTables.use(str(folder), spark.sparkContext._jsc.hadoopConfiguration())

    def load(self, source: Path, target: Path) -> str | None:
        """As Spark loads a table for a state store. Return the file that it still has to copy; None: none."""
        path = self._jvm.org.apache.hadoop.fs.Path
        found = self._jvm.tenure.spark.KeptTables.link(path(f"file:{source}"), path(f"file:{target}"))
        return None if found is None else str(found.toString()).removeprefix("file:")

    def fits(self, size: int, free: int, disk: int) -> bool:
        return bool(self._jvm.tenure.spark.KeptTables.fits(size, free, disk))

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Iterator[Kept]:
    made, disk = Kept(spark, tmp_path / "kept"), shutil.disk_usage(tmp_path)
    assert made.fits(1 << 20, disk.free, disk.total), (
        f"make room on the disk of {tmp_path}: it has so little that no table is kept"
    )
    try:
        yield made
    finally:
        for holder in ("a", "b"):
            made.tables.release(holder)


def table_in(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir()
    path = folder / TABLE
    path.write_bytes(content)
    return path


def test_a_held_table_is_fetched_once_and_linked_and_another_is_the_callers(kept: Kept, tmp_path: Path) -> None:
    table, target = table_in(tmp_path / "run"), tmp_path / "000009.sst"
    assert kept.load(table, target) == str(table), "nobody holds it"
    assert (kept.names(), target.exists()) == ([], False)

    kept.tables.hold("a", {f"file:{table}": len(CONTENT)})
    elsewhere = tmp_path / "rehearsal" / TABLE  # no such file: the name alone says which table it is
    assert kept.load(elsewhere, target) is None
    assert target.samefile(kept.folder / TABLE)
    table.unlink()  # as a leader removes an old version
    assert kept.load(table, tmp_path / "again.sst") is None
    assert (tmp_path / "again.sst").read_bytes() == CONTENT


def test_tables_are_fetched_ahead_and_go_with_their_last_holder(kept: Kept, tmp_path: Path) -> None:
    table, target = table_in(tmp_path / "run"), tmp_path / "000009.sst"
    held = {f"file:{table}": len(CONTENT)}
    kept.tables.hold("a", held, ahead=True)
    wait_until(lambda: kept.names() == [TABLE], what="the table")
    kept.tables.hold("b", held)
    kept.tables.hold("a", {})
    assert kept.names() == [TABLE]
    assert kept.load(table, target) is None
    kept.tables.release("b")
    assert kept.names() == []
    assert target.read_bytes() == CONTENT, "the state store that runs has its own name"
    assert kept.load(table, target) == str(table)


def test_half_a_table_is_not_linked(kept: Kept, tmp_path: Path) -> None:
    half, target = table_in(tmp_path / "run", CONTENT[:5]), tmp_path / "000009.sst"
    kept.tables.hold("a", {f"file:{half}": len(CONTENT)}, ahead=True)
    assert kept.load(half, target) == str(half), "Spark copies it, and refuses its size"
    assert (kept.names(), target.exists()) == ([], False)
    half.write_bytes(CONTENT)
    assert kept.load(half, target) is None
    assert target.read_bytes() == CONTENT


def test_a_part_of_a_killed_fetch_and_a_file_of_another_size_are_not_linked(kept: Kept, tmp_path: Path) -> None:
    table, target = table_in(tmp_path / "run"), tmp_path / "000009.sst"
    (kept.folder / f"{TABLE}.0000.part").write_bytes(b"half")
    (kept.folder / TABLE).write_bytes(b"stale")
    kept.tables.hold("a", {f"file:{table}": len(CONTENT)})
    assert kept.load(table, target) is None
    assert target.read_bytes() == (kept.folder / TABLE).read_bytes() == CONTENT


def test_a_table_that_is_gone_is_taken_from_another_holders_place_and_else_the_callers(
    kept: Kept, tmp_path: Path
) -> None:
    gone, there, target = tmp_path / "swept" / TABLE, table_in(tmp_path / "mirror"), tmp_path / "000009.sst"
    kept.tables.hold("a", {f"file:{gone}": len(CONTENT)})
    assert kept.load(there, target) == str(there)
    kept.tables.hold("b", {f"file:{there}": len(CONTENT)})
    assert kept.load(gone, target) is None
    assert target.read_bytes() == CONTENT


def test_a_name_that_is_taken_gets_another_file_and_the_old_bytes_stay(kept: Kept, tmp_path: Path) -> None:
    table, target = table_in(tmp_path / "run"), tmp_path / "000009.sst"
    (older := tmp_path / "older").write_bytes(b"another table")
    os.link(older, target)
    (sums := tmp_path / ".000009.sst.crc").write_bytes(b"of the older table")
    kept.tables.hold("a", {f"file:{table}": len(CONTENT)})
    assert kept.load(table, target) is None
    assert (target.read_bytes(), older.read_bytes(), sums.exists()) == (CONTENT, b"another table", False)


def test_a_tenth_of_the_disk_stays_free(spark: SparkSession, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "100k") as disk:
        kept = Kept(spark, disk / "kept")
        table = table_in(tmp_path / "run", os.urandom(95_000))
        kept.tables.hold("a", {f"file:{table}": 95_000}, ahead=True)
        assert kept.load(table, disk / "000009.sst") == str(table)
        kept.tables.hold("a", {f"file:{table}": 50_000})
        table.write_bytes(os.urandom(50_000))
        assert kept.load(table, disk / "000009.sst") is None
        kept.tables.release("a")


@pytest.mark.parametrize(
    ("disk", "free", "largest"),
    [(50, 8, 3), (100, 24, 14), (252, 24, 14), (10_000, 24, 14)],
    ids=["a tenth", "a tenth that is 10", "10 of more", "10 of many"],
)
def test_of_a_large_disk_ten_gib_stay_free(kept: Kept, disk: int, free: int, largest: int) -> None:
    assert kept.fits(largest << 30, free << 30, disk << 30)
    assert not kept.fits((largest << 30) + 1, free << 30, disk << 30)


def test_on_a_local_disk_no_table_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    assert use_kept_tables(spark, str(tmp_path)) == use_kept_tables(spark, f"file://{tmp_path}") == (None, None)


@pytest.mark.long
def test_in_hdfs_a_kept_table_is_linked_where_spark_copies_it(spark: SparkSession, hdfs: Hdfs, tmp_path: Path) -> None:
    use_own_classes(spark)
    tables, why = use_kept_tables(spark, f"{hdfs.url}/tables")
    assert why is None
    assert tables is not None
    storage, url = reach(f"{hdfs.url}/tables"), f"{hdfs.url}/tables/SSTs/{TABLE}"
    storage.add(f"SSTs/{TABLE}", CONTENT)
    tables.hold("a", {url: len(CONTENT)}, ahead=True)
    context: Any = spark.sparkContext
    kept = Path(context._temp_dir) / "tables" / TABLE
    wait_until(kept.is_file, what="the table")
    storage.delete(f"SSTs/{TABLE}")
    path = context._jvm.org.apache.hadoop.fs.Path
    files = path(url).getFileSystem(context._jsc.hadoopConfiguration())
    files.copyToLocalFile(path(url), path(f"file:{tmp_path}/000009.sst"))
    assert (tmp_path / "000009.sst").samefile(kept)
    tables.release("a")
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        files.copyToLocalFile(path(url), path(f"file:{tmp_path}/000010.sst"))
    files.close()
