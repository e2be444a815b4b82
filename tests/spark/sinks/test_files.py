"""Plain files: what Spark's readers see, whoever writes, and how a job of plain Spark goes on under Tenure and back."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tenure.errors import QueryFailed, StorageError, UsageError
from tenure.sinks.files.log import FOLDER, OWNER
from tenure.sinks.files.sink import Files
from tenure.sinks.sink import Attempts, Planned, Written
from tests.kit.waiting import wait_until
from tests.spark.sinks.support import QUICK, Paused, Seen, a_batch, numbers, totals, write

pytestmark = pytest.mark.spark
TERM: Any = None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the sink; its name needs escapes in a URL."""
    return tmp_path / "out 100%"


def files(folder: Path, **options: Any) -> Files:
    sink = Files(folder, retry_policy=QUICK, **options)
    sink.check(output_mode="append")
    return sink


def read(spark: SparkSession, folder: Path, kind: str = "parquet") -> list[int]:
    """The column `n` as Spark's own reader of the folder sees it."""
    rows = spark.read.format(kind).schema("n long").load(str(folder))
    return sorted(row.n for row in rows.collect())


def lying(folder: Path) -> list[str]:
    """The data files in the folder, named by the log or not."""
    found = (path for path in folder.rglob("*part-*") if path.is_file() and path.suffix != ".crc")
    return sorted(str(path.relative_to(folder)) for path in found)


def listed(folder: Path) -> list[int]:
    """The column `n` as a reader sees it that lists the folder."""
    found = ds.dataset(folder, format="parquet", exclude_invalid_files=False).to_table() if folder.exists() else {}
    return sorted(found["n"].to_pylist()) if "n" in getattr(found, "column_names", ()) else []


@pytest.mark.parametrize("kind", ["parquet", "orc", "json", "csv"])
def test_batches_are_added_and_spark_reads_each_once(spark: SparkSession, folder: Path, kind: str) -> None:
    sink = files(folder, format=kind)
    assert write(sink, numbers(spark, [1, 2]), a_batch(0)) == Written(repeated=False)
    assert write(sink, numbers(spark, []), a_batch(1)) == Written(repeated=False)
    for number in range(2, 13):
        write(sink, numbers(spark, [number + 1]), a_batch(number))
    assert read(spark, folder, kind) == list(range(1, 14))
    assert {path.name for path in (folder / FOLDER).iterdir()} >= {"0", "1", "9.compact", "12", "_tenure.json"}


