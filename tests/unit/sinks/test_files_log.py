"""The log of a folder of plain files: each batch once, by any writer, in the form of Spark's own file sink."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenure.errors import QueryFailed, StorageError
from tenure.sinks.files.log import FOLDER, OWNER, FileLog, LoggedFile, Query, prefix_of, staged_by
from tenure.sinks.staging.stage import StagingPath
from tenure.storage.local import Local

QUERY = Query("rows", "copy", "id-1")
UID = "0123456789abcdef" * 2


class LosesAReply(Local):
    """Writes a file, and then fails, once."""

    is_due = True

    def _create(self, full: str, data: bytes) -> None:
        super()._create(full, data)
        if self.is_due:
            self.is_due = False
            raise OSError("the line broke")


def log_of(folder: Path) -> FileLog:
    return FileLog(Local(str(folder)), where=str(folder))


def files_of(batch: int, *, attempt: str = UID) -> list[LoggedFile]:
    url = f"file:///out/tenure-rows/copy/id-1/e00000001/b{batch:012d}/{attempt}/part-00000.parquet"
    return [LoggedFile(url, 10 + batch, 1_700_000_000_000)]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / FOLDER).iterdir())


def test_each_batch_once_whoever_writes(tmp_path: Path) -> None:
    paused, successor = log_of(tmp_path), log_of(tmp_path)
    assert paused.add(0, files_of(0))
    assert successor.newest == 0
    assert successor.add(1, files_of(1))
    assert not paused.add(1, files_of(1, attempt="f" * 32)), "the paused writer wakes"
    assert list(log_of(tmp_path).urls()) == [files_of(0)[0].url, files_of(1)[0].url]


def test_a_put_whose_reply_was_lost_is_known_again(tmp_path: Path) -> None:
    log = FileLog(LosesAReply(str(tmp_path)), where="there")
    with pytest.raises(StorageError):
        log.add(0, files_of(0))
    assert log.add(0, files_of(0))
    assert list(log.urls()) == [files_of(0)[0].url]


def test_a_whole_entry_has_all_before_it_and_old_entries_go(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    for batch in range(131):
        assert log.add(batch, files_of(batch))
    assert len(list(log_of(tmp_path).urls())) == 131
    assert "129.compact" in names(tmp_path)
    assert "8" not in names(tmp_path)
    assert "9.compact" not in names(tmp_path)
    assert "29" not in names(tmp_path)
    assert {"29.compact", "30", "130"} <= set(names(tmp_path))


def test_a_put_that_comes_after_its_entry_was_removed_changes_nothing(tmp_path: Path) -> None:
    paused, log = log_of(tmp_path), log_of(tmp_path)
    for batch in range(5):
        log.add(batch, files_of(batch))
    assert paused.newest == 4
    for batch in range(5, 131):
        log.add(batch, files_of(batch))
    paused.add(5, files_of(5, attempt="f" * 32))
    found = list(log_of(tmp_path).urls())
    assert len(found) == 131
    assert not any("f" * 32 in url for url in found)


def test_a_new_folder_begins_where_the_query_is(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert log.add(57, files_of(57))
    assert names(tmp_path) == ["49.compact", *map(str, range(50, 58))]
    assert list(log_of(tmp_path).urls()) == [files_of(57)[0].url]


def test_a_gap_is_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.add(0, files_of(0))
    with pytest.raises(QueryFailed, match="has the batches up to 0, and batch 2 comes now"):
        log.add(2, files_of(2))


def test_a_lost_entry_is_named(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    for batch in range(9):
        log.add(batch, files_of(batch))
    (tmp_path / FOLDER / "4").unlink()
    with pytest.raises(QueryFailed, match="has lost entry 4 of its log"):
        log.add(9, files_of(9))


@pytest.mark.parametrize(
    ("compacted", "next_whole"), [([9], 19), ([19], 39), ([29], 39), ([4, 9], 14), ([14], 29), ([9, 19], 29)]
)
def test_the_interval_is_the_one_that_readers_derive(tmp_path: Path, compacted: list[int], next_whole: int) -> None:
    (tmp_path / FOLDER).mkdir()
    for number in compacted:
        (tmp_path / FOLDER / f"{number}.compact").write_text("v1")
    log = log_of(tmp_path)
    for batch in range(compacted[-1] + 1, next_whole + 1):
        log.add(batch, files_of(batch))
    assert f"{next_whole}.compact" in names(tmp_path)
    assert len(list(log_of(tmp_path).urls())) == next_whole - compacted[-1]


class TestOwner:
    def test_the_folder_is_one_query_s(self, tmp_path: Path) -> None:
        assert log_of(tmp_path).claim(QUERY, batch=0).query == QUERY
        log_of(tmp_path).check(QUERY, batch=3, check_new=pytest.fail)
        assert log_of(tmp_path).claim(QUERY, batch=3).since == 0
        for take in (log_of(tmp_path).check, log_of(tmp_path).claim):
            with pytest.raises(
                QueryFailed, match="belongs to stream 'copy' of scope 'rows' with query id id-1, not to"
            ):
                take(Query("rows", "copy", "id-2"), batch=0)

    def test_a_query_whose_first_batch_was_never_planned_leaves_the_folder_free(self, tmp_path: Path) -> None:
        """The next leader's query has another id, and stood before the owner that a dead one had written, for good."""
        checked: list[str] = []
        log_of(tmp_path).check(QUERY, batch=0, check_new=lambda: checked.append("anna"))
        next_life = Query("rows", "copy", "id-2")
        log_of(tmp_path).check(next_life, batch=0, check_new=lambda: checked.append("ben"))
        assert checked == ["anna"], "what a dead leader staged there is no other job's"
        assert log_of(tmp_path).claim(next_life, batch=0).query == next_life

    def test_a_folder_that_is_refused_is_left_as_it_was(self, tmp_path: Path) -> None:
        (tmp_path / "theirs.parquet").touch()

        def refuse() -> None:
            raise QueryFailed("other files")

        with pytest.raises(QueryFailed, match="other files"):
            log_of(tmp_path).check(QUERY, batch=0, check_new=refuse)
        assert [path.name for path in tmp_path.iterdir()] == ["theirs.parquet"]

    def test_a_scope_that_adopted_the_query_takes_the_folder_over(self, tmp_path: Path) -> None:
        log_of(tmp_path).claim(QUERY, batch=0)
        for number in range(3):
            log_of(tmp_path).add(number, files_of(number))
        moved = Query("rows-2", "copy", "id-1")
        with pytest.raises(QueryFailed, match="up to 2, and batch 1 of stream 'copy' of scope 'rows-2'"):
            log_of(tmp_path).claim(moved, batch=1)
        assert log_of(tmp_path).claim(moved, batch=3).since == 3
        assert log_of(tmp_path).claim(moved, batch=9).since == 3
        with pytest.raises(QueryFailed, match="belongs to stream 'copy' of scope 'rows-2' with query id id-1, not to"):
            log_of(tmp_path).claim(QUERY, batch=3)

    @pytest.mark.parametrize(("batch", "fits"), [(0, False), (1, False), (2, True), (3, True), (4, False)])
    def test_a_query_goes_on_where_a_job_of_plain_spark_is(self, tmp_path: Path, batch: int, fits: bool) -> None:
        for number in range(3):
            log_of(tmp_path).add(number, files_of(number))
        if fits:
            assert log_of(tmp_path).claim(QUERY, batch=batch).since == batch
            return
        with pytest.raises(QueryFailed, match="has the batches of another job, up to 2"):
            log_of(tmp_path).claim(QUERY, batch=batch)
        assert not (tmp_path / OWNER).exists()

    @pytest.mark.parametrize("text", ["", "{}", '{"scope": 1}', "[]"])
    def test_a_damaged_owner_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / FOLDER).mkdir()
        (tmp_path / OWNER).write_text(text)
        with pytest.raises(QueryFailed, match=r"_tenure.json does not decode"):
            log_of(tmp_path).claim(QUERY, batch=0)


