"""Delta when the storage or the reply fails: the batch is in once, or one clear line says why it is not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tenure.errors import StorageError, TenureError
from tenure.sinks.delta.log import DeltaLog
from tenure.sinks.delta.sink import Delta
from tenure.sinks.sink import OutputMode, Written
from tests.spark.sinks.support import Paused, Seen, a_batch, a_sink, named, numbers, staged, totals, visible, write

pytestmark = pytest.mark.spark

MODES: list[OutputMode] = ["append", "complete", "update"]


def sink_for(table: Path, mode: OutputMode) -> Delta:
    return a_sink(table, mode, key=["k"] if mode == "update" else [])


def rows_for(spark: SparkSession, number: int) -> DataFrame:
    return totals(spark, {f"k{number}": number})


def around_commits(monkeypatch: pytest.MonkeyPatch, around: Callable[[Callable[[], Any]], Any]) -> None:
    """Let `around(commit)` run in the place of each commit of a batch, in whatever mode."""
    add = DeltaTable.create_write_transaction

    def adding(table: DeltaTable, *args: Any, **options: Any) -> Any:
        return around(lambda: add(table, *args, **options))

    monkeypatch.setattr(DeltaTable, "create_write_transaction", adding)


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_whose_reply_is_lost_is_in_once(
    spark: SparkSession, table: Path, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_for(table, mode)
    write(sink, rows_for(spark, 0), a_batch(0))
    commits = []

    def lost(commit: Callable[[], Any]) -> Any:
        commit()
        commits.append(1)
        raise OSError("connection reset")

    around_commits(monkeypatch, lost)
    seen = Seen()
    assert write(sink, rows_for(spark, 1), a_batch(1), seen=seen) == Written(repeated=False)
    assert len(commits) == 1
    assert seen.names() == []
    assert visible(table) == ([1] if mode == "complete" else [0, 1])
    assert all((table / path).exists() for path in named(table)), "its own files are not taken for a loser's"


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_that_never_arrived_is_sent_again(
    spark: SparkSession, table: Path, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_for(table, mode)
    write(sink, rows_for(spark, 0), a_batch(0))
    attempts = []

    def late(commit: Callable[[], Any]) -> Any:
        attempts.append(1)
        if len(attempts) < 3:
            raise OSError("connection refused")
        return commit()

    around_commits(monkeypatch, late)
    assert write(sink, rows_for(spark, 1), a_batch(1)) == Written(repeated=False)
    assert visible(table) == ([1] if mode == "complete" else [0, 1])


@pytest.mark.parametrize("mode", MODES)
def test_a_lost_reply_on_the_last_attempt_is_settled_too(
    spark: SparkSession, table: Path, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_for(table, mode)
    write(sink, rows_for(spark, 0), a_batch(0))
    attempts = []

    def last_is_lost(commit: Callable[[], Any]) -> Any:
        attempts.append(1)
        if len(attempts) == 4:
            commit()
        raise OSError("connection reset")

    around_commits(monkeypatch, last_is_lost)
    assert write(sink, rows_for(spark, 1), a_batch(1)) == Written(repeated=False)
    assert len(attempts) == 4
    assert visible(table) == ([1] if mode == "complete" else [0, 1])


@pytest.mark.parametrize("mode", MODES)
def test_a_storage_that_stays_away_is_one_clear_line(
    spark: SparkSession, table: Path, mode: OutputMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_for(table, mode)
    write(sink, rows_for(spark, 0), a_batch(0))

    def away(commit: Callable[[], Any]) -> Any:
        raise OSError("connection refused")

    with monkeypatch.context() as patch:
        around_commits(patch, away)
        with pytest.raises(StorageError, match=r"batch 1 (to|into) .*connection refused") as raised:
            write(sink, rows_for(spark, 1), a_batch(1))
    assert "\n" not in str(raised.value)
    assert visible(table) == [0]
    assert write(sink, rows_for(spark, 1), a_batch(1)) == Written(repeated=False)
    assert visible(table) == ([1] if mode == "complete" else [0, 1])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_storage_that_is_away_for_a_moment_costs_no_term(
    spark: SparkSession, table: Path, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first look of a leader, before the rows are staged and meanwhile."""
    if is_there:
        write(sink_for(table, "append"), rows_for(spark, 0), a_batch(0))
    refresh, looks = DeltaLog.refresh, count()

    def refreshed(log: DeltaLog) -> None:
        if next(looks) < 2:
            log.fresh = False
            raise StorageError("away")
        refresh(log)

    monkeypatch.setattr(DeltaLog, "refresh", refreshed)
    assert write(sink_for(table, "append"), rows_for(spark, 1), a_batch(1)) == Written(repeated=False)
    assert visible(table) == ([0, 1] if is_there else [1])