def test_a_stream_over_the_folder_sees_each_row_once(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    sink, copy = files(folder), tmp_path / "copy"
    for number in range(3):
        write(sink, numbers(spark, [number]), a_batch(number))
        (folder / "part-of-nobody.parquet").write_bytes(b"no Parquet")
        reader = spark.readStream.schema("n long").parquet(str(folder))
        query = reader.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{tmp_path}/checkpoint")
        query.format("parquet").start(str(copy)).awaitTermination()
    assert read(spark, copy) == [0, 1, 2]


def test_options_of_the_format_are_spark_s(spark: SparkSession, folder: Path) -> None:
    write(files(folder, format="csv", options={"header": "true", "sep": ";"}), totals(spark, {"a": 1}), a_batch(0))
    (path,) = lying(folder)
    assert (folder / path).read_text() == "k;n\na;1\n"


def test_partitions_are_folders_that_spark_finds(spark: SparkSession, folder: Path) -> None:
    sink = files(folder, partition_by=["k"])
    write(sink, totals(spark, {"a b/c=d%": 1, None: 2, "ü": 3}), a_batch(0))
    write(sink, totals(spark, {"a b/c=d%": 4}), a_batch(1))
    found = spark.read.parquet(str(folder)).collect()
    assert {(row.k, row.n) for row in found} == {("a b/c=d%", 1), (None, 2), ("ü", 3), ("a b/c=d%", 4)}


@pytest.mark.parametrize("partition_by", [(), ("k",)], ids=["plain", "partitioned"])
def test_a_repeated_batch_is_skipped_but_evaluated_once(
    spark: SparkSession, folder: Path, partition_by: tuple[str, ...]
) -> None:
    write(files(folder, partition_by=partition_by), totals(spark, {"a": 1, "b": 2}), a_batch(0))
    before = lying(folder)
    evaluated = spark.sparkContext.accumulator(0)

    @f.udf("long")
    def counted(value: int) -> int:
        evaluated.add(1)
        return value

    rows = totals(spark, {"a": 1, "b": 2}).select("k", counted("n").alias("n"))
    seen = Seen()
    again = files(folder, partition_by=partition_by)
    assert write(again, rows, a_batch(0, epoch=2), seen=seen) == Written(repeated=True)
    assert evaluated.value == 2
    assert lying(folder) == before, "what the repeated attempt staged is gone, and only that"
    assert seen.names() == []
    assert write(again, totals(spark, {"a": 3}), a_batch(1, epoch=2)) == Written(repeated=False)
    assert sorted(row.n for row in spark.read.parquet(str(folder)).collect()) == [1, 2, 3]


@pytest.mark.parametrize("partition_by", [(), ("k",)], ids=["plain", "partitioned"])
def test_nothing_is_visible_before_the_plan(spark: SparkSession, folder: Path, partition_by: tuple[str, ...]) -> None:
    paused = Paused(files(folder, partition_by=partition_by), totals(spark, {"a": 1}), a_batch(0)).start()
    assert lying(folder)
    rows = spark.read.schema("n long, k string").parquet(str(folder))
    assert rows.count() == 0
    paused.go_on()
    assert spark.read.parquet(str(folder)).count() == 1


@pytest.mark.parametrize("partition_by", [(), ("k",)], ids=["plain", "partitioned"])
@pytest.mark.parametrize("batches", [1, 12], ids=["its batch", "many batches"])
def test_a_leader_that_wakes_after_its_successor_changes_nothing(
    spark: SparkSession, folder: Path, partition_by: tuple[str, ...], batches: int
) -> None:
    paused = Paused(files(folder, partition_by=partition_by), totals(spark, {"a": -1}), a_batch(0)).start()
    successor = files(folder, partition_by=partition_by)
    for number in range(batches):
        write(successor, totals(spark, {"a": number}), a_batch(number, epoch=2))
    before = lying(folder)
    assert paused.go_on() == Written(repeated=True)
    assert paused.seen.names() == ["WriteRefused"]
    assert sorted(row.n for row in spark.read.parquet(str(folder)).collect()) == list(range(batches))
    assert len(lying(folder)) == len(before) - 1, "its own file, and only that, is gone"


def test_a_job_of_plain_spark_goes_on_under_tenure_and_back(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"

    def plain_job(value: int) -> str:
        """One batch of a job on plain Spark; its query id."""
        numbers(spark, [value]).coalesce(1).write.mode("append").parquet(str(source))
        reader = spark.readStream.schema("n long").parquet(str(source))
        writer = reader.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{tmp_path}/checkpoint")
        query = writer.format("parquet").start(str(folder))
        query.awaitTermination()
        return str(query.id)

    query_id = [plain_job(0), plain_job(1)][-1]
    sink = files(folder)
    assert write(sink, numbers(spark, [1]), a_batch(1, query_id=query_id)) == Written(repeated=True)
    assert write(sink, numbers(spark, [2]), a_batch(2, query_id=query_id)) == Written(repeated=False)
    assert read(spark, folder) == [0, 1, 2]
    plain_job(3)  # its batch 2: Spark's own sink finds it in the log
    assert read(spark, folder) == [0, 1, 2]
    plain_job(4)
    assert read(spark, folder) == [0, 1, 2, 4]
    with pytest.raises(QueryFailed, match="has batch 3 of the same query by a job that is not this pipeline"):
        write(sink, numbers(spark, [3]), a_batch(3, query_id=query_id))


def test_a_job_that_fails_touches_no_other_file(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    sink, first_is_done = files(folder), tmp_path / "first is done"
    write(sink, numbers(spark, [1]), a_batch(0))

    def fails_after_the_first(number: int) -> int:
        while number == 1:
            if first_is_done.exists():
                raise ValueError("no")
            time.sleep(0.01)
        return number

    def tell() -> None:
        tracker = spark.sparkContext.statusTracker()

        def one_of_two() -> bool:
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            return any(one is not None and (one.numTasks, one.numCompletedTasks) == (2, 1) for one in stages)

        wait_until(one_of_two)
        first_is_done.touch()

    rows = spark.range(0, 2, 1, 2).select(f.udf(fails_after_the_first, "long")("id").alias("n"))
    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(tell)
        with pytest.raises(PySparkException, match="no"):
            write(sink, rows, a_batch(1))
        told.result()
    assert read(spark, folder) == [1]
    assert len(lying(folder)) == 1, "what the finished task had put is gone, too"
    assert write(sink, numbers(spark, [2]), a_batch(1)) == Written(repeated=False)
    assert read(spark, folder) == [1, 2]


def test_the_attempt_of_a_dead_leader_goes_once_its_batch_is_in_the_log(spark: SparkSession, folder: Path) -> None:
    dead = Paused(files(folder), numbers(spark, [9]), a_batch(0)).start()
    sink = files(folder)
    attempts = Attempts("flights", "hourly", lambda: ["q-1"], epoch=2, planned=lambda: Planned("q-1", 0))
    staged = sink.staged(attempts)
    assert not staged.find(), "its leader may be paused before its entry, and wake"
    write(sink, numbers(spark, [1]), a_batch(0, epoch=2))
    for name in staged.find():
        staged.remove(TERM, name)
    assert len(lying(folder)) == 1
    assert dead.go_on() == Written(repeated=True)
    assert read(spark, folder) == [1]


def test_two_scopes_with_one_checkpoint_are_refused(spark: SparkSession, folder: Path) -> None:
    first, second = files(folder), files(folder)
    write(first, numbers(spark, [0]), a_batch(0))
    write(second, numbers(spark, [1]), replace(a_batch(1), scope="copied"))
    for sink in (first, files(folder)):
        with pytest.raises(QueryFailed):
            write(sink, numbers(spark, [1]), a_batch(1, epoch=2))
    assert read(spark, folder) == [0, 1]


def test_another_query_or_another_life_is_refused_before_it_stages(spark: SparkSession, folder: Path) -> None:
    write(files(folder), numbers(spark, [1]), a_batch(0))
    before = lying(folder)
    for batch in (0, 1):
        with pytest.raises(QueryFailed, match="belongs to stream 'hourly' of scope 'flights' with query id q-1"):
            write(files(folder), numbers(spark, [2]), a_batch(batch, query_id="q-2"))
    assert lying(folder) == before


@pytest.mark.parametrize("partition_by", [(), ("k",)], ids=["plain", "partitioned"])
def test_a_first_batch_that_was_never_planned_leaves_the_folder_to_the_next_life(
    spark: SparkSession, folder: Path, partition_by: tuple[str, ...]
) -> None:
    """A leader that died there had given the folder to a query that nobody can go on with."""

    def dies() -> None:
        raise StorageError("the leader dies")

    with pytest.raises(StorageError, match="the leader dies"):
        write(files(folder, partition_by=partition_by), totals(spark, {"a": 1}), a_batch(0), planned=dies)
    assert lying(folder)
    assert spark.read.schema("n long, k string").parquet(str(folder)).count() == 0
    again = files(folder, partition_by=partition_by)
    assert write(again, totals(spark, {"a": 2}), a_batch(0, epoch=2, query_id="q-2")) == Written(repeated=False)
    assert [row.n for row in spark.read.parquet(str(folder)).collect()] == [2]


def test_a_folder_with_other_files_is_refused(spark: SparkSession, folder: Path) -> None:
    numbers(spark, [1]).write.parquet(str(folder))
    with pytest.raises(UsageError, match=f"has no log of Spark's file sink .{FOLDER}., but part-"):
        write(files(folder), numbers(spark, [2]), a_batch(0))
    assert not (folder / OWNER).exists()


@pytest.mark.parametrize("partition_by", [(), ("k",)], ids=["plain", "partitioned"])
def test_what_attempts_of_dead_leaders_left_is_found_and_removed(
    spark: SparkSession, folder: Path, partition_by: tuple[str, ...]
) -> None:
    sink = files(folder, partition_by=partition_by)
    write(sink, totals(spark, {"a": 0}), a_batch(0))
    first = set(lying(folder))
    dead = [Paused(files(folder), totals(spark, {"a": 9}), a_batch(number)).start() for number in (0, 1)]
    left = set(lying(folder)) - first
    of_now = Paused(files(folder), totals(spark, {"a": 8}), a_batch(1, epoch=2)).start()
    write(sink, totals(spark, {"a": 1}), a_batch(1, epoch=2))
    attempts = Attempts("flights", "hourly", lambda: ["q-1"], epoch=2, planned=lambda: Planned("q-1", 1))
    kept = set(lying(folder)) - left
    found = set(sink.staged(attempts).find())
    assert {path for path in found if not path.endswith(".crc")} == left
    staged = sink.staged(attempts)
    for name in found:
        assert name in staged.find(), "what could not be removed is found again"
        staged.remove(TERM, name)
    assert set(lying(folder)) == kept
    assert not staged.find()
    assert not sink.staged(attempts).find()
    for one in (*dead, of_now):
        assert one.go_on() == Written(repeated=True)
    assert sorted(row.n for row in spark.read.parquet(str(folder)).collect()) == [0, 1]


@pytest.mark.parametrize(
    ("options", "mode", "words"),
    [
        ({"format": "avro"}, "append", "format 'avro' of a Files sink is unknown; give one of parquet"),
        ({"layout": "flat"}, "append", "layout 'flat' of a Files sink is unknown; give log or folders"),
        ({}, "complete", "complete mode into the files of"),
        ({}, "update", "update mode into the files of"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder: Path, options: dict[str, Any], mode: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        Files(folder, **options).check(output_mode=mode)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("options", "rows", "words"),
    [
        ({"format": "csv"}, "array(1) as a", "column a has type array, which csv cannot hold"),
        ({"partition_by": ["b"]}, "1 as a", "partition_by names column 'b', which the rows lack; they have a"),
        ({"partition_by": ["a"]}, "1 as a", "partition_by names every column"),
        ({"partition_by": ["a"]}, "map(1, 2) as a, 1 as b", "column a has type map, which a folder's name cannot hold"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    spark: SparkSession, folder: Path, options: dict[str, Any], rows: str, words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        files(folder, **options).check_rows(spark.sql(f"select {rows}"))
    assert words in str(refused.value)


class TestFolders:
    """Each batch is a folder, which is there whole or not at all."""

    def test_readers_that_list_the_folder_see_each_batch_once(self, spark: SparkSession, folder: Path) -> None:
        sink = files(folder, layout="folders")
        for number in range(12):
            write(sink, numbers(spark, [number] if number != 3 else []), a_batch(number))
        assert listed(folder) == [0, 1, 2, *range(4, 12)]
        assert sorted(path.name for path in folder.iterdir())[:3] == ["_tenure", "b000000000000", "b000000000001"]
        assert not lying(folder / "_tenure")
        assert write(files(folder, layout="folders"), numbers(spark, [-1]), a_batch(11, epoch=2)).repeated
        assert listed(folder) == [0, 1, 2, *range(4, 12)]

    def test_nothing_is_visible_before_the_plan_nor_of_who_wakes_later(self, spark: SparkSession, folder: Path) -> None:
        paused = Paused(files(folder, layout="folders"), numbers(spark, [-1, -2]), a_batch(0)).start()
        assert listed(folder) == []
        write(files(folder, layout="folders"), numbers(spark, [1, 2]), a_batch(0, epoch=2))
        assert paused.go_on() == Written(repeated=True)
        assert listed(folder) == [1, 2]

    @pytest.mark.parametrize("batch", [0, 9], ids=["plain", "whole entry"])
    def test_a_batch_whose_leader_died_before_the_rename_gets_its_name_from_the_next(
        self, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, batch: int
    ) -> None:
        sink = files(folder, layout="folders")
        for number in range(batch):
            write(sink, numbers(spark, [number]), a_batch(number))
        with monkeypatch.context() as patched:
            patched.setattr(Files, "_publish", lambda *_: None)
            write(sink, numbers(spark, [batch]), a_batch(batch))
        assert listed(folder) == list(range(batch))
        assert write(files(folder, layout="folders"), numbers(spark, [-1]), a_batch(batch, epoch=2)).repeated
        assert listed(folder) == list(range(batch + 1))

    def test_a_batch_that_a_reader_has_consumed_does_not_come_back(self, spark: SparkSession, folder: Path) -> None:
        paused = Paused(files(folder, layout="folders"), numbers(spark, [-1]), a_batch(0)).start()
        write(files(folder, layout="folders"), numbers(spark, [1]), a_batch(0, epoch=2))
        shutil.rmtree(folder / "b000000000000")
        assert paused.go_on().repeated
        assert write(files(folder, layout="folders"), numbers(spark, [1]), a_batch(0, epoch=3)).repeated
        assert listed(folder) == []

    def test_partitions_lie_in_the_batch_s_folder(self, spark: SparkSession, folder: Path) -> None:
        write(files(folder, layout="folders", partition_by=["k"]), totals(spark, {"a": 1, "b": 2}), a_batch(0))
        assert sorted(path.name for path in (folder / "b000000000000").iterdir()) == ["k=a", "k=b"]

    def test_what_attempts_left_is_found_also_with_partitions(self, spark: SparkSession, folder: Path) -> None:
        sink = files(folder, layout="folders", partition_by=["k"])
        dead = Paused(files(folder, layout="folders", partition_by=["k"]), totals(spark, {"a": 9}), a_batch(0)).start()
        write(sink, totals(spark, {"a": 1}), a_batch(0, epoch=2))
        staged = sink.staged(Attempts("flights", "hourly", lambda: ["q-1"], epoch=2, planned=lambda: Planned("q-1", 0)))
        (name,) = staged.find()
        staged.remove(TERM, name)
        assert not lying(folder / "_tenure")
        assert dead.go_on().repeated

    def test_a_name_that_somebody_took_is_a_failure_of_the_target(self, spark: SparkSession, folder: Path) -> None:
        (folder / "b000000000000" / "notes").mkdir(parents=True)
        (folder / "_tenure").mkdir()
        sink = files(folder, layout="folders")
        with pytest.raises(UsageError, match="but b000000000000 lies there"):
            write(sink, numbers(spark, [1]), a_batch(0))
        shutil.rmtree(folder / "b000000000000")
        write(sink, numbers(spark, [1]), a_batch(0))
        (folder / "b000000000001" / "notes").mkdir(parents=True)
        with pytest.raises(StorageError, match="cannot move"):
            write(sink, numbers(spark, [2]), a_batch(1))
        shutil.rmtree(folder / "b000000000001")
        assert write(sink, numbers(spark, [-2]), a_batch(1)).repeated
        assert listed(folder) == [1, 2]
