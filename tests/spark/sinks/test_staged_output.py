"""Staged files: put once under their last names, and listed by the attempts of tasks that Spark counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tenure.sinks.staging.stage import _SETTINGS, Format, stage
from tests.jvm import SharedJvm, settings_of
from tests.spark.sinks.support import a_batch, a_sink, named, numbers, staged, visible, write

pytestmark = pytest.mark.spark
TEXT = Format("text", {})


def start() -> SparkSession:
    """A session whose tasks are tried twice."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm) -> Iterator[SparkSession]:
    with jvm.lent(start) as session:
        yield session


def failing_once(rows: DataFrame, table: Path, *, stray: bool) -> DataFrame:
    """The rows, at the last of which a task fails, the first time. `stray`: a file of a task that was lost is there."""
    failed = table.parent / "failed"

    def check(number: int) -> int:
        if number == 9 and not failed.exists():
            failed.touch()
            if stray:
                (begun,) = table.glob("tenure-*/**/part-*.parquet")
                begun.with_name("part-00000-7-lost.parquet").write_bytes(b"half")
            raise ValueError("the first time")
        return number

    return rows.coalesce(1).sortWithinPartitions("n").select(udf(check, "long")("n").alias("n"))


@pytest.mark.parametrize("stray", [False, True])
def test_a_task_that_failed_leaves_no_file_and_is_not_listed(spark: SparkSession, table: Path, stray: bool) -> None:
    rows = failing_once(numbers(spark, range(10)), table, stray=stray)
    write(a_sink(table), rows, a_batch(0))
    assert (table.parent / "failed").exists()
    assert visible(table) == list(range(10))
    assert {str(path.relative_to(table)) for path in staged(table)} == named(table)
    assert len(named(table)) == 1


def test_a_job_that_failed_leaves_nothing(spark: SparkSession, table: Path) -> None:
    with pytest.raises(Exception, match="divi"):
        write(a_sink(table), numbers(spark, [1, 2]).selectExpr("if(n > 1, raise_error('divided'), n) as n"), a_batch(0))
    assert staged(table) == []


def test_a_file_of_another_format_never_counts_as_one_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Its last bytes say, if they were Parquet's, that nothing stands before the footer. Each ORC file of a certain
    size has such bytes."""
    text = "x" * 69 + "A\0\0\0" + "end"  # 65 bytes of a footer, and 12 of Parquet's: the size of the whole
    rows = spark.createDataFrame([(text,)], "value string").coalesce(1)
    found = stage(rows, f"file://{tmp_path}/new", partition_by=[], files=TEXT)
    assert [put.size for put in found.puts] == [77]
    (file,) = tmp_path.rglob("*.txt")
    assert file.read_text() == f"{text}\n"


def test_files_have_their_last_names_and_none_without_rows_is_written(spark: SparkSession, tmp_path: Path) -> None:
    for name in _SETTINGS:  # another module of this JVM may have set one
        spark.conf.unset(name)
    before = settings_of(spark)
    rows = spark.range(4).repartition(4).selectExpr("id", "id % 2 as half").where("id > 0")
    found = stage(rows, f"file://{tmp_path}/a b%41", partition_by=["half"])
    files = {str(path.relative_to(tmp_path / "a b%41")): path for path in (tmp_path / "a b%41").rglob("*.parquet")}
    assert {put.path for put in found.puts} == files.keys()
    assert not found.again
    for put in found.puts:
        content = files[put.path].read_bytes()
        assert (put.size, put.end) == (len(content), content[-len(put.end) :])
        assert put.path.split("/")[0] in ("half=0", "half=1")
    assert settings_of(spark) == before
    assert stage(spark.range(0), f"file://{tmp_path}/none", partition_by=()).puts == []
    assert list((tmp_path / "none").rglob("*.parquet")) == []


def test_a_long_footer_is_not_sent(spark: SparkSession, tmp_path: Path) -> None:
    wide = spark.range(3).selectExpr(*(f"id as {'c' * 300}{number}" for number in range(1500)))
    (put,) = stage(wide.coalesce(1), f"file://{tmp_path}/wide", partition_by=()).puts
    assert put.end == b""
    assert put.size == (tmp_path / "wide" / put.path).stat().st_size