def test_a_lost_reply_of_a_batch_that_somebody_else_went_past(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is lost, and before the writer looks its successor has committed the next batch: whose is it?"""
    write(a_sink(table), rows_for(spark, 0), a_batch(0))
    zombie = Paused(a_sink(table), rows_for(spark, 1), a_batch(1, epoch=1))
    zombie.planned = lambda: None

    def lost(commit: Callable[[], Any]) -> Any:
        commit()
        zombie.stop()
        raise OSError("connection reset")

    with monkeypatch.context() as patch:
        around_commits(patch, lost)
        zombie.start()
    successor = a_sink(table)
    assert write(successor, rows_for(spark, 1), a_batch(1, epoch=2)) == Written(repeated=True)
    assert write(successor, rows_for(spark, 2), a_batch(2, epoch=2)) == Written(repeated=False)
    assert zombie.go_on() == Written(repeated=False)
    assert visible(table) == [0, 1, 2]


def test_own_staging_that_cannot_be_deleted_is_reported(
    spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(a_sink(table), numbers(spark, [1]), a_batch(0))

    def refuse(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(Delta, "_remove", staticmethod(refuse))
    seen = Seen()
    assert write(a_sink(table), numbers(spark, [1]), a_batch(0, epoch=2), seen=seen) == Written(repeated=True)
    assert seen.names() == ["BlobLeft"]
    assert visible(table) == [1]


def test_an_error_in_the_rows_is_not_blamed_on_the_storage(spark: SparkSession, table: Path) -> None:
    @f.udf("long")
    def failing(value: int) -> int:
        raise OSError(28, "No space left on device", f"/elsewhere/{value}")

    with pytest.raises(Exception, match="No space left on device") as raised:
        write(a_sink(table), numbers(spark, [1]).select(failing("n").alias("n")), a_batch(0))
    assert not isinstance(raised.value, TenureError)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a disk can be mounted only by root: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def wide(spark: SparkSession) -> DataFrame:
    """4 MiB that do not compress."""
    return spark.sql("select id as n, base64(aes_encrypt(repeat(id, 2000), '0123456789abcdef')) as s from range(2000)")


def test_a_full_disk_is_one_clear_line(spark: SparkSession, small_disk: Path) -> None:
    table = small_disk / "table"
    sink = a_sink(table)
    write(sink, wide(spark).limit(1), a_batch(0))
    # What is freed afterwards, as a person would: tasks of the failed attempt may hold their space for a while longer.
    filler = small_disk / "filler"
    filler.write_bytes(b"\0" * 1024 * 1024)
    with pytest.raises(StorageError, match=r"cannot write to file://.*: No space left on device") as raised:
        write(sink, wide(spark), a_batch(1))
    assert str(table) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 6
    assert visible(table) == [0]
    filler.unlink()
    assert write(sink, wide(spark).limit(1), a_batch(1)) == Written(repeated=False)


def test_a_disk_that_is_full_at_the_commit_is_one_clear_line(spark: SparkSession, small_disk: Path) -> None:
    table = small_disk / "table"
    sink = a_sink(table)
    write(sink, numbers(spark, [1]), a_batch(0))
    filler = small_disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096):
                    pass
            except OSError:
                os.fsync(file.fileno())

    with pytest.raises(StorageError, match=r"batch 1 .*") as raised:
        write(sink, numbers(spark, [2]), a_batch(1), planned=fill)
    assert str(table) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert visible(table) == [1]
    filler.unlink()
    assert write(sink, numbers(spark, [2]), a_batch(1)) == Written(repeated=False)
    assert visible(table) == [1, 2]


@pytest.mark.parametrize("exists", [True, False])
def test_a_read_only_disk_is_one_clear_line(spark: SparkSession, small_disk: Path, exists: bool) -> None:
    table = small_disk / "table"
    if exists:
        write(a_sink(table), numbers(spark, [1]), a_batch(0))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageError) as raised:
        write(a_sink(table), numbers(spark, [2]), a_batch(1))
    assert str(table) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 6
    assert visible(table) == ([1] if exists else [])
    assert len(staged(table)) == (1 if exists else 0)
