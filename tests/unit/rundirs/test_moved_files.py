"""Files of a source that moved as a whole: where they are now, and whether they are the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tenure.checkpoints.source import ANOTHER, FILES, KAFKA, Source
from tenure.errors import CorruptRunDirectory, DeclaredOtherwise
from tenure.rundirs.moved_files import Move, check_known, check_moved, moved_entry, moves_between
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import newest_of_log


@pytest.mark.parametrize(
    ("old", "new", "url", "moved"),
    [
        ("file:/a", "file:/b", "file:///a/x/1%20.json", "file:///b/x/1%20.json"),
        ("file:/a", "file:/b", "file:/a/1.json", "file:/b/1.json"),
        ("file:/a", "file:/b", "file:///ab/1.json", "file:///ab/1.json"),
        ("file:/a/1.json", "file:/b/1.json", "file:///a/1.json", "file:///b/1.json"),
        ("s3a://one/a", "s3a://two/b/c", "s3a://one/a/1.json", "s3a://two/b/c/1.json"),
        ("s3a://one/a", "s3a://two/a", "s3a://other/a/1.json", "s3a://other/a/1.json"),
        ("hdfs://n:1/a", "file:/b", "hdfs://n:1/a/1.json", "file:///b/1.json"),
        ("file:/a", "s3a://two/b", "file:///a/1.json", "s3a://two/b/1.json"),
        ("file:/a", "file:/b", "no url", "no url"),
    ],
)
def test_where_a_file_is_now(old: str, new: str, url: str, moved: str) -> None:
    assert Move(old, new).of(url) == moved


def files(path: str, folder: str = "0", kind: str = FILES) -> Source:
    return Source.of(folder, kind, path, path=path)


@pytest.mark.parametrize(
    ("was", "now", "moves"),
    [
        ({"0": "file:/a"}, files("file:/b"), {"0": Move("file:/a", "file:/b")}),
        ({"0": "file:/a/*/x%5B"}, files("file:/b/*/y"), {"0": Move("file:/a", "file:/b")}),
        ({"0": "file:/a"}, files("file:/a/%7Bb,c%7D"), {}),
        ({"0": "file:/a"}, files("file:/a"), {}),
        ({}, files("file:/b"), {}),
        ({"0": "file:/a"}, files(""), {}),
        ({"0": "file:/a"}, files("file:/b", kind=ANOTHER), {}),
        ({"0": "file:/a"}, files("file:/b", "1"), {}),
    ],
)
def test_which_sources_have_moved(was: dict[str, str], now: Source, moves: dict[str, Move]) -> None:
    assert moves_between(was, [now]) == moves


def entry(*files: tuple[str, int]) -> str:
    lines = [
        json.dumps({"path": path, "timestamp": at, "batchId": 3}, separators=(",", ":"), ensure_ascii=False)
        for path, at in files
    ]
    return "\n".join(["v1", *lines])


def test_a_log_names_the_new_place() -> None:
    move = Move("file:/a", "file:/b")
    assert moved_entry(entry(("file:///a/ü", 1), ("file:///c/2", 2)), move) == entry(
        ("file:///b/ü", 1), ("file:///c/2", 2)
    )
    assert moved_entry("v1", move) == "v1"


@pytest.mark.parametrize(
    ("names", "last", "newest"),
    [((), 5, None), (("1", "2", "3"), 2, "2"), (("2", "2.compact", "1"), 2, "2.compact"), (("9.compact",), 5, None)],
)
def test_the_newest_file_of_a_log(names: Sequence[str], last: int, newest: str | None) -> None:
    assert newest_of_log(names, last) == newest


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({"file:///b/1": 1, "file:///b/2 ": 2}, None),
        ({"file:///b/1": 1, "file:///b/2 ": 3}, "file:///a/2 , has another time there"),
        ({"file:///b/1": 1}, "file:///a/2 , is not there"),
        ({}, "file:///a/1, is not there"),
    ],
)
def test_the_newest_files_are_compared_by_their_times(tmp_path: Path, there: dict[str, int], why: str | None) -> None:
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/3").write_text(entry(("file:///a/1", 1), ("file:///a/2%20", 2)))

    def check() -> None:
        check_moved(
            RunDirectory(str(tmp_path)),
            {"0": Move("file:/a", "file:/b")},
            query="q",
            offsets='v1\n{}\n{"logOffset":3}',
            folders=("0",),
            times=lambda paths: [there.get(path) for path in paths],
        )

    if why is None:
        check()
        return
    with pytest.raises(DeclaredOtherwise, match="source 0 of query 'q' has moved from file:/a to file:/b") as refused:
        check()
    assert why in refused.value.what
    assert refused.value.fix == "link or mount them at the old path, or give the query a new name"


def test_folders_that_were_swapped_have_not_moved(tmp_path: Path) -> None:
    """Their files may have the same names and times: one process wrote both folders, or a copy kept the times."""
    for folder, path in (("0", "a"), ("1", "b")):
        (tmp_path / "sources" / folder).mkdir(parents=True)
        (tmp_path / "sources" / folder / "3").write_text(entry((f"file:///{path}/1", 1)))
    there = {"file:///a/1": 1, "file:///b/1": 1}
    with pytest.raises(DeclaredOtherwise, match="source 0 of query 'q' reads file:/b now, which was source 1"):
        check_moved(
            RunDirectory(str(tmp_path)),
            {"0": Move("file:/a", "file:/b"), "1": Move("file:/b", "file:/a")},
            query="q",
            offsets='v1\n{}\n{"logOffset":3}\n{"logOffset":3}',
            folders=("0", "1"),
            times=lambda paths: [there.get(path) for path in paths],
        )


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ("file:/a", True),
        ("file:/a/*.json", True),
        ("/a", True),
        ("*", True),
        ("file:/in put", True),
        ("file:/in%20put", True),
        ("file:/b", False),
        ("file:/a/1/2", False),
        ("s3a:/a", False),
        ("file:/aa", False),
    ],
)
def test_a_source_whose_path_nobody_recorded_has_to_be_where_its_files_are(
    tmp_path: Path, declared: str, named: bool
) -> None:
    """An adopted query whose folder had moved read all files once more, with or without a flag."""
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/3").write_text(entry(("file:///b%20/1", 1), ("file:///in%20put/2", 2), ("file:///a/1", 3)))

    def check() -> None:
        directory, offsets = RunDirectory(str(tmp_path)), 'v1\n{}\n{"logOffset":3}'
        check_known(directory, [files(declared)], query="q", offsets=offsets, folders=("0",))

    if named:
        check()
        return
    with pytest.raises(DeclaredOtherwise) as refused:
        check()
    elsewhere = "and each file of its last batches lies elsewhere, as file:///a/1"
    assert f"source 0 of query 'q' reads {declared}, {elsewhere}" in refused.value.what


def test_a_source_without_files_may_be_anywhere(tmp_path: Path) -> None:
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/3").write_text(entry())
    sources = [files("file:/b"), files("", "1", kind=KAFKA)]
    offsets = 'v1\n{}\n{"logOffset":3}\n{"t":{"0":1}}'
    check_known(RunDirectory(str(tmp_path)), sources, query="q", offsets=offsets, folders=("0", "1"))


@pytest.mark.parametrize("text", ["", "v1\n{", "v1\nnot json"])
def test_a_damaged_log_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/3").write_text(text)
    offsets = 'v1\n{}\n{"logOffset":3}'
    with pytest.raises(CorruptRunDirectory, match="sources/0/3"):
        check_known(RunDirectory(str(tmp_path)), [files("file:/b")], query="q", offsets=offsets, folders=("0",))