@pytest.mark.parametrize("batch", [5, 9], ids=["plain", "whole"])
def test_the_files_of_another_writer_are_foreign(tmp_path: Path, batch: int) -> None:
    log = log_of(tmp_path)
    for number in range(batch):
        log.add(number, files_of(number))
    log.add(batch, [LoggedFile("file:///out/part-00000-0b9e.c000.snappy.parquet", 1, 1)])
    assert log.writers_of(batch) == {None}
    assert log.writers_of(batch - 1) == {"rows"}


@pytest.mark.parametrize("text", ["v2\n{}", "", "v1\nnot json", "v1\n[]"])
def test_a_damaged_entry_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "0").write_text(text)
    with pytest.raises(QueryFailed, match=r"_spark_metadata"):
        list(log_of(tmp_path).urls())


def test_the_names_of_files_are_urls(tmp_path: Path) -> None:
    file = LoggedFile("file:///out/p=a%20b ü?#/part-0.parquet", 1, 1)
    assert json.loads(file.line())["path"] == "file:///out/p=a%2520b%20%C3%BC%3F%23/part-0.parquet"
    log = log_of(tmp_path)
    log.add(0, [file])
    assert list(log.urls()) == [file.url]


@pytest.mark.parametrize("scope", ["rows", "two-words", "a-e00000001-b"])
def test_a_file_tells_its_scope_and_its_attempt(scope: str) -> None:
    path = StagingPath(scope, "co/py", "id-1", 3, 7, UID)
    assert staged_by(f"file:///out/{path}/part-00000.parquet") == (scope, UID)
    assert staged_by(f"s3a://bucket/out/carrier=AA/{prefix_of(path)}part-00000.csv") == (scope, UID)


def test_a_file_of_spark_s_own_sink_tells_nothing() -> None:
    assert staged_by("file:///out/part-00000-1c9c4c2e-0000-0000-0000-000000000000-c000.snappy.parquet") is None
